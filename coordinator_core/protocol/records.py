"""Records of what happened to a group: the only changes of its state, in the past tense.

A *stored* record survives its node: it is written completely before any reply that depends on it is sent. A
*volatile* one is lost with the node, as in Kafka (protocol.md section 13): pending members, parked requests, and the
new members of a join phase. `at_ms` is wall time.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar, NamedTuple

from msgspec import Struct

from coordinator_core.protocol.log_ends import LogEnd, reported_log_end
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.requests import OffsetToCommit, StoredOffset, SupportedProtocol, Token
from coordinator_core.protocol.states import GroupState


class Trigger(StrEnum):
    """Why a rebalance began. Source: tables.md."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    MEMBER_LEFT_OR_EXPIRED = "member_left_or_expired"
    """Of a mirrored group: its log does not say which."""
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    LEADER_REJOINED = "leader_rejoined"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    PARTITIONS_CHANGED = "partitions_changed"
    OVER_CAPACITY = "over_capacity"
    UNKNOWN = "unknown"
    """Of a mirrored group whose rebalance was polled: the generation that it leads to shows the trigger."""
    DATABASE_RESTORED = "database_restored"
    """A new incarnation of the database began: it was restored, rolled back, or a standby was promoted."""
    ADMIN = "admin"


class RemovalReason(StrEnum):
    """Why a member session ended. Source: tables.md, `member_sessions.end_reason`."""

    LEFT = "left"
    SESSION_EXPIRED = "session_expired"
    LEFT_OR_EXPIRED = "left_or_expired"
    """A member of a mirrored group is gone."""
    NEW_MEMBER_TIMEOUT = "new_member_timeout"
    """A new member waited for the end of the join phase until its time was over: the group made it wait."""
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    ADMIN = "admin"
    """Removed by an operator, or by a size limit that was lowered."""

    @property
    def trigger(self) -> Trigger:
        """Return the trigger of the rebalance that follows the removal."""
        if self in {RemovalReason.LEFT, RemovalReason.LEFT_OR_EXPIRED}:
            return Trigger(f"member_{self}")
        return Trigger.SESSION_EXPIRED if self is RemovalReason.NEW_MEMBER_TIMEOUT else Trigger(self.value)


# -- stored ---------------------------------------------------------------------------------------


class GroupCreated(Struct, frozen=True, gc=False):
    """The group was created, Empty and at generation 0."""

    is_stored: ClassVar[bool] = True
    at_ms: int


class GroupFound(Struct, frozen=True, gc=False):
    """A mirrored group was found as it is: what happened to it before is not known, and has no history.

    It is Stable, or Empty if it has no members. Its members are in the generation and have their assignments.
    """

    is_stored: ClassVar[bool] = True
    at_ms: int
    """Since when it is in its state."""
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    subscribed_topics: frozenset[str] | None
    topics_version: int
    members: tuple[Member, ...]


class RebalanceStarted(Struct, frozen=True, gc=False):
    """A join phase began: every member has to join again."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    node_ms: int
    """When it began on the node's clock; a changed timeout counts from here."""
    trigger: Trigger
    member_id: str | None
    client_reason: str | None
    timeout_ms: int | None
    """The rebalance timeout from settings; None: the members' own count."""
    initial_delay_ms: int | None
    """The initial rebalance delay where the group was Empty; None in an ordinary phase."""
    remaining_delay_ms: int = 0
    """By how much the delay may still be extended."""
    is_start_inferred: bool = False
    """Whether `at_ms` is the end of the join phase, as its start is not known (a mirrored group)."""


class TriggerInferred(Struct, frozen=True, gc=False):
    """The trigger of a mirrored group's rebalance was inferred, after a poll had seen the rebalance."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    """The end of the join phase: a start that was polled after it is not the start of this rebalance."""
    trigger: Trigger
    member_id: str | None


class StateObserved(Struct, frozen=True, gc=False):
    """A mirrored group was polled in a state to which its log has not led.

    CompletingRebalance: its generation is in the log when its assignment is accepted. PreparingRebalance: that
    assignment was not accepted. Stable or Empty: the rebalance was abandoned, and the group is as it was before.
    """

    is_stored: ClassVar[bool] = True
    at_ms: int
    state: GroupState


class GenerationStarted(Struct, frozen=True, gc=False):
    """A join phase ended with members; the leader assigns next."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    node_ms: int
    timeout_ms: int | None
    """As in `RebalanceStarted`; here it limits the wait for syncs."""
    generation: int
    protocol_name: str
    leader_id: str | None
    """None: the group is mirrored, and its members have no leader."""
    subscribed_topics: frozenset[str] | None
    """None: unknown."""
    topics_version: int


class GroupEmptied(Struct, frozen=True, gc=False):
    """A join phase ended without members."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    generation: int


class AssignmentAccepted(Struct, frozen=True, gc=False):
    """The leader's assignment was accepted: the group is Stable. Members that it does not name own nothing."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    generation: int
    assignments: tuple[tuple[str, bytes], ...]
    """One entry a member of the generation."""
    omitted_members: tuple[str, ...] = ()
    """The members that the leader's assignment did not name."""


