"""Requests to a group: from members, operators, timers, and the node that owns it.

Names are imperative. Every request that a caller waits for carries a `token`, which its reply names; only the driver
knows which caller a token stands for. Identity comes from outside as well: a join carries the member id to issue if
it needs one.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS, LogEnd, reported_log_end

NO_MEMBER_ID = ""

Token = int


class SupportedProtocol(NamedTuple):
    """A protocol (assignor) that a member supports: its name, and metadata that is opaque to the group."""

    name: str
    metadata: bytes


def metadata_bytes(protocols: Iterable[SupportedProtocol]) -> int:
    """Return the size of a member's metadata in bytes, over all protocols that it supports."""
    return sum(len(metadata) for _, metadata in protocols)


# -- members ----------------------------------------------------------------------------------------


class JoinGroup(Struct, frozen=True, gc=False):
    """Join the next generation. Source: protocol.md section 5."""

    token: Token
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[SupportedProtocol, ...]
    new_member_id: str
    """The id to hand out if this request needs one: ``<client or instance id>-<uuid4>``."""
    require_known_member_id: bool = True
    supports_skip_assignment: bool = True
    reason: str | None = None


class SyncGroup(Struct, frozen=True, gc=False):
    """Fetch the member's assignment; the leader's request brings all assignments. Source: protocol.md section 6."""

    token: Token
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class Heartbeat(Struct, frozen=True, gc=False):
    """Restart the session, and learn whether to rejoin. Source: protocol.md section 7."""

    token: Token
    generation: int
    member_id: str
    group_instance_id: str | None = None


class LeavingMember(NamedTuple):
    """One entry of a leave: the member, and its reason."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroup(Struct, frozen=True, gc=False):
    """Remove members; each entry has its own result. Source: protocol.md section 8."""

    token: Token
    members: tuple[LeavingMember, ...]


class OffsetToCommit(Struct, frozen=True, gc=False, array_like=True):
    """The offset to commit for one partition; in the offset log it is an array."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    log_end_offset: int | None = None


class StoredOffset(NamedTuple):
    """A committed offset, read from the store for a decision."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    log_end_offset: int | None
    committed_at_ms: int
    expires_at_ms: int | None
    commit_version: int
    log_end_at_ms: int | None = None
    """When the log end was reported, if not with this commit."""

    @property
    def log_end(self) -> LogEnd | None:
        """Return the log end offset stored with the commit; it is never below the committed offset."""
        return reported_log_end(self.offset, self.log_end_offset, self.log_end_at_ms or self.committed_at_ms)


class CommitOffsets(Struct, frozen=True, gc=False):
    """Commit offsets, as a member or (generation -1, no ids) as a non-member. Source: protocol.md section 10.1."""

    token: Token
    generation: int
    member_id: str
    group_instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    retention_time_ms: int = -1
    """The offsets' own retention; -1: the group's retention applies."""
    trusted_topic_prefixes: tuple[str, ...] = ()
    """Prefixes of the topics whose log ends this client may report for every group; others count for its own group."""
    change_id: str = ""
    """The change that this commit makes, as a reset by Kafka's tools; "": none."""
    replaced: tuple[StoredOffset, ...] = ()
    """With a change, the offsets that it replaces: they are archived, unless their partition is refused."""


# -- time and the node --------------------------------------------------------------------------------


class DeadlineKind(StrEnum):
    """The timers of a group. Source: protocol.md section 9.6."""

    JOIN = "join"
    """The end of a join phase at its limit, or of the initial rebalance delay."""
    SYNC = "sync"
    SESSION = "session"
    """A member's session; for a new member, the time for its first join."""
    PENDING_MEMBER = "pending_member_id"
    """A pending member id."""


class Deadline(Struct, frozen=True, gc=False):
    """One timer of a group; `subject` is a member id, or "" for a timer of the group."""

    kind: DeadlineKind
    subject: str = ""


class ExpireDeadline(Struct, frozen=True, gc=False):
    """A timer fired. Source: protocol.md sections 9.2 to 9.6."""

    deadline: Deadline


class Resume(Struct, frozen=True, gc=False):
    """The group was just loaded: start its timers, and any rebalance that is due. Source: protocol.md section 13."""


class Reevaluate(Struct, frozen=True, gc=False):
    """Settings or the topic metadata changed: adjust timers, and rebalance if subscribed topics changed."""

    is_rebalance_timeout_changed: bool = False
    """Whether it may have changed; the phase timer restarts only if its length differs."""


# -- operators and maintenance ---------------------------------------------------------------------------


class ForceRebalance(Struct, frozen=True, gc=False):
    """Start a rebalance on behalf of an operator."""

    token: Token
    reason: str


