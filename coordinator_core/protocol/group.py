"""The state of one group, as the fold of its records.

`apply` reads only the group and the record. It looks up each change of the state in the table of legal transitions;
`decide` has checked everything else.

A group may have thousands of members, and most decisions change one entry. So a copy shares its containers with the
original until one of the two changes them (`_own`), and who waits is in persistent maps. Members are values.

Source: protocol.md sections 1 and 2.
"""

from collections.abc import Iterable
from typing import ClassVar, Final, Self, assert_never

from msgspec.structs import replace
from rpds import HashTrieMap, HashTrieSet

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupFound,
    GroupRecord,
    InitialDelayExtended,
    JoinParked,
    MemberJoined,
    MemberMoved,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    PendingMemberAdded,
    PendingMemberRemoved,
    PhaseTimeoutReset,
    RebalanceStarted,
    StateObserved,
    SyncParked,
    SyncReceived,
    Trigger,
    TriggerInferred,
)
from coordinator_core.protocol.requests import Token, metadata_bytes
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState, is_legal

GENERATION_MAX: Final = 2**31 - 1
"""The largest generation of Kafka's protocol and of the column; past it generations begin again."""
ASSIGNMENT_INVALIDATING_TRIGGERS = frozenset({Trigger.PARTITIONS_CHANGED, Trigger.ADMIN, Trigger.DATABASE_RESTORED})
"""Triggers after which the stored assignment no longer fits: the rebalance is due even if the node is lost."""


