"""A simple model of what the store holds, to compare responses and memory of the runtime with.

It receives every stored write, in order, and checks each.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.offsets import RETIRED
from coordinator_core.protocol.records import CommittedOffset, OffsetRemoved
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState, is_legal
from coordinator_core.state_store.awaited import AwaitedMembers
from coordinator_core.state_store.ledger import ONGOING
from coordinator_core.state_store.rows import (
    Batch,
    GroupRow,
    GroupWrite,
    MemberRow,
    PartitionOwnershipRow,
    RebalanceRow,
    StoredGroup,
    TransitionRow,
    WriteResult,
)
from tests.system.simulation.database import WatchedStore, Witness, stored_writes
from tests.system.simulation.world import World

Partition = tuple[str, int]
CLOCKS_MS = 11_000
"""What two wall clocks may differ by."""
FORGOTTEN = "the node was lost"
"""How the reason begins of a transition back from a join phase that a take-over forgot."""


@dataclass(slots=True)
class Life:
    """One life of a group, from its creation to its death."""

    created_at_ms: int
    state: GroupState | None = None
    settled: GroupState = EMPTY
    """The last state that was not a join phase."""
    generation: int = 0
    row: GroupRow | None = None
    members: dict[str, MemberRow] = field(default_factory=dict)
    loaded: tuple[StoredGroup, Group] | None = None
    """The rows that were loaded last, to compare memory with, and the group that came of them."""
    started: set[int] = field(default_factory=set)
    """Generations that were started or emptied."""
    assigned: dict[int, dict[str, set[bytes]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    """Generation → member → assignments that were stored for it."""
    preparing: set[int] = field(default_factory=set)
    """Generations in which a join phase began."""
    removed: set[str] = field(default_factory=set)
    ever: set[str] = field(default_factory=set)
    """Members whose session has not ended."""
    holders: dict[Partition, tuple[str, int]] = field(default_factory=dict)
    """Partition → who holds it by the ledger, and since when."""
    last_held_by: dict[Partition, str] = field(default_factory=dict)
    """Partition → its last owner, even if that has left, or gave it up with the last assignment; others have none."""
    interval_start_ms: dict[str, int] = field(default_factory=dict)
    """Member → until when its session has been written."""
    counted: int = 0
    """Members of the last generation that was assigned."""
    phases: int = 0
    """Join phases of the rebalance under way."""
    announced_owners: dict[tuple[int, Partition], str] = field(default_factory=dict)
    """(generation, partition) → the instance or member whose sync response has it."""

    @property
    def must_rebalance(self) -> bool:
        """Return whether a node that takes the group over has to start a rebalance, by its row."""
        return self.row is not None and self.row.must_rebalance and self.state is not DEAD and bool(self.members)


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
    removed: dict[Partition, int] = field(default_factory=dict)
    """Partition → how many commits there had been when it was last taken away."""
    open_rebalances: dict[str, float] = field(default_factory=dict)
    closed_rebalances: set[str] = field(default_factory=set)

    @property
    def life(self) -> Life | None:
        """Return the present life, or the last one."""
        return self.lives[-1] if self.lives else None


class Stored(Witness):
    """What stands in the store, by group; a witness of every write and take-over."""

    def __init__(self, world: World, shards: int, is_alive: Callable[[str, int, int], bool]) -> None:
        """Begin.

        Args:
            world: whose violations and transcript these are.
            shards: how many shards there are.
            is_alive: returns whether a node's process still believes to own a shard under an epoch.
        """
        self.groups: dict[str, Past] = defaultdict(Past)
        self.owners: dict[int, tuple[str, int]] = {}
        """Shard → node and epoch, by what take-overs were answered."""
        self.writes = 0
        self.store: WatchedStore
        """The store whose writes these are; set by the creator."""
        self._world = world
        self._shards = shards
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
        for group_id, past in self.groups.items():
            life = past.life
            if life is not None and life.must_rebalance and shard_of(group_id, self._shards) in epochs:
                self._world.strike("pending_rebalance_taken_over", node_id, group_id)
        self._world.note("", f"{node_id} owns " + " ".join(f"{each}@{epoch}" for each, epoch in epochs.items()))

    def checkpointed(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Check that only owners store offsets in the table."""
        for shard_id, epoch in epochs.items():
            owner = self.owners.get(shard_id)
            if owner != (node_id, epoch):
                detail = f"{node_id} checkpoints shard {shard_id} under epoch {epoch}, which is {owner}'s"
                self._world.fail("OneWriterPerShard", detail)

    def wrote(self, batch: Batch, written: WriteResult) -> None:
        """Take note of a batch, and check everything that it stored."""
        for shard_id in sorted(written.lost_shards):
            self._world.strike("stale_write_refused", f"{batch.node_id} for shard {shard_id}")
        for one in stored_writes(batch, written):
            owner = self.owners.get(one.shard_id)
            if owner != (batch.node_id, batch.epochs[one.shard_id]):
                who = f"{batch.node_id} wrote under epoch {batch.epochs[one.shard_id]}"
                self._fail("OneWriterPerShard", one, f"{who}; shard {one.shard_id} is {owner}'s")
            self.writes += 1
            self._wrote_group(self.groups[one.group_id], one)

    def _wrote_group(self, past: Past, one: GroupWrite) -> None:
        self._note(one)
        self._retired(past.life, one)
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
        for each in one.committed_offsets:
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
        if target is DEAD and life.state is not EMPTY:
            self._fail("OnlyEmptyGroupsDie", one, f"the group dies while it is {life.state}")
        is_forgotten = life.state is PREPARING and row.reason.startswith(FORGOTTEN)
        if is_forgotten and target is not life.settled:
            self._fail("TransitionsAreLegal", one, f"back to {target}; before the join phase it was {life.settled}")
        if not is_forgotten and not is_legal(GroupState(row.from_state), target):
            self._fail("TransitionsAreLegal", one, f"{row.from_state} → {target}")
        self._generation(life, one, row, is_forgotten=is_forgotten)
        life.state = target
        if target is not PREPARING:
            life.settled = target
        else:
            life.preparing.add(row.generation)
            life.phases += 1

    def _generation(self, life: Life, one: GroupWrite, row: TransitionRow, *, is_forgotten: bool) -> None:
        is_new = row.from_state == PREPARING and row.to_state != DEAD and not is_forgotten
        if is_new and row.generation in life.started:
            self._fail("GenerationsOnlyGrow", one, f"generation {row.generation} is used a second time")
        if row.generation != life.generation + is_new:
            self._fail("GenerationsOnlyGrow", one, f"from {life.generation} to {row.generation}")
        life.generation = row.generation
        if is_new:
            life.started.add(row.generation)

    def _retired(self, life: Life | None, one: GroupWrite) -> None:
        """Check that a cleanup deletes a group as it was proposed, and no other."""
        for outcome in one.outcomes:
            if not outcome.is_of_group or outcome.outcome != RETIRED:
                continue
            seen = self.store.seen_by_cleanup(outcome.run_id, one.group_id)
            found = None if life is None or life.row is None else (life.row.generation, life.row.state_since_ms)
            if seen != found or not one.is_group_deleted:
                self._fail("OnlyUnusedGroupsAreRetired", one, f"it was proposed as of {seen}, and is of {found}")

    def _row(self, past: Past, one: GroupWrite, row: GroupRow) -> None:
        life = past.life
        assert life is not None, "a group has a row before it was created"
        if (row.generation, row.state) != (life.generation, life.state):
            seen = f"{life.state} at {life.generation}"
            self._fail("RowsFollowTransitions", one, f"the row says {row.state} at {row.generation}, history {seen}")
        life.row = row
        self._members(life, one, row)
        self._awaited(life, one, row)
        if life.state is not PREPARING and row.member_count != len(life.members):
            detail = f"the row counts {row.member_count} members, and there are {len(life.members)}"
            self._fail("RowsFollowTransitions", one, detail)
        # All may have left during a join phase that is forgotten; what is decided next makes such a group Empty.
        if life.state in {STABLE, COMPLETING} and life.members and row.leader_id not in life.members:
            self._fail("RowsFollowTransitions", one, f"{row.leader_id} leads, and is no member")

    def _awaited(self, life: Life, one: GroupWrite, row: GroupRow) -> None:
        """Check that awaited members are of the phase under way: a join phase's or a sync phase's, and no other's."""
        if row.awaited_members is None:
            return
        awaited = AwaitedMembers.from_json(row.awaited_members)
        if {"join": PREPARING, "sync": COMPLETING}[awaited.phase] is not life.state:
            self._fail("RowsFollowTransitions", one, f"members are awaited to {awaited.phase}, and it is {life.state}")
        named = {member.member_id for member in awaited.members}
        if awaited.since_ms != row.state_since_ms or named & life.removed:
            self._fail("RowsFollowTransitions", one, f"{sorted(named)} are awaited, and are not of this phase")

    def _members(self, life: Life, one: GroupWrite, row: GroupRow) -> None:
        for member_id, member in one.members.items():
            if member is None:
                # A new member that took the place of another was never stored, and is no removed one.
                gone = life.members.pop(member_id, None)
                if gone is not None:
                    life.removed.add(member_id)
                    self._rename_owner(life, one, gone)
            else:
                life.members[member_id] = member
                reported = life.assigned[row.generation][member_id]
                if life.state is not COMPLETING:
                    reported.add(member.assignment)
                elif member.assignment:
                    detail = f"{member_id} has an assignment that is older than the generation"
                    self._fail("RowsFollowTransitions", one, detail)

    def _rename_owner(self, life: Life, one: GroupWrite, gone: MemberRow) -> None:
        """Let the successor of a static member be the last owner of what the former gave up."""
        for member in one.members.values():
            if member is not None and gone.group_instance_id == member.group_instance_id is not None:
                for key in [key for key, who in life.last_held_by.items() if who == gone.member_id]:
                    life.last_held_by[key] = member.member_id

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
        self._check_sessions(life, one)
        held_before = dict(life.last_held_by)
        if one.group is not None:
            self._open_spans(life, one)
        for closed in one.rebalances:
            self._rebalance(life, one, closed, held_before)
        if one.group is not None:
            self._in_progress(past, one, one.group.rebalance)

    def _check_sessions(self, life: Life, one: GroupWrite) -> None:
        """Check that a session ends once, in the write that removes its member."""
        ended = [row.member_id for row in one.sessions if row.end_reason != ONGOING]
        gone = [member_id for member_id, row in one.members.items() if row is None and member_id in life.ever]
        for member_id in gone:
            if ended.count(member_id) != 1:
                detail = f"{member_id} is gone, and {ended.count(member_id)} rows end its session"
                self._fail("SessionsEndWithTheirMembers", one, detail)
        life.ever -= set(gone)
        life.ever |= life.members.keys()
        for row in one.sessions:
            known_ms = life.interval_start_ms.get(row.member_id, 0)
            if row.started_at_ms < known_ms - CLOCKS_MS or row.ended_at_ms < row.started_at_ms - CLOCKS_MS:
                detail = f"{row.member_id} has {row.started_at_ms} to {row.ended_at_ms} after {known_ms}"
                self._fail("SessionsEndWithTheirMembers", one, detail)
            life.interval_start_ms[row.member_id] = row.ended_at_ms
            if row.end_reason != ONGOING and row.member_id in life.members:
                self._fail(
                    "SessionsEndWithTheirMembers", one, f"the session of {row.member_id} ends while it is a member"
                )
            gaps = sum(row.heartbeat_gap_histogram or ())
            if gaps > (row.heartbeat_count or 0) or (gaps > 0) != (row.heartbeat_gap_ms_max is not None):
                detail = f"{row.member_id} has {gaps} gaps between {row.heartbeat_count} heartbeats"
                self._fail("SessionsEndWithTheirMembers", one, detail)

    def _rebalance(self, life: Life, one: GroupWrite, row: RebalanceRow, held_before: Mapping[Partition, str]) -> None:
        """Check what the row of a rebalance that is over says against what was stored while it was under way."""
        states = [each.to_state for each in one.transitions]
        settled = max((place for place, state in enumerate(states) if state in {STABLE, EMPTY}), default=-1)
        begun_since = states[settled:].count(PREPARING)
        reported: dict[str, object] = {"restarts": row.restarts, "before": row.member_count_before}
        true: dict[str, object] = {"restarts": life.phases - begun_since - 1, "before": life.counted}
        if row.outcome == "completed":
            moved = [key for key, (who, _) in life.holders.items() if held_before.get(key, who) != who]
            here = {part.member_id for part in one.rebalance_members if part.outcome == "joined"}
            reported |= {"generation": row.generation, "after": row.member_count_after, "moved": row.partitions_moved}
            true |= {"generation": life.generation, "after": len(life.members), "moved": len(moved)}
            reported["parts"], true["parts"] = here, life.members.keys()
            given_up = {(span.topic, number): span.member_id for span in one.ownerships for number in span.partitions}
            life.last_held_by = given_up | {key: who for key, (who, _) in life.holders.items()}
        elif row.outcome == "emptied":
            life.last_held_by = {}
        life.counted, life.phases = len(life.members), begun_since
        for name, value in reported.items():
            if value != true[name]:
                self._fail("HistoryAddsUp", one, f"{row.outcome}: {name} is stored as {value}, and was {true[name]}")
        took_ms = row.completed_at_ms - row.started_at_ms
        for part in one.rebalance_members:
            if part.rebalance_id == row.rebalance_id and (part.waited_for_ms or 0) > max(0, took_ms) + CLOCKS_MS:
                detail = f"{part.member_id} was waited for for {part.waited_for_ms} ms of {took_ms} ms"
                self._fail("HistoryAddsUp", one, detail)

    def _in_progress(self, past: Past, one: GroupWrite, rebalance: Any) -> None:  # noqa: ANN401 - JSON
        known = rebalance["in_progress"] if rebalance else None
        life_state = None if past.life is None else past.life.state
        open_ids = set() if known is None else {known["rebalance_id"]}
        if known is not None and life_state in {STABLE, EMPTY}:
            self._fail("RebalancesEndOnce", one, f"a rebalance is under way, and the group is {life_state}")
        lost = past.open_rebalances.keys() - open_ids
        if lost:
            self._fail("RebalancesEndOnce", one, f"rebalance {min(lost)} never ended, and is under way no more")
        if open_ids & past.closed_rebalances:
            self._fail("RebalancesEndOnce", one, f"rebalance {min(open_ids)} has ended, and is under way")
        for each in open_ids:
            past.open_rebalances.setdefault(each, self._world.now_s)

    def _close_span(self, life: Life, one: GroupWrite, span: PartitionOwnershipRow) -> None:
        for number in span.partitions:
            held = life.holders.pop((span.topic, number), None)
            if held is not None and held != (span.member_id, span.valid_from_ms):
                said = f"{span.member_id} since {span.valid_from_ms}"
                self._fail("OwnershipDoesNotOverlap", one, f"{span.topic}/{number} of {said} ends; it was {held}'s")

    def _open_spans(self, life: Life, one: GroupWrite) -> None:
        now: dict[Partition, tuple[str, int]] = {}
        for member in life.members.values():
            for span in member.ownership:
                for number in span["partitions"]:
                    other = now.get((span["topic"], number))
                    if other is not None:
                        both = f"{other[0]} and {member.member_id}"
                        self._fail("OwnershipDoesNotOverlap", one, f"{both} hold {span['topic']}/{number}")
                    now[span["topic"], number] = member.member_id, span["since_ms"]
        for partition, held in life.holders.items():
            if now.get(partition) != held:
                self._fail("OwnershipDoesNotOverlap", one, f"{held[0]} holds {partition} no more, and no row says so")
        life.holders = now
        life.last_held_by |= {key: who for key, (who, _) in now.items()}

    # -- offsets -------------------------------------------------------------------------------------------

    def _offsets(self, past: Past, one: GroupWrite) -> None:
        for removed in one.removed:
            key = removed.offset.topic, removed.offset.partition
            past.offsets.pop(key, None)
            past.removed[key] = self._commits
            self._removal(past.life, one, removed)
        life = past.life
        self._undone(past, one)
        for each in one.committed_offsets:
            self._commits += 1
            past.offsets[each.topic, each.partition] = each.offset, self._commits
            past.commits[each.topic, each.partition, each.offset] = self._commits
            if not each.member_id:
                self._of_unowned(life, one, each)
            if each.member_id and (life is None or each.member_id not in life.members):
                what = f"{each.topic}/{each.partition}={each.offset}"
                self._fail("OnlyMembersCommit", one, f"{what} of {each.member_id}, which is not in the group")
            if each.member_id and life is not None and life.state not in {STABLE, PREPARING}:
                self._fail("OnlyMembersCommit", one, f"{each.member_id} commits while the group is {life.state}")
        if one.is_group_deleted and past.offsets:
            self._fail("DeadGroupsKeepNothing", one, f"the group died and left {len(past.offsets)} offsets")

    def _undone(self, past: Past, one: GroupWrite) -> None:
        """Check that an undo puts back what was there, and nothing in the place of anything newer."""
        for change in one.changes:
            if change.action == "reset_offsets":
                put = {(each.topic, each.partition): each.offset for each in one.committed_offsets}
                if put != {(each["topic"], each["partition"]): each["offset"] for each in change.after["offsets"]}:
                    self._fail(
                        "ChangesAreRecorded", one, f"a reset is noted as {change.after['offsets']}, and put {put}"
                    )
            if change.action != "undo":
                continue
            undoes = change.after["undoes"]
            if sum(row.change_id == undoes for row in self.store.history.undone) != 1:
                self._fail("UndoRestoresOffsets", one, f"{undoes} is not undone once")
            taken = {
                (row.topic, row.partition): row.offset for row in self.store.archived_offsets(undoes, one.group_id)
            }
            for each in one.committed_offsets:
                key = each.topic, each.partition
                if taken.get(key) != each.offset or key in past.offsets:
                    detail = f"{key} is put to {each.offset}; it was {taken.get(key)}, and is {past.offsets.get(key)}"
                    self._fail("UndoRestoresOffsets", one, detail)

    def _of_unowned(self, life: Life | None, one: GroupWrite, each: CommittedOffset) -> None:
        """Check that an offset changes only by a commit of a member, while the group has any."""
        if life is None or life.row is None or life.state in {EMPTY, DEAD}:
            return
        topics = life.row.subscribed_topics
        is_first_phase = life.state is PREPARING and life.row.state_before_join_phase == EMPTY
        if is_first_phase or topics is None or each.topic in topics:
            detail = f"{each.topic}/{each.partition}={each.offset} without a member while the group is {life.state}"
            self._fail("OnlyMembersCommit", one, detail)

    def _removal(self, life: Life | None, one: GroupWrite, removed: OffsetRemoved) -> None:
        """Check that no offset of a subscribed topic is removed."""
        topic, state = removed.offset.topic, EMPTY if life is None else life.state
        what = f"{topic}/{removed.offset.partition} is {removed.cause}"
        topics = None if life is None or life.row is None else life.row.subscribed_topics
        is_subscribed = state not in {EMPTY, DEAD} and (topics is None or topic in topics)
        if is_subscribed and removed.cause != "topic_deleted":
            self._fail("LiveOffsetsAreKept", one, f"{what}, and the group, which is {state}, reads it")
        if removed.cause == "topic_deleted" and self.store.topic_deletions[removed.change_id] != topic:
            self._fail("LiveOffsetsAreKept", one, f"{what}, and another topic was deleted")
        is_of_run = removed.cause in {"expired", "topic_deleted"}
        if is_of_run and removed.offset.commit_version > self.store.newest_seen(removed.change_id):
            self._fail("LiveOffsetsAreKept", one, f"{what}, and was committed after that was proposed")
        if removed.cause != "expired":
            return
        if state not in {EMPTY, STABLE}:
            self._fail("LiveOffsetsAreKept", one, f"{what} while the group is {state}")
        if self.store.retentions_cut.isdisjoint({None, one.group_id}):
            self._fail("LiveOffsetsAreKept", one, f"{what} long before its time")

    def _fail(self, invariant: str, one: GroupWrite, detail: str) -> None:
        self._world.fail(invariant, detail, one.group_id)