class MemberRemoved(Struct, frozen=True, gc=False):
    """A member session ended. The member's partitions have no owner until the next generation."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    member_id: str
    removal_reason: RemovalReason
    client_reason: str | None = None


class MemberReplaced(Struct, frozen=True, gc=False):
    """A static member rejoined without its member id: a new id, with the old assignment and order."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    old_member_id: str
    member: Member


class MemberMoved(Struct, frozen=True, gc=False):
    """A member of a mirrored group goes on from another host, or with another client id, without a rebalance."""

    is_stored: ClassVar[bool] = True
    member_id: str
    client_id: str
    client_host: str


class GroupDied(Struct, frozen=True, gc=False):
    """The group was deleted, or retired without committed offsets."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    cause: str


class CommittedOffset(NamedTuple):
    """A partition's newest committed offset, with all that is known of it."""

    at_ms: int
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    log_end_offset: int | None
    expires_at_ms: int | None
    member_id: str
    log_end_at_ms: int | None = None
    """When the log end offset was reported; None: with this commit."""

    @property
    def log_end(self) -> LogEnd | None:
        """Return the log end offset stored with the commit; it is never below the committed offset."""
        return reported_log_end(self.offset, self.log_end_offset, self.log_end_at_ms or self.at_ms)


class OffsetsCommitted(Struct, frozen=True, array_like=True, gc=False):
    """Offsets that were committed together."""

    at_ms: int
    member_id: str
    expires_at_ms: int | None
    offsets: tuple[OffsetToCommit, ...]
    """At least one; of several for one partition the last counts."""
    log_end_at_ms: int | None = None
    """When its log end offsets were reported; None: with this commit."""

    @property
    def is_stored(self) -> bool:
        """Return True: a commit is stored."""
        return True

    @property
    def committed_offsets(self) -> Iterator[CommittedOffset]:
        """Yield each committed offset with the fields that all of them share."""
        return map(self.committed_offset, self.offsets)

    def committed_offset(self, one: OffsetToCommit) -> CommittedOffset:
        """Return one of the offsets with the fields that all of them share."""
        return CommittedOffset(
            self.at_ms,
            one.topic,
            one.partition,
            one.offset,
            one.leader_epoch,
            one.metadata,
            one.log_end_offset,
            self.expires_at_ms,
            self.member_id,
            self.log_end_at_ms,
        )


class OffsetRemoved(Struct, frozen=True, gc=False):
    """An offset was removed; it is archived under the id of the change that removed it."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    offset: StoredOffset
    cause: str
    change_id: str


# -- volatile -------------------------------------------------------------------------------------


class PendingMemberAdded(Struct, frozen=True, gc=False):
    """A pending member id was issued; it blocks early ends of join phases until it is used or dropped."""

    is_stored: ClassVar[bool] = False
    member_id: str


class PendingMemberRemoved(Struct, frozen=True, gc=False):
    """A pending member id was used, left, or expired."""

    is_stored: ClassVar[bool] = False
    member_id: str


class MemberJoined(Struct, frozen=True, gc=False):
    """A new member was added for the next generation."""

    is_stored: ClassVar[bool] = False
    member: Member
    protocol_type: str


class MemberUpdated(Struct, frozen=True, gc=False):
    """A member joined again, with its current protocols and timeouts."""

    is_stored: ClassVar[bool] = False
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]


class JoinParked(Struct, frozen=True, gc=False):
    """A join waits for the join phase to end."""

    is_stored: ClassVar[bool] = False
    at_ms: int
    member_id: str
    token: Token


class SyncParked(Struct, frozen=True, gc=False):
    """A sync waits for the leader's assignment."""

    is_stored: ClassVar[bool] = False
    at_ms: int
    member_id: str
    token: Token


class SyncReceived(Struct, frozen=True, gc=False):
    """A member synced in this generation: the sync timeout no longer applies to it."""

    is_stored: ClassVar[bool] = False
    at_ms: int
    member_id: str


class InitialDelayExtended(Struct, frozen=True, gc=False):
    """New members joined during the initial rebalance delay, so it was extended."""

    is_stored: ClassVar[bool] = False
    initial_delay_ms: int
    remaining_delay_ms: int


class PhaseTimeoutReset(Struct, frozen=True, gc=False):
    """The timeout of the join or sync phase restarted: from another moment, or with another length."""

    is_stored: ClassVar[bool] = False
    node_ms: int
    timeout_ms: int | None


StoredRecord = (
    GroupCreated
    | GroupFound
    | RebalanceStarted
    | TriggerInferred
    | StateObserved
    | GenerationStarted
    | GroupEmptied
    | AssignmentAccepted
    | MemberRemoved
    | MemberReplaced
    | MemberMoved
    | GroupDied
)
OffsetRecord = OffsetsCommitted | OffsetRemoved
VolatileRecord = (
    PendingMemberAdded
    | PendingMemberRemoved
    | MemberJoined
    | MemberUpdated
    | JoinParked
    | SyncParked
    | SyncReceived
    | InitialDelayExtended
    | PhaseTimeoutReset
)
GroupRecord = StoredRecord | VolatileRecord
Record = GroupRecord | OffsetRecord
