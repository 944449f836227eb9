"""One group on a sequence of nodes, under a virtual clock; every step is checked against the laws.

Stored data goes through the rows of a database, and the next node has nothing else.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count

from coordinator_core.protocol.consumer_protocol import Assignment, TopicPartitions, write_assignment
from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import CommittedOffset, GroupCreated, GroupDied
from coordinator_core.protocol.requests import (
    Deadline,
    DeadlineKind,
    ExpireDeadline,
    Reevaluate,
    Request,
    Resume,
    StoredOffset,
    Token,
)
from coordinator_core.protocol.responses import JoinGroupResponse
from coordinator_core.protocol.settings import Context, GroupSettings, Now, TopicMetadata
from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.timers import GroupTimer, Timers
from coordinator_core.state_store.ledger import Ledger
from coordinator_core.state_store.projection import load_group, project
from coordinator_core.state_store.rows import GroupRow, GroupWrite, MemberRow, RebalanceRow, StoredGroup
from tests.unit.coordinator_core.protocol.laws.cells import row_of, state_of
from tests.unit.coordinator_core.protocol.laws.laws import LAWS
from tests.unit.coordinator_core.protocol.laws.steps import UNKNOWN_ID, Memory, Partition, Step, learn, picture

EPOCH_MS = 1_700_000_000_000
PARTITIONS = 6
SETTINGS = GroupSettings(group_min_session_timeout_ms=1, group_new_member_join_timeout_ms=8_000)
STORED = (
    "created_at_ms",
    "state",
    "state_before_join_phase",
    "generation",
    "protocol_name",
    "leader_id",
    "members",
    "static_members",
    "subscribed_topics",
    "topics_version",
    "must_rebalance",
)
"""What of a group outlives its node."""


class World:
    """A group, the node that owns it, and the wall clock."""

    def __init__(self, cells: Counter[tuple[str, str]]) -> None:
        self.cells = cells
        """Cell of the table → how often it was reached."""
        self.now_ms = 0
        self.group = Group("g")
        self.memory = Memory()
        self.settings = SETTINGS
        self._announced_members: tuple[list[str], int] = [], -1
        """The generation and members in the last leader's response."""
        self._topics_version = 0
        self._deleted_topics: dict[str, int] = {}
        self._ledger = Ledger("g", 0)
        self._timers = Timers()
        self._row: GroupRow | None = None
        self._member_rows: dict[str, MemberRow] = {}
        self.offsets: dict[Partition, StoredOffset] = {}
        self._serial = count(1)

    # -- decide, store, reply -------------------------------------------------------------------------

    def token(self) -> Token:
        """Return a new token."""
        return next(self._serial)

    def fresh_id(self, stem: str = "m") -> str:
        """Return a new member id."""
        return f"{stem}-{next(self._serial)}"

    @property
    def context(self) -> Context:
        """Return the context of the group."""
        topic_metadata = {"orders": TopicMetadata(PARTITIONS, self._topics_version)}
        return Context(self.settings, topic_metadata, self._topics_version, self._deleted_topics)

    def process(self, request: Request, row: str | None = None) -> Decision:
        """Decide a request, check the laws, and apply the decision.

        Args:
            request: the request.
            row: of the table, if the group does not determine it.
        """
        if isinstance(request, ExpireDeadline):
            self._timers.stop(GroupTimer("g", request.deadline))
        step = self._decide(self.group, request, row)
        learn(self.memory, step)
        self._carry_out(step.decision)
        self._check_invariants()
        if not self.group.exists:
            self.memory, self._announced_members = Memory(), ([], -1)
        return step.decision

    def process_for_dead_group(self, request: Request, row: str) -> None:
        """Decide a request for a group that has just died; the decision is discarded."""
        dead = Group("g").fold([GroupCreated(0), GroupDied(0, "deleted")])
        assert self._decide(dead, request, row).after is dead

    def _decide(self, group: Group, request: Request, row: str | None) -> Step:
        now = Now(self.now_ms, EPOCH_MS + self.now_ms)
        before = picture(group)
        decision = decide(group, request, now, self.context)
        step = Step(group, request, decision, now, self.context, self.memory, before, row)
        named = row_of(group, request) if row is None else row
        if named is not None:
            self.cells[named, state_of(group)] += 1
        for law in LAWS:
            law(step)
        return step

    def _carry_out(self, decision: Decision) -> None:
        self.group = decision.group
        for deadline, delay_ms in decision.deadlines:
            timer = GroupTimer("g", deadline)
            if delay_ms is None:
                self._timers.stop(timer)
            else:
                self._timers.start(timer, self.now_ms + delay_ms)
        for reply in decision.replies:
            if isinstance(reply.answer, JoinGroupResponse) and reply.answer.members:
                members = [one.member_id for one in reply.answer.members]
                self._announced_members = members, reply.answer.generation
        write = project(decision.group, decision.records, self._ledger)
        if write is not None:
            self._store(write)

    def _store(self, write: GroupWrite) -> None:
        for row in write.ownerships:
            assert row.valid_from_ms <= row.valid_to_ms, "a span ends before it begins"
        for session in write.sessions:
            assert session.joined_at_ms <= session.started_at_ms <= session.ended_at_ms, (
                "a session ends before it begins"
            )
        for rebalance in write.rebalances:
            self._every_member_has_a_rebalance_row(rebalance, write)
        for removed in write.removed:
            del self.offsets[removed.offset.topic, removed.offset.partition]
        for committed in write.committed_offsets:
            self.offsets[committed.topic, committed.partition] = self._stored_offset(committed)
        if write.is_group_deleted:
            self.group, self._ledger, self._row = Group("g"), Ledger("g", 0), None
            self._member_rows.clear()
            return
        self._row = write.group or self._row
        for member_id, member_row in write.members.items():
            if member_row is None:
                self._member_rows.pop(member_id, None)
            else:
                self._member_rows[member_id] = member_row

    def _stored_offset(self, record: CommittedOffset) -> StoredOffset:
        version = next(self._serial)
        return StoredOffset(record.topic, record.partition, record.offset, -1, "", None, record.at_ms, None, version)

    # -- laws that hold between steps --------------------------------------------------------------------

    def _check_invariants(self) -> None:
        self._stored_state_equals_group()
        self._silent_members_have_a_timer()
        self._no_request_waits_forever()
        self._ledger_knows_ownership()

    def _stored_state_equals_group(self) -> None:
        """Another node would find what this one has, but for what is forgotten with it."""
        if self._row is None:
            assert not self.group.exists
            return
        found, ledger, _ = self._restored()
        assert list(found.members) == list(self.memory.durable.members), "another node finds another order of standing"
        for name in STORED:
            assert getattr(found, name) == getattr(self.memory.durable, name), f"another node finds another {name}"
        if self.group.state is not PREPARING:
            assert found.state_since_ms == self.group.state_since_ms
            assert found.protocol_type == self.group.protocol_type
        held = {member_id: spans for member_id, spans in self._ledger.ownership.items() if spans}
        assert {member_id: spans for member_id, spans in ledger.ownership.items() if spans} == held

    def _restored(self) -> tuple[Group, Ledger, GroupWrite | None]:
        assert self._row is not None
        rows = tuple(sorted(self._member_rows.values(), key=lambda row: (row.join_order, row.member_id)))
        return load_group(StoredGroup(self._row, rows), EPOCH_MS + self.now_ms)

    def _silent_members_have_a_timer(self) -> None:
        """Every member and every pending member id is timed, unless it waits; and no other timer runs."""
        group = self.group
        timer = set(self._armed(DeadlineKind.SESSION, *group.members))
        for member in group.members.values():
            is_excused = group.is_waiting(member.member_id) and not member.is_new
            assert member.member_id in timer or is_excused, "a member is not timed"
        pending = set(self._armed(DeadlineKind.PENDING_MEMBER, *group.pending_member_ids))
        assert pending == group.pending_member_ids, "a pending member id is not timed"
        phases = [*self._armed(DeadlineKind.JOIN, ""), *self._armed(DeadlineKind.SYNC, "")]
        assert len(self._timers) == len(timer) + len(pending) + len(phases), "a timer has no owner"

    def _armed(self, kind: DeadlineKind, *subjects: str) -> Iterator[str]:
        return (one for one in subjects if self._due_ms(kind, one) is not None)

    def _due_ms(self, kind: DeadlineKind, subject: str = "") -> int | None:
        return self._timers.due_at_ms(GroupTimer("g", Deadline(kind, subject)))

    def _no_request_waits_forever(self) -> None:
        """A join phase ends by its limit, and pending syncs have a timer."""
        group = self.group
        join_ms, sync_ms = self._due_ms(DeadlineKind.JOIN), self._due_ms(DeadlineKind.SYNC)
        assert (join_ms is not None) == (group.state is PREPARING), "a join phase has no limit, or a limit no phase"
        if join_ms is not None:
            assert join_ms <= self.memory.phase_ends_ms, "a join phase outlasts its limit"
        assert (sync_ms is not None) == bool(group.pending_syncs), "the sync timer and the pending syncs differ"

    def _ledger_knows_ownership(self) -> None:
        """Open spans are what was assigned, and a rebalance is under way until there is an assignment."""
        held = {
            member_id: {(span.topic, number) for span in spans for number in span.partitions}
            for member_id, spans in self._ledger.ownership.items()
        }
        given = {member_id: owned for member_id, owned in self.memory.owned.items() if owned}
        assert {member_id: owned for member_id, owned in held.items() if owned} == given, "the ledger is wrong"
        assert self._ledger.sessions.keys() == self.group.members.keys(), "sessions are not those of the members"
        assert (self._ledger.in_progress is not None) == (self.group.state in {PREPARING, COMPLETING})

    def _every_member_has_a_rebalance_row(self, rebalance: RebalanceRow, write: GroupWrite) -> None:
        """Members of the new generation joined it, and no wait is longer than the rebalance.

        Of an abandoned rebalance, only removed members are known.
        """
        parts = [part for part in write.rebalance_members if part.rebalance_id == rebalance.rebalance_id]
        took_ms = rebalance.completed_at_ms - rebalance.started_at_ms
        present = 0 if rebalance.outcome == "abandoned" else rebalance.member_count_after
        assert sum(part.outcome == "joined" for part in parts) == present, "a part is missing"
        assert all((part.waited_for_ms or 0) <= took_ms for part in parts), "a wait is longer than the rebalance"

    # -- time, nodes and settings ----------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Let time pass; every deadline fires at its own moment."""
        end_ms = self.now_ms + ms
        while (due_ms := self._timers.next_due_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            timer = self._timers.pop_due(self.now_ms)
            if timer is not None:
                self.process(ExpireDeadline(timer.deadline))
        self.now_ms = end_ms

    def advance_to_the_next_deadline(self) -> None:
        """Let time pass until something may be due."""
        due_ms = self._timers.next_due_ms()
        if due_ms is not None:
            self.advance(max(0, due_ms - self.now_ms))

    def lose_node(self) -> None:
        """Fail over to another node; waiting requests are answered NOT_COORDINATOR or retriable errors."""
        self.memory.waiting.clear()
        self._timers = Timers()
        if self._row is None:
            self.group, self._ledger = Group("g"), Ledger("g", 0)
            return
        self.group, self._ledger, forgotten = self._restored()
        if forgotten is not None:
            self._store(forgotten)
        self.memory.durable = self.group
        self.process(Resume())

    def change_settings(self, settings: GroupSettings) -> None:
        """Change settings as an operator."""
        self.settings = settings
        self.process(Reevaluate(is_rebalance_timeout_changed=True))

    def change_partitions(self) -> None:
        """Let the partitions of "orders" change."""
        self._topics_version += 1
        self.process(Reevaluate())

    def delete_topic(self) -> None:
        """Let "orders" be deleted; partitions of that name remain known, so that the group has something to assign."""
        self._topics_version += 1
        self._deleted_topics = {"orders": self._topics_version}
        self.process(Reevaluate())

    # -- assignments of leaders --------------------------------------------------------------------------------

    def assignments(self, *, is_good: bool = True) -> tuple[tuple[str, bytes], ...]:
        """Return an assignment of "orders" to the members that the leader knows.

        A bad leader assigns everything to every member, and to an unknown one.
        """
        reported, generation = self._announced_members
        members = list(reported if generation == self.group.generation else self.group.members)
        if not is_good:
            return tuple((one, _part(range(PARTITIONS))) for one in [*members, UNKNOWN_ID])
        return tuple((one, _part(range(n, PARTITIONS, len(members)))) for n, one in enumerate(members))


def _part(numbers: range) -> bytes:
    return write_assignment(Assignment((TopicPartitions("orders", tuple(numbers)),)))
