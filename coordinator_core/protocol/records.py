"""What has happened to a group: the only changes there are, in the past tense.

A *stored* record outlives the node: it is written, whole, before anybody is told of it. A *volatile* one is
forgotten with the node, as Kafka forgets it (protocol.md section 13): handshake ids, who is waiting, and a join
phase's newcomers. `at_ms` is wall time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from coordinator_core.protocol.log_ends import LogEnd, own_log_end
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.requests import Offer, OffsetToCommit, StoredOffset, Token


class Trigger(StrEnum):
    """Why a rebalance began. Source: tables.md."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    LEADER_REJOINED = "leader_rejoined"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    PARTITIONS_CHANGED = "partitions_changed"
    OVER_CAPACITY = "over_capacity"
    STORE_FAILED = "store_failed"
    DATABASE_RESTORED = "database_restored"
    """A new incarnation of the database began: it was restored, rolled back, or a standby was promoted."""
    ADMIN = "admin"


class Removal(StrEnum):
    """How a member's stay ended. Source: tables.md, `member_sessions.end_reason`."""

    LEFT = "left"
    SESSION_EXPIRED = "session_expired"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    ADMIN = "admin"
    """An operator put it out, or a limit that an operator lowered did."""

    @property
    def trigger(self) -> Trigger:
        """Return the trigger of the rebalance that such a removal starts."""
        return Trigger.MEMBER_LEFT if self is Removal.LEFT else Trigger(self.value)


# -- stored ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupCreated:
    """The group's life began, Empty and at generation 0."""

    is_stored: ClassVar[bool] = True
    at_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceStarted:
    """A join phase began: everybody has to join again."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    node_ms: int
    """When it began on the node's clock; what a changed timeout is counted from."""
    trigger: Trigger
    member_id: str | None
    client_reason: str | None
    timeout_ms: int | None
    """The rebalance timeout that settings put in force; None: members' own."""
    window_ms: int | None
    """The first initial window where the group was Empty; None in an ordinary phase."""
    remaining_ms: int = 0
    """What further windows may add to it."""


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """A join phase ended with members; the leader is now to assign."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    node_ms: int
    timeout_ms: int | None
    """As in `RebalanceStarted`; here it limits the wait for syncs."""
    generation: int
    protocol_name: str
    leader_id: str
    subscribed_topics: frozenset[str] | None
    """None: unknown."""
    topics_version: int


@dataclass(frozen=True, slots=True)
class GroupEmptied:
    """A join phase ended with nobody."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    generation: int


@dataclass(frozen=True, slots=True)
class AssignmentAccepted:
    """The leader's assignment was taken: the group is Stable. Members left out hold nothing."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    generation: int
    assignments: tuple[tuple[str, bytes], ...]
    """One entry a member of the generation."""
    left_out: tuple[str, ...] = ()
    """The members that the leader's assignment did not name."""


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """A member's stay ended. What was assigned to it has no owner until the next generation."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    member_id: str
    removal: Removal
    client_reason: str | None = None


@dataclass(frozen=True, slots=True)
class MemberReplaced:
    """A static member came back without its id: the same place, the same assignment, a new id."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    old_member_id: str
    member: Member


@dataclass(frozen=True, slots=True)
class GroupDied:
    """The group's life ended: deleted, or retired with no offset left."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    cause: str


class CommittedOffset(NamedTuple):
    """A partition's newest position, with all that is known of it."""

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
    """When the log's end was reported; None: with this commit."""

    @property
    def log_end(self) -> LogEnd | None:
        """Return the end of the log that stands with the offset; a commit shows that the log reaches it."""
        return own_log_end(self.offset, self.log_end_offset, self.log_end_at_ms or self.at_ms)


class OffsetsCommitted(NamedTuple):
    """Positions that were committed together. Commits are the most that happens, and a tuple is made quickly."""

    at_ms: int
    member_id: str
    expires_at_ms: int | None
    offsets: tuple[OffsetToCommit, ...]
    """At least one; of several of one partition the last counts."""
    log_end_at_ms: int | None = None
    """When the log ends in it were reported; None: with this commit."""

    @property
    def is_stored(self) -> bool:
        """Say what all records say of themselves."""
        return True

    @property
    def positions(self) -> Iterator[CommittedOffset]:
        """Return each position with what all have in common."""
        return (
            CommittedOffset(self.at_ms, *one, self.expires_at_ms, self.member_id, self.log_end_at_ms)
            for one in self.offsets
        )


@dataclass(frozen=True, slots=True)
class OffsetRemoved:
    """An offset was taken away; it goes to the archive, under the change that took it."""

    is_stored: ClassVar[bool] = True
    at_ms: int
    offset: StoredOffset
    cause: str
    change_id: str


# -- volatile -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberIdIssued:
    """A handshake id was handed out; it blocks early ends of join phases until it is used or dropped."""

    is_stored: ClassVar[bool] = False
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberIdDropped:
    """A handshake id was used, left, or ran out."""

    is_stored: ClassVar[bool] = False
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A newcomer has a place, for the generation to come."""

    is_stored: ClassVar[bool] = False
    member: Member
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberUpdated:
    """A member joined again with what it offers now."""

    is_stored: ClassVar[bool] = False
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class JoinParked:
    """A member waits for the join phase to end."""

    is_stored: ClassVar[bool] = False
    at_ms: int
    member_id: str
    token: Token


@dataclass(frozen=True, slots=True)
class SyncParked:
    """A member waits for the leader's assignment."""

    is_stored: ClassVar[bool] = False
    at_ms: int
    member_id: str
    token: Token


@dataclass(frozen=True, slots=True)
class SyncReceived:
    """A member has synced in this generation: the sync limit no longer counts it."""

    is_stored: ClassVar[bool] = False
    at_ms: int
    member_id: str


@dataclass(frozen=True, slots=True)
class WindowExtended:
    """Newcomers came in the initial window: there is another one."""

    is_stored: ClassVar[bool] = False
    window_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class PhaseRetimed:
    """The wait for joins or syncs is counted anew: from another moment, or by another timeout."""

    is_stored: ClassVar[bool] = False
    node_ms: int
    timeout_ms: int | None


StoredRecord = (
    GroupCreated
    | RebalanceStarted
    | GenerationStarted
    | GroupEmptied
    | AssignmentAccepted
    | MemberRemoved
    | MemberReplaced
    | GroupDied
)
OffsetRecord = OffsetsCommitted | OffsetRemoved
VolatileRecord = (
    MemberIdIssued
    | MemberIdDropped
    | MemberJoined
    | MemberUpdated
    | JoinParked
    | SyncParked
    | SyncReceived
    | WindowExtended
    | PhaseRetimed
)
GroupRecord = StoredRecord | VolatileRecord
Record = GroupRecord | OffsetRecord