class RemoveMember(Struct, frozen=True, gc=False):
    """Remove a member on behalf of an operator, as if it had left."""

    token: Token
    member_id: str
    reason: str


class DeleteOffsets(Struct, frozen=True, gc=False):
    """Delete committed offsets, or report which would be deleted. Source: protocol.md section 10.3.

    `stored` has the offsets as they are now.
    """

    token: Token
    partitions: tuple[tuple[str, int], ...]
    stored: tuple[StoredOffset, ...]
    change_id: str
    is_dry_run: bool = False


class DeleteGroup(Struct, frozen=True, gc=False):
    """Delete an Empty group with its offsets. Source: protocol.md section 11."""

    token: Token
    stored: tuple[StoredOffset, ...]
    change_id: str


class ExpiryCandidate(NamedTuple):
    """An offset that a maintenance run proposed to expire, as the run read it."""

    topic: str
    partition: int
    commit_version: int


class ExpireOffsets(Struct, frozen=True, gc=False):
    """Expire those of a run's candidates that are due by the full rule as of now. Source: protocol.md section 10.4."""

    token: Token
    candidates: tuple[ExpiryCandidate, ...]
    stored: tuple[StoredOffset, ...]
    change_id: str


class RemoveTopicOffsets(Struct, frozen=True, gc=False):
    """Remove the offsets of a deleted topic whatever the group's state, except offsets committed since."""

    token: Token
    candidates: tuple[ExpiryCandidate, ...]
    stored: tuple[StoredOffset, ...]
    change_id: str


class ResetTo(StrEnum):
    """The targets of a reset. Source: http-api.md "Resetting offsets"."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    SHIFT = "shift"
    DATETIME = "datetime"
    CURRENT = "current"
    GIVEN = "given"


class PartitionToReset(NamedTuple):
    """A partition to reset, with what is known of its log; None: unknown."""

    topic: str
    partition: int
    log_start_offset: int = 0
    log_end: LogEnd | None = None
    """The highest log end that a trusted reporter or the group itself has reported, and when."""
    offset_at_datetime: int | None = None
    """The committed offset at the requested instant."""
    given: int | None = None
    """The offset that the request names for this partition."""


class ResetOffsets(Struct, frozen=True, gc=False):
    """Reset an Empty group's committed offsets, or report the offsets that a reset would commit."""

    token: Token
    to: ResetTo
    amount: int
    """The offset, or by how much to shift; unused by other targets."""
    partitions: tuple[PartitionToReset, ...]
    unknown_topics: tuple[str, ...]
    """Requested topics of which no partition is known."""
    stored: tuple[StoredOffset, ...]
    change_id: str
    is_dry_run: bool = False
    log_end_max_age_ms: int = LOG_END_MAX_AGE_MS
    """The age past which a log end is stale, so that a result carries a warning."""


class OffsetToRestore(NamedTuple):
    """What a change of offsets replaced in a partition, and what it committed there."""

    topic: str
    partition: int
    offset: int | None
    """The committed offset before the change; None: none."""
    leader_epoch: int = -1
    metadata: str = ""
    log_end_offset: int | None = None
    log_end_at_ms: int | None = None
    """When that log end was reported."""
    offset_after_change: int | None = None
    """The offset that the change committed; None: it deleted the offset."""
    changed_at_ms: int | None = None


class RestoreOffsets(Struct, frozen=True, gc=False):
    """Undo a change of offsets, except where a newer one exists."""

    token: Token
    offsets: tuple[OffsetToRestore, ...]
    stored: tuple[StoredOffset, ...]
    change_id: str
    is_maintenance_run: bool = False
    """Whether a maintenance run asks: it records that a group is active instead of failing."""


class GroupSnapshot(NamedTuple):
    """A group's state as a proposal read it; it differs if the group was active since and emptied again."""

    generation: int
    state_since_ms: int


class RetireGroup(Struct, frozen=True, gc=False):
    """Retire an Empty group without committed offsets: it becomes Dead. Source: protocol.md section 10.4."""

    token: Token
    has_offsets: bool
    seen: GroupSnapshot | None = None
    """The group as proposed; None: a run has just expired the group's last offset."""


MemberRequest = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | CommitOffsets
"""A request of a member."""
SESSION_ACTIVITY: Final = (Heartbeat, CommitOffsets, SyncGroup, JoinGroup)
"""Requests that keep their member's session alive, unless they are refused."""
Request = (
    MemberRequest
    | ExpireDeadline
    | Resume
    | Reevaluate
    | ForceRebalance
    | RemoveMember
    | DeleteOffsets
    | DeleteGroup
    | ExpireOffsets
    | RemoveTopicOffsets
    | ResetOffsets
    | RestoreOffsets
    | RetireGroup
)
