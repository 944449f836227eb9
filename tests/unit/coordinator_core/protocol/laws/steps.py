"""A step is one decision with all its inputs; the memory is the effect of all steps so far on the group.

The memory reads records alone, so that it can detect errors in the group, the history and the store.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

from coordinator_core.protocol.consumer_protocol import CONSUMER, partitions_of
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import ASSIGNMENT_INVALIDATING_TRIGGERS, Group
from coordinator_core.protocol.rebalance import EXTENDED_TIMEOUT_MIN_MS
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupRecord,
    MemberRemoved,
    MemberReplaced,
    OffsetRemoved,
    OffsetsCommitted,
    PhaseTimeoutReset,
    RebalanceStarted,
    Record,
)
from coordinator_core.protocol.requests import Request, SyncGroup, Token
from coordinator_core.protocol.settings import Context, Now

Partition = tuple[str, int]

UNKNOWN_ID = "unknown"
"""A member id outside of the group, to which a bad leader assigns partitions."""


@dataclass(slots=True)
class Memory:
    """History of the group's current lifetime."""

    generations: set[int] = field(default_factory=set)
    gone_ids: set[str] = field(default_factory=set)
    """Members that were removed or replaced."""
    waiting: dict[Token, str] = field(default_factory=dict)
    """Token of a parked join or sync → its member."""
    durable: Group = field(default_factory=lambda: Group("g"))
    """The group that another node would find."""
    owned: dict[str, set[Partition]] = field(default_factory=dict)
    """Member → what it was assigned last."""
    given: set[Partition] = field(default_factory=set)
    """What the leader gave to members last."""
    is_assigned_well: bool = True
    phase_ends_ms: int = 0
    """When the join phase under way must be over, in node time, if a member has joined."""


@dataclass(frozen=True)
class Step:
    """One decision, and its inputs."""

    before: Group
    request: Request
    decision: Decision
    now: Now
    context: Context
    memory: Memory
    picture: Mapping[str, object]
    """A copy of the group before the decision."""
    row: str | None
    """The row of the table, if the group does not determine it."""

    @property
    def after(self) -> Group:
        """Return the group after the decision."""
        return self.decision.group

    @property
    def records(self) -> list[GroupRecord]:
        """Return the records about the group itself."""
        return group_records(self.decision.records)

    @property
    def refusal(self) -> CoordinatorError | None:
        """Return the error that the request itself is answered, if it is."""
        token = getattr(self.request, "token", None)
        answers = [reply.answer for reply in self.decision.replies if reply.token == token]
        return answers[0] if answers and isinstance(answers[0], CoordinatorError) else None

    @cached_property
    def path(self) -> list[tuple[Group, GroupRecord, Group]]:
        """Return each record with the group before and after it."""
        path = []
        before = self.before
        for record in self.records:
            after = before.fold([record])
            path.append((before, record, after))
            before = after
        return path


def picture(group: Group) -> Mapping[str, object]:
    """Return a deep copy of a group's fields."""
    return {name: copy(getattr(group, name)) for name in Group.FIELDS}


def group_records(records: Iterable[Record]) -> list[GroupRecord]:
    """Return the records about the group itself, leaving those about offsets out."""
    return [record for record in records if not isinstance(record, OffsetsCommitted | OffsetRemoved)]


# -- memory ------------------------------------------------------------------------------------------------------


def learn(memory: Memory, step: Step) -> None:
    """Record a step."""
    for reply in step.decision.replies:
        memory.waiting.pop(reply.token, None)
    for parked in (step.after.parked_joins, step.after.parked_syncs):
        memory.waiting |= {token: member_id for member_id, token in parked.items()}
    for before, record, after in step.path:
        _learn_record(memory, step, before, record, after)


def _learn_record(memory: Memory, step: Step, before: Group, record: GroupRecord, after: Group) -> None:
    match record:
        case GroupCreated():
            memory.durable = after
        case GenerationStarted():
            memory.generations.add(record.generation)
            memory.durable = after
        case GroupEmptied():
            memory.generations.add(record.generation)
            memory.durable = after
        case AssignmentAccepted():
            memory.durable = after
            memory.is_assigned_well = is_disjoint(step.request)
            memory.given = {one for _, assignment in record.assignments for one in partitions_in(assignment)}
            given = record.assignments if after.protocol_type == CONSUMER else ()
            memory.owned = {member_id: partitions_in(assignment) for member_id, assignment in given}
        case RebalanceStarted():
            memory.phase_ends_ms = _phase_end_ms(record, after, step)
            memory.durable = memory.durable.copy()
            memory.durable.must_rebalance |= record.trigger in ASSIGNMENT_INVALIDATING_TRIGGERS
        case PhaseTimeoutReset():
            limit_ms = max(limit_ms_of(after, step.context), EXTENDED_TIMEOUT_MIN_MS)
            memory.phase_ends_ms = max(step.now.node_ms, record.node_ms + limit_ms)
        case MemberRemoved():
            _learn_removal(memory, before, record)
        case MemberReplaced():
            _learn_replacement(memory, after, record)
        case GroupDied():
            memory.durable = Group("g")
        case _:
            pass


def _learn_removal(memory: Memory, before: Group, record: MemberRemoved) -> None:
    memory.gone_ids.add(record.member_id)
    memory.owned.pop(record.member_id, None)
    if before.members[record.member_id].in_generation:
        memory.durable = memory.durable.fold([record])


def _learn_replacement(memory: Memory, after: Group, record: MemberReplaced) -> None:
    memory.gone_ids.add(record.old_member_id)
    memory.owned[record.member.member_id] = memory.owned.pop(record.old_member_id, set())
    if not record.member.in_generation:
        return
    memory.durable = memory.durable.fold([record])
    if after.must_rebalance:
        # Current protocols of members are stored with it; otherwise joins of this phase are lost.
        memory.durable.members = {member_id: after.members[member_id] for member_id in memory.durable.members}


def _phase_end_ms(record: RebalanceStarted, group: Group, step: Step) -> int:
    """Return when the phase must be over: at its limit, or when the initial rebalance delay must end."""
    limit_ms = limit_ms_of(group, step.context)
    return step.now.node_ms + (limit_ms if record.initial_delay_ms is None else max(limit_ms, record.initial_delay_ms))


def limit_ms_of(group: Group, context: Context) -> int:
    effective_ms = context.settings.rebalance_timeout_ms
    asked_ms = (member.rebalance_timeout_ms for member in group.members.values())
    return max((one if effective_ms is None else effective_ms for one in asked_ms), default=0)


def is_disjoint(request: Request) -> bool:
    """Return whether a leader's sync assigns every partition to one member at most."""
    assert isinstance(request, SyncGroup)
    given = [partition for assignment in dict(request.assignments).values() for partition in partitions_in(assignment)]
    return len(given) == len(set(given))


def partitions_in(assignment: bytes) -> set[Partition]:
    return {(topic, number) for topic, numbers in partitions_of(assignment) or () for number in numbers}
