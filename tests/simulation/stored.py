"""A second, simple-minded account of what the store has taken, kept to compare the runtime's words and memory with.

It is told every write that was stored, in order, and checks each as it comes.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_core.protocol.states import DEAD, EMPTY, PREPARING, STABLE, GroupState, is_legal
from coordinator_core.store.rows import Batch, GroupRow, GroupWrite, MemberRow, OwnershipRow, TransitionRow, Written
from tests.simulation.database import Witness, stored_writes
from tests.simulation.world import World

Partition = tuple[str, int]
FORGOTTEN = "the node was lost"
"""How the reason begins of a transition back from a join phase that a take-over forgot."""


@dataclass(slots=True)
class Life:
    """One life of a group, from its creation to its death."""

    created_at_ms: int
    state: GroupState | None = None
    generation: int = 0
    row: GroupRow | None = None
    members: dict[str, MemberRow] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    """Generations that were started or emptied."""
    assigned: dict[int, dict[str, set[bytes]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    """Generation → member → assignments that were stored for it."""
    preparing: set[int] = field(default_factory=set)
    """Generations in which a join phase began."""
    removed: set[str] = field(default_factory=set)
    holders: dict[Partition, tuple[str, int]] = field(default_factory=dict)
    """Partition → who holds it by the ledger, and since when."""
    owners_told: dict[tuple[int, Partition], str] = field(default_factory=dict)
    """(generation, partition) → the place (instance or member) that was told to own it."""


@dataclass(slots=True)
class Past:
    """All that was ever stored of one group id."""

    lives: list[Life] = field(default_factory=list)
    offsets: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    """Partition → offset as it stands, and the number of its commit."""
    commits: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """(topic, partition, offset) → the number of the newest such commit."""
    answered: dict[Partition, int] = field(default_factory=dict)
    """Partition → the newest commit that was answered NONE."""
    taken_away: dict[Partition, int] = field(default_factory=dict)
    """Partition → how many commits there had been when it was last taken away."""
    open_rebalances: dict[str, float] = field(default_factory=dict)
    closed_rebalances: set[str] = field(default_factory=set)

    @property
    def life(self) -> Life | None:
        """Return the present life, or the last one."""
        return self.lives[-1] if self.lives else None


class Stored(Witness):
    """What stands in the store, by group; a witness of every write and take-over."""

    def __init__(self, world: World, is_alive: Callable[[str, int, int], bool]) -> None:
        """Begin.

        Args:
            world: whose violations and transcript these are.
            is_alive: tells whether a node's process still believes to own a shard under an epoch.
        """
        self.groups: dict[str, Past] = defaultdict(Past)
        self.owners: dict[int, tuple[str, int]] = {}
        """Shard → node and epoch, by what take-overs were answered."""
        self.writes = 0
        self._world = world
        self._is_alive = is_alive
        self._commits = 0

    # -- what the store did --------------------------------------------------------------------------------

    def took(self, node_id: str, epochs: Mapping[int, int], before: Mapping[int, str | None]) -> None:
        """Take note of a take-over."""
        for shard_id, epoch in epochs.items():
            old = self.owners.get(shard_id)
            if old is not None and epoch <= old[1]:
                self._world.fail("EpochsOnlyGrow", f"shard {shard_id} went from epoch {old[1]} to {epoch}")
            if old is not None and old[0] != node_id and self._is_alive(old[0], shard_id, old[1]):
                self._world.strike("lease_overtaken", f"{node_id} takes shard {shard_id} from {old[0]}, which lives")
            self.owners[shard_id] = node_id, epoch
        self._world.note("", f"{node_id} owns " + " ".join(f"{each}@{epoch}" for each, epoch in epochs.items()))

    def wrote(self, batch: Batch, written: Written) -> None:
        """Take note of a batch, and check everything that it stored."""
        for shard_id in sorted(written.lost_shards):
            self._world.strike("stale_write_refused", f"{batch.node_id} for shard {shard_id}")
        for one in stored_writes(batch, written):
            owner = self.owners.get(one.shard_id)
            if owner != (batch.node_id, batch.epochs[one.shard_id]):
                who = f"{batch.node_id} wrote under epoch {batch.epochs[one.shard_id]}"
                self._fail("OneWriterPerShard", one, f"{who}; shard {one.shard_id} is {owner}'s")
            self.writes += 1
            self._take(self.groups[one.group_id], one)

    def _take(self, past: Past, one: GroupWrite) -> None:
        self._note(one)
        for transition in one.transitions:
            self._transition(past, one, transition)
        if one.group is not None:
            self._row(past, one, one.group)
        self._history(past, one)
        self._offsets(past, one)

    def _note(self, one: GroupWrite) -> None:
        path = " ".join(f"{row.from_state}→{row.to_state}@{row.generation} ({row.reason})" for row in one.transitions)
        if one.group is not None or path:
            members = " ".join(f"{'-' if row is None else '+'}{member_id}" for member_id, row in one.members.items())
            self._world.note(one.group_id, f"stored {path} {members}")
        for each in one.positions:
            self._world.note(one.group_id, f"stored {each.topic}/{each.partition}={each.offset} of {each.member_id}")

    # -- states, generations, members ----------------------------------------------------------------------

    def _transition(self, past: Past, one: GroupWrite, row: TransitionRow) -> None:
        target = GroupState(row.to_state)
        if row.from_state is None:
            past.lives.append(Life(row.group_created_at_ms))
            past.lives[-1].state = EMPTY
            return
        life = past.life
        assert life is not None, "a group changes its state before it was created"
        if row.from_state != life.state:
            self._fail("TransitionsAreLegal", one, f"from {row.from_state}, but the group was {life.state}")
        is_forgotten = life.state is PREPARING and row.reason.startswith(FORGOTTEN)
        if not is_forgotten and not is_legal(GroupState(row.from_state), target):
            self._fail("TransitionsAreLegal", one, f"{row.from_state} → {target}")
        self._generation(life, one, row, is_forgotten=is_forgotten)
        life.state = target
        if target is PREPARING:
            life.preparing.add(row.generation)

    def _generation(self, life: Life, one: GroupWrite, row: TransitionRow, *, is_forgotten: bool) -> None:
        is_new = row.from_state == PREPARING and row.to_state != DEAD and not is_forgotten
        if is_new and row.generation in life.started:
            self._fail("GenerationsOnlyGrow", one, f"generation {row.generation} is used a second time")
        if row.generation != life.generation + is_new:
            self._fail("GenerationsOnlyGrow", one, f"from {life.generation} to {row.generation}")
        life.generation = row.generation
        if is_new:
            life.started.add(row.generation)

    def _row(self, past: Past, one: GroupWrite, row: GroupRow) -> None:
        life = past.life
        assert life is not None, "a group has a row before it was created"
        if (row.generation, row.state) != (life.generation, life.state):
            seen = f"{life.state} at {life.generation}"
            self._fail("RowsFollowTransitions", one, f"the row says {row.state} at {row.generation}, history {seen}")
        life.row = row
        for member_id, member in one.members.items():
            if member is None:
                life.members.pop(member_id, None)
                life.removed.add(member_id)
            else:
                life.members[member_id] = member
                life.assigned[row.generation][member_id].add(member.assignment)

    # -- history -------------------------------------------------------------------------------------------

    def _history(self, past: Past, one: GroupWrite) -> None:
        for closed in one.rebalances:
            if closed.rebalance_id in past.closed_rebalances:
                self._fail("RebalancesEndOnce", one, f"rebalance {closed.rebalance_id} ends a second time")
            past.closed_rebalances.add(closed.rebalance_id)
            past.open_rebalances.pop(closed.rebalance_id, None)
        life = past.life
        if life is None:
            return
        for span in one.ownerships:
            self._close_span(life, one, span)
        if one.group is not None:
            self._open_spans(life, one)
            self._under_way(past, one, one.group.rebalance)

    def _under_way(self, past: Past, one: GroupWrite, rebalance: Any) -> None:  # noqa: ANN401 - JSON
        known = rebalance["under_way"] if rebalance else None
        open_ids = set() if known is None else {known["rebalance_id"]}
        lost = past.open_rebalances.keys() - open_ids
        if lost:
            self._fail("RebalancesEndOnce", one, f"rebalance {min(lost)} never ended, and is under way no more")
        if open_ids & past.closed_rebalances:
            self._fail("RebalancesEndOnce", one, f"rebalance {min(open_ids)} has ended, and is under way")
        for each in open_ids:
            past.open_rebalances.setdefault(each, self._world.now_s)

    def _close_span(self, life: Life, one: GroupWrite, span: OwnershipRow) -> None:
        for number in span.partitions:
            held = life.holders.pop((span.topic, number), None)
            if held is not None and held != (span.member_id, span.valid_from_ms):
                said = f"{span.member_id} since {span.valid_from_ms}"
                self._fail("SpansDoNotOverlap", one, f"{span.topic}/{number} of {said} ends; it was {held}'s")

    def _open_spans(self, life: Life, one: GroupWrite) -> None:
        now: dict[Partition, tuple[str, int]] = {}
        for member in life.members.values():
            for span in member.held:
                for number in span["partitions"]:
                    other = now.get((span["topic"], number))
                    if other is not None:
                        both = f"{other[0]} and {member.member_id}"
                        self._fail("SpansDoNotOverlap", one, f"{both} hold {span['topic']}/{number}")
                    now[span["topic"], number] = member.member_id, span["since_ms"]
        for partition, held in life.holders.items():
            if now.get(partition) != held:
                self._fail("SpansDoNotOverlap", one, f"{held[0]} holds {partition} no more, and no row says so")
        life.holders = now

    # -- offsets -------------------------------------------------------------------------------------------

    def _offsets(self, past: Past, one: GroupWrite) -> None:
        for removed in one.removed:
            key = removed.offset.topic, removed.offset.partition
            past.offsets.pop(key, None)
            past.taken_away[key] = self._commits
        life = past.life
        for each in one.positions:
            self._commits += 1
            past.offsets[each.topic, each.partition] = each.offset, self._commits
            past.commits[each.topic, each.partition, each.offset] = self._commits
            if each.member_id and (life is None or each.member_id not in life.members):
                what = f"{each.topic}/{each.partition}={each.offset}"
                self._fail("StrangersCommitNothing", one, f"{what} of {each.member_id}, which is not in the group")
            if each.member_id and life is not None and life.state not in {STABLE, PREPARING}:
                self._fail("StrangersCommitNothing", one, f"{each.member_id} commits while the group is {life.state}")
        if one.is_group_gone and past.offsets:
            self._fail("TheDeadKeepNothing", one, f"the group died and left {len(past.offsets)} offsets")

    def _fail(self, invariant: str, one: GroupWrite, detail: str) -> None:
        self._world.fail(invariant, detail, one.group_id)