class Group:
    """One consumer group. Before its first record, `exists` is False and the state is Dead."""

    FIELDS: ClassVar = (
        "created_at_ms",
        "generation",
        "group_id",
        "has_new_members",
        "leader_id",
        "members",
        "metadata_bytes",
        "must_rebalance",
        "supported_protocols",
        "parked_joins",
        "parked_syncs",
        "pending_member_ids",
        "pending_syncs",
        "phase_started_node_ms",
        "phase_timeout_ms",
        "protocol_name",
        "protocol_type",
        "remaining_delay_ms",
        "state_before_join_phase",
        "state",
        "state_since_ms",
        "static_members",
        "subscribed_topics",
        "topics_version",
        "trigger",
        "initial_delay_ms",
    )
    CONTAINERS: ClassVar = frozenset(
        {
            "members",
            "supported_protocols",
            "pending_member_ids",
            "static_members",
        }
    )
    __slots__ = (*FIELDS, "_shared")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.created_at_ms: int | None = None
        self.state: GroupState = DEAD
        self.state_since_ms = 0
        self.state_before_join_phase: GroupState = EMPTY
        """The state to restore when a join phase under way is lost with its node."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        """Member id → member, oldest first."""
        self.static_members: dict[str, str] = {}
        self.pending_member_ids: set[str] = set()
        self.parked_joins: HashTrieMap[str, Token] = HashTrieMap()
        """Member id → its parked join. Persistent, as are the next two: thousands of members change them one by one."""
        self.parked_syncs: HashTrieMap[str, Token] = HashTrieMap()
        self.pending_syncs: HashTrieSet[str] = HashTrieSet()
        self.supported_protocols: dict[str, int] = {}
        """Protocol name → how many members support it."""
        self.metadata_bytes = 0
        """The size of all members' metadata, over all protocols that they support."""
        self.subscribed_topics: frozenset[str] | None = None
        self.topics_version = 0
        self.must_rebalance = False
        self.trigger: Trigger | None = None
        self.phase_started_node_ms = 0
        self.phase_timeout_ms: int | None = None
        """The rebalance timeout from settings when the phase began; None: the members' own count."""
        self.initial_delay_ms: int | None = None
        """The length of the initial rebalance delay under way; None outside of one."""
        self.remaining_delay_ms = 0
        self.has_new_members = False
        self._shared: frozenset[str] = frozenset()
        """Containers shared with another group."""

    @classmethod
    def loaded(  # noqa: PLR0913 - the stored columns, by name; a class would only repeat them
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
        """Return the group as stored. `state` is the state before a join phase under way, which is not restored.

        New members are not restored either, nor is a leader that was new. In CompletingRebalance every member counts as
        not synced: members repeat their parked syncs.
        """
        group = cls(group_id)
        group.created_at_ms = created_at_ms
        group._begin_in(state, state_since_ms)
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
            group.pending_syncs = HashTrieSet(group.members)
        return group

    # -- queries ----------------------------------------------------------------------------------

    def oldest_first(self, parked: "HashTrieMap[str, Token]") -> list[tuple[str, Token]]:
        """Return parked requests in the order of their members."""
        return [(member_id, token) for member_id in self.members if (token := parked.get(member_id)) is not None]

    @property
    def exists(self) -> bool:
        """Return whether the group has been created."""
        return self.created_at_ms is not None

    @property
    def next_generation(self) -> int:
        """Return the generation that the next join phase ends in."""
        return self.generation + 1 if self.generation < GENERATION_MAX else 1

    def is_waiting(self, member_id: str) -> bool:
        """Return whether a member has a join or a sync parked."""
        return member_id in self.parked_joins or member_id in self.parked_syncs

    def has_all_members_joined(self) -> bool:
        """Return whether every member has joined and no member is pending."""
        return len(self.parked_joins) == len(self.members) and not self.pending_member_ids

    def absent_members(self) -> list[str]:
        """Return the members that have not joined, oldest first."""
        if len(self.parked_joins) == len(self.members):
            return []
        return [member_id for member_id in self.members if member_id not in self.parked_joins]

    def waiting_for(self) -> list[str]:
        """Return the members that the phase under way waits for: to join, or to sync.

        In a sync phase the leader comes first, as no other member gets an assignment before it syncs. The others follow
        in order of age, pending members last.
        """
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                return self.absent_members() + sorted(self.pending_member_ids)
            case GroupState.COMPLETING_REBALANCE:
                pending = [member_id for member_id in self.members if member_id in self.pending_syncs]
                return sorted(pending, key=lambda member_id: member_id != self.leader_id)
            case _:
                return []

    def candidate_protocols(self) -> frozenset[str]:
        """Return the protocols that every member supports."""
        member_count = len(self.members)
        return frozenset(name for name, count in self.supported_protocols.items() if count == member_count)

    # -- the fold -----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return a group that can be changed without changing this one."""
        twin = type(self).__new__(type(self))
        self._shared = self.CONTAINERS
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def _own(self, container: str) -> None:
        """Copy a shared container before it is changed."""
        if container in self._shared:
            self._shared -= {container}
            setattr(self, container, getattr(self, container).copy())

    def fold(self, records: Iterable[GroupRecord]) -> Self:
        """Return the group after these records; this group stays unchanged."""
        twin = self.copy()
        for record in records:
            twin.apply(record)
        return twin

    def apply(self, record: GroupRecord) -> None:
        """Apply one record to the group in place; every transition of its state is in the table of states.py."""
        match record:
            case JoinParked():
                self.parked_joins = self.parked_joins.insert(record.member_id, record.token)
            case SyncParked():
                self.parked_syncs = self.parked_syncs.insert(record.member_id, record.token)
                self._sync_received(record.member_id)
            case SyncReceived():
                self._sync_received(record.member_id)
            case PendingMemberAdded():
                self.pending_member_ids = self.pending_member_ids | {record.member_id}
            case PendingMemberRemoved():
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
            case TriggerInferred() | StateObserved() | MemberMoved():
                self._observed(record)
            case InitialDelayExtended():
                self._initial_delay_extended(record)
            case PhaseTimeoutReset():
                self._set_phase_timeout(record.node_ms, record.timeout_ms)
            case GenerationStarted():
                self._generation_started(record)
            case AssignmentAccepted():
                self._assignment_accepted(record)
            case GroupCreated():
                self.created_at_ms = record.at_ms
                self._begin_in(EMPTY, record.at_ms)
            case GroupFound():
                self._group_found(record)
            case GroupEmptied():
                self._group_emptied(record)
            case GroupDied():
                self._enter(DEAD, record.at_ms)
            case _:
                assert_never(record)

    def _group_found(self, record: GroupFound) -> None:
        self.created_at_ms = record.at_ms
        self._begin_in(STABLE if record.members else EMPTY, record.at_ms)
        self.generation = record.generation
        self.protocol_type = record.protocol_type
        self.protocol_name = record.protocol_name
        self.leader_id = record.leader_id
        self.subscribed_topics = record.subscribed_topics
        self.topics_version = record.topics_version
        for member in record.members:
            self._put(member)

    def _observed(self, record: TriggerInferred | StateObserved | MemberMoved) -> None:
        match record:
            case TriggerInferred():
                self.trigger = record.trigger
            case StateObserved():
                self.state, self.state_since_ms = record.state, record.at_ms
            case MemberMoved(member_id, client_id, client_host):
                self._own("members")
                known = self.members[member_id]
                self.members[member_id] = replace(known, client_id=client_id, client_host=client_host)

    def _initial_delay_extended(self, record: InitialDelayExtended) -> None:
        self.initial_delay_ms = record.initial_delay_ms
        self.remaining_delay_ms = record.remaining_delay_ms
        self.has_new_members = False

    def _sync_received(self, member_id: str) -> None:
        self.pending_syncs = self.pending_syncs.discard(member_id)

    def _enter(self, state: GroupState, at_ms: int) -> None:
        """Change the state; a transition that the table does not have is a broken invariant."""
        assert is_legal(self.state, state), f"{self.group_id}: {self.state} → {state} is no legal transition"
        self._begin_in(state, at_ms)

    def _begin_in(self, state: GroupState, at_ms: int) -> None:
        self.state = state
        self.state_since_ms = at_ms
        if state is not PREPARING:
            self.state_before_join_phase = state
            self.initial_delay_ms = None

    def _member_joined(self, record: MemberJoined) -> None:
        member = record.member
        if not self.members:
            self.protocol_type = record.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if self.initial_delay_ms is not None:
            self.has_new_members = True
        self._put(member)

    def _member_updated(self, record: MemberUpdated) -> None:
        known = self.members[record.member_id]
        updated = replace(
            known,
            session_timeout_ms=record.session_timeout_ms,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            protocols=record.protocols,
        )
        if updated != known:
            self._count_supported_protocols(known, -1)
            self._put(updated)

    def _member_removed(self, record: MemberRemoved) -> None:
        self._own("members")
        member = self.members.pop(record.member_id)
        self._count_supported_protocols(member, -1)
        if member.group_instance_id is not None:
            self._own("static_members")
            self.static_members.pop(member.group_instance_id, None)
        self.parked_joins = self.parked_joins.discard(record.member_id)
        self.parked_syncs = self.parked_syncs.discard(record.member_id)
        self.pending_syncs = self.pending_syncs.discard(record.member_id)
        self.must_rebalance |= member.in_generation
        if self.leader_id == record.member_id:
            self.leader_id = next(iter(self.members), None)

    def _member_replaced(self, record: MemberReplaced) -> None:
        old_id, member = record.old_member_id, record.member
        self._count_supported_protocols(self.members[old_id], -1)
        self.members = {
            (member.member_id if member_id == old_id else member_id): known for member_id, known in self.members.items()
        }
        self._put(member)
        if member.in_generation:
            # A leader that has not assigned yet knows the old id; the member must support the protocol.
            is_unfit = self.state_before_join_phase is COMPLETING or not member.supports(self.protocol_name)
            self.must_rebalance |= is_unfit
        self.parked_joins = self.parked_joins.discard(old_id)
        self.parked_syncs = self.parked_syncs.discard(old_id)
        if old_id in self.pending_syncs:
            self.pending_syncs = self.pending_syncs.remove(old_id).insert(member.member_id)
        if self.leader_id == old_id:
            self.leader_id = member.member_id

    def _rebalance_started(self, record: RebalanceStarted) -> None:
        self._enter(PREPARING, record.at_ms)
        self.parked_syncs = HashTrieMap()
        self.pending_syncs = HashTrieSet()
        self.trigger = record.trigger
        self.must_rebalance |= record.trigger in ASSIGNMENT_INVALIDATING_TRIGGERS
        self._set_phase_timeout(record.node_ms, record.timeout_ms)
        self.initial_delay_ms = record.initial_delay_ms
        self.remaining_delay_ms = record.remaining_delay_ms
        self.has_new_members = False

    def _generation_started(self, record: GenerationStarted) -> None:
        if self.state is COMPLETING:  # A mirrored group, polled in this state.
            self._begin_in(COMPLETING, record.at_ms)
        else:
            self._enter(COMPLETING, record.at_ms)
        self.generation = record.generation
        self.protocol_name = record.protocol_name
        self.leader_id = record.leader_id
        self.subscribed_topics = record.subscribed_topics
        self.topics_version = record.topics_version
        self.must_rebalance = False
        self._set_phase_timeout(record.node_ms, record.timeout_ms)
        self.parked_joins = HashTrieMap()
        self.pending_syncs = HashTrieSet(self.members)
        self._own("members")
        for member in list(self.members.values()):
            self.members[member.member_id] = member.in_new_generation()

    def _assignment_accepted(self, record: AssignmentAccepted) -> None:
        self._enter(STABLE, record.at_ms)
        self.parked_syncs = HashTrieMap()
        self._own("members")
        for member_id, assignment in record.assignments:
            self.members[member_id] = replace(self.members[member_id], assignment=assignment)

    def _group_emptied(self, record: GroupEmptied) -> None:
        self._enter(EMPTY, record.at_ms)
        self.generation = record.generation
        self.protocol_name = None
        self.subscribed_topics = frozenset() if self.protocol_type == CONSUMER else None
        self.must_rebalance = False

    def _set_phase_timeout(self, started_node_ms: int, timeout_ms: int | None) -> None:
        self.phase_started_node_ms = started_node_ms
        self.phase_timeout_ms = timeout_ms

    def _put(self, member: Member) -> None:
        self._own("members")
        self.members[member.member_id] = member
        self._count_supported_protocols(member, +1)
        if member.group_instance_id is not None:
            self._own("static_members")
            self.static_members[member.group_instance_id] = member.member_id

    def _count_supported_protocols(self, member: Member, step: int) -> None:
        self.metadata_bytes += step * metadata_bytes(member.protocols)
        self._own("supported_protocols")
        for name in {name for name, _ in member.protocols}:
            count = self.supported_protocols.get(name, 0) + step
            if count:
                self.supported_protocols[name] = count
            else:
                self.supported_protocols.pop(name, None)
