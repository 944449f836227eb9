"""A group is the fold of its records.

`apply` is total: it cannot fail, and it looks at nothing but the group and the record. Whether a record may
happen was settled when it was decided (`decide`), so nothing is checked here twice.

A copy shares its containers with the group it is a copy of until one of the two changes them (`_own`): most decisions
change one of a member's several entries, and a group may have thousands of members. Members themselves are values.

Source: protocol.md sections 1 and 2.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Self, assert_never

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupRecord,
    JoinParked,
    MemberIdDropped,
    MemberIdIssued,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    PhaseRetimed,
    RebalanceStarted,
    SyncParked,
    SyncReceived,
    Trigger,
    WindowExtended,
)
from coordinator_core.protocol.requests import Token, metadata_bytes
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState

ASSIGNMENT_UNFIT = frozenset({Trigger.PARTITIONS_CHANGED, Trigger.ADMIN, Trigger.DATABASE_RESTORED})
"""Rebalances that are owed even if the node is lost: the stored assignment no longer fits."""


class Group:
    """One consumer group. A group that nobody ever saw does not exist: `exists` is False, its state Dead."""

    FIELDS: ClassVar = (
        "created_at_ms",
        "generation",
        "group_id",
        "has_newcomers",
        "leader_id",
        "members",
        "metadata_bytes",
        "must_rebalance",
        "offered",
        "parked_joins",
        "parked_syncs",
        "pending_member_ids",
        "pending_syncs",
        "phase_started_node_ms",
        "phase_timeout_ms",
        "protocol_name",
        "protocol_type",
        "remaining_ms",
        "settled_state",
        "state",
        "state_since_ms",
        "static_members",
        "subscribed_topics",
        "topics_version",
        "trigger",
        "window_ms",
    )
    CONTAINERS: ClassVar = frozenset(
        {
            "members",
            "offered",
            "parked_joins",
            "parked_syncs",
            "pending_member_ids",
            "pending_syncs",
            "static_members",
        }
    )
    __slots__ = (*FIELDS, "_shared")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.created_at_ms: int | None = None
        self.state: GroupState = DEAD
        self.state_since_ms = 0
        self.settled_state: GroupState = EMPTY
        """The state to come back to when a join phase under way is forgotten."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        """Member id → member; the longest-standing first."""
        self.static_members: dict[str, str] = {}
        self.pending_member_ids: set[str] = set()
        self.parked_joins: dict[str, Token] = {}
        self.parked_syncs: dict[str, Token] = {}
        self.pending_syncs: set[str] = set()
        self.offered: dict[str, int] = {}
        """Protocol name → how many members offer it."""
        self.metadata_bytes = 0
        """The size of all members' metadata, over all protocols that they support."""
        self.subscribed_topics: frozenset[str] | None = None
        self.topics_version = 0
        self.must_rebalance = False
        self.trigger: Trigger | None = None
        self.phase_started_node_ms = 0
        self.phase_timeout_ms: int | None = None
        """The rebalance timeout that settings had put in force when the phase began; None: members' own."""
        self.window_ms: int | None = None
        """The present initial window's length; None outside of one."""
        self.remaining_ms = 0
        self.has_newcomers = False
        self._shared: frozenset[str] = frozenset()
        """Containers that another group has too."""

    @classmethod
    def loaded(  # noqa: PLR0913 - what was stored of a group, by name; a class for it would say the same twice
        cls,
        group_id: str,
        *,
        created_at_ms: int,
        state: GroupState,
        state_since_ms: int,
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        leader_id: str | None,
        subscribed_topics: frozenset[str] | None,
        topics_version: int,
        must_rebalance: bool,
        trigger: Trigger | None,
        members: Iterable[Member],
    ) -> Self:
        """Return the group that was stored: a join phase under way is forgotten, so `state` is a settled one.

        Newcomers are forgotten with it, and so is a leader that was one. While the group completes a rebalance,
        nobody counts as having synced: parked syncs are repeated by their members.
        """
        group = cls(group_id)
        group.created_at_ms = created_at_ms
        group._enter(state, state_since_ms)
        group.generation = generation
        group.protocol_type = protocol_type
        group.protocol_name = protocol_name
        group.subscribed_topics = subscribed_topics
        group.topics_version = topics_version
        group.must_rebalance = must_rebalance
        group.trigger = trigger
        for member in members:
            group._put(member)
        group.leader_id = leader_id if leader_id in group.members else None
        if state is COMPLETING:
            group.pending_syncs = set(group.members)
        return group

    # -- questions --------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Tell whether the group's life has begun."""
        return self.created_at_ms is not None

    def is_waiting(self, member_id: str) -> bool:
        """Tell whether a member has a join or a sync parked."""
        return member_id in self.parked_joins or member_id in self.parked_syncs

    def has_everyone_joined(self) -> bool:
        """Tell whether a join phase need wait for nobody, handshake ids included."""
        return len(self.parked_joins) == len(self.members) and not self.pending_member_ids

    def waiting_for(self) -> list[str]:
        """Return the members that the phase under way waits for: to join, or to sync.

        The leader comes first in a sync phase, as no other member gets an assignment before it syncs. The rest are in
        order of age, pending members last.
        """
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                absent = [member_id for member_id in self.members if member_id not in self.parked_joins]
                return absent + sorted(self.pending_member_ids)
            case GroupState.COMPLETING_REBALANCE:
                pending = [member_id for member_id in self.members if member_id in self.pending_syncs]
                return sorted(pending, key=lambda member_id: member_id != self.leader_id)
            case _:
                return []

    def candidate_protocols(self) -> frozenset[str]:
        """Return the protocols that every member offers."""
        everyone = len(self.members)
        return frozenset(name for name, count in self.offered.items() if count == everyone)

    # -- the fold -----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return a group that can be changed without changing this one."""
        twin = type(self).__new__(type(self))
        self._shared = self.CONTAINERS
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def _own(self, container: str) -> None:
        """See that a container is nobody else's before it is changed."""
        if container in self._shared:
            self._shared -= {container}
            setattr(self, container, getattr(self, container).copy())

    def fold(self, records: Iterable[GroupRecord]) -> Self:
        """Return the group after these records, leaving this one as it is."""
        twin = self.copy()
        for record in records:
            twin.apply(record)
        return twin

    def apply(self, record: GroupRecord) -> None:
        """Change the group by one record. Total: there is no record that cannot be applied."""
        match record:
            case JoinParked():
                self._own("parked_joins")
                self.parked_joins[record.member_id] = record.token
            case SyncParked():
                self._own("parked_syncs")
                self.parked_syncs[record.member_id] = record.token
                self._sync_received(record.member_id)
            case SyncReceived():
                self._sync_received(record.member_id)
            case MemberIdIssued():
                self.pending_member_ids = self.pending_member_ids | {record.member_id}
            case MemberIdDropped():
                self.pending_member_ids = self.pending_member_ids - {record.member_id}
            case MemberJoined():
                self._member_joined(record)
            case MemberUpdated():
                self._member_updated(record)
            case MemberRemoved():
                self._member_removed(record)
            case MemberReplaced():
                self._member_replaced(record)
            case RebalanceStarted():
                self._rebalance_started(record)
            case WindowExtended():
                self.window_ms = record.window_ms
                self.remaining_ms = record.remaining_ms
                self.has_newcomers = False
            case PhaseRetimed():
                self._time_phase(record.node_ms, record.timeout_ms)
            case GenerationStarted():
                self._generation_started(record)
            case AssignmentAccepted():
                self._assignment_accepted(record)
            case GroupCreated():
                self.created_at_ms = record.at_ms
                self._enter(EMPTY, record.at_ms)
            case GroupEmptied():
                self._group_emptied(record)
            case GroupDied():
                self._enter(DEAD, record.at_ms)
            case _:
                assert_never(record)

    def _sync_received(self, member_id: str) -> None:
        self._own("pending_syncs")
        self.pending_syncs.discard(member_id)

    def _enter(self, state: GroupState, at_ms: int) -> None:
        self.state = state
        self.state_since_ms = at_ms
        if state is not PREPARING:
            self.settled_state = state
            self.window_ms = None

    def _member_joined(self, record: MemberJoined) -> None:
        member = record.member
        if not self.members:
            self.protocol_type = record.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if self.window_ms is not None:
            self.has_newcomers = True
        self._put(member)

    def _member_updated(self, record: MemberUpdated) -> None:
        known = self.members[record.member_id]
        self._count_offers(known, -1)
        self._put(
            replace(
                known,
                session_timeout_ms=record.session_timeout_ms,
                rebalance_timeout_ms=record.rebalance_timeout_ms,
                protocols=record.protocols,
            )
        )

    def _member_removed(self, record: MemberRemoved) -> None:
        self._own("members")
        member = self.members.pop(record.member_id)
        self._count_offers(member, -1)
        if member.group_instance_id is not None:
            self._own("static_members")
            self.static_members.pop(member.group_instance_id, None)
        self._own("parked_joins")
        self.parked_joins.pop(record.member_id, None)
        self._own("parked_syncs")
        self.parked_syncs.pop(record.member_id, None)
        self._own("pending_syncs")
        self.pending_syncs.discard(record.member_id)
        self.must_rebalance |= member.in_generation
        if self.leader_id == record.member_id:
            self.leader_id = next(iter(self.members), None)

    def _member_replaced(self, record: MemberReplaced) -> None:
        old_id, member = record.old_member_id, record.member
        self._count_offers(self.members[old_id], -1)
        self.members = {
            (member.member_id if member_id == old_id else member_id): known for member_id, known in self.members.items()
        }
        self._put(member)
        if member.in_generation:
            # A leader that has yet to assign knows the old id only, and the generation's protocol must be offered.
            is_unfit = self.settled_state is COMPLETING or not member.offers(self.protocol_name)
            self.must_rebalance |= is_unfit
        self._own("parked_joins")
        self.parked_joins.pop(old_id, None)
        self._own("parked_syncs")
        self.parked_syncs.pop(old_id, None)
        if old_id in self.pending_syncs:
            self._own("pending_syncs")
            self.pending_syncs.discard(old_id)
            self.pending_syncs.add(member.member_id)
        if self.leader_id == old_id:
            self.leader_id = member.member_id

    def _rebalance_started(self, record: RebalanceStarted) -> None:
        self._enter(PREPARING, record.at_ms)
        self.parked_syncs = {}
        self.pending_syncs = set()
        self.trigger = record.trigger
        self.must_rebalance |= record.trigger in ASSIGNMENT_UNFIT
        self._time_phase(record.node_ms, record.timeout_ms)
        self.window_ms = record.window_ms
        self.remaining_ms = record.remaining_ms
        self.has_newcomers = False

    def _generation_started(self, record: GenerationStarted) -> None:
        self._enter(COMPLETING, record.at_ms)
        self.generation = record.generation
        self.protocol_name = record.protocol_name
        self.leader_id = record.leader_id
        self.subscribed_topics = record.subscribed_topics
        self.topics_version = record.topics_version
        self.must_rebalance = False
        self._time_phase(record.node_ms, record.timeout_ms)
        self.parked_joins = {}
        self.pending_syncs = set(self.members)
        self._own("members")
        for member in list(self.members.values()):
            self.members[member.member_id] = replace(member, assignment=b"", is_new=False, in_generation=True)

    def _assignment_accepted(self, record: AssignmentAccepted) -> None:
        self._enter(STABLE, record.at_ms)
        self.parked_syncs = {}
        self._own("members")
        for member_id, assignment in record.assignments:
            self.members[member_id] = replace(self.members[member_id], assignment=assignment)

    def _group_emptied(self, record: GroupEmptied) -> None:
        self._enter(EMPTY, record.at_ms)
        self.generation = record.generation
        self.protocol_name = None
        self.subscribed_topics = frozenset() if self.protocol_type == CONSUMER else None
        self.must_rebalance = False

    def _time_phase(self, started_node_ms: int, timeout_ms: int | None) -> None:
        self.phase_started_node_ms = started_node_ms
        self.phase_timeout_ms = timeout_ms

    def _put(self, member: Member) -> None:
        self._own("members")
        self.members[member.member_id] = member
        self._count_offers(member, +1)
        if member.group_instance_id is not None:
            self._own("static_members")
            self.static_members[member.group_instance_id] = member.member_id

    def _count_offers(self, member: Member, step: int) -> None:
        self.metadata_bytes += step * metadata_bytes(member.protocols)
        self._own("offered")
        for name in {name for name, _ in member.protocols}:
            count = self.offered.get(name, 0) + step
            if count:
                self.offered[name] = count
            else:
                self.offered.pop(name, None)
