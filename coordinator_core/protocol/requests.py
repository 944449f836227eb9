"""What can be asked of a group, by members, by operators, by time, and by the node that serves it.

Names are imperative. Every request that somebody waits for carries a `token`, which its reply will name; the
driver knows who stands behind a token, the protocol does not. Identity comes in from outside as well: a join
brings the member id it would be given.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS, LogEnd, own_log_end

NO_MEMBER_ID = ""

Token = int


class Offer(NamedTuple):
    """One protocol (assignor) that a member offers: a name, and metadata that the group does not look into."""

    name: str
    metadata: bytes


def metadata_bytes(protocols: Iterable[Offer]) -> int:
    """Return how many bytes of metadata a member brings, over all protocols that it supports."""
    return sum(len(metadata) for _, metadata in protocols)


# -- members ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Ask to be a member of the next generation. Source: protocol.md section 5."""

    token: Token
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Offer, ...]
    fresh_member_id: str
    """The id to hand out if this request needs one: ``<client or instance id>-<uuid4>``."""
    require_known_member_id: bool = True
    supports_skip_assignment: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Ask for one's own assignment; the leader brings everybody's. Source: protocol.md section 6."""

    token: Token
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Say that one is alive, and learn whether to rejoin. Source: protocol.md section 7."""

    token: Token
    generation: int
    member_id: str
    group_instance_id: str | None = None


class Leaver(NamedTuple):
    """One entry of a leave: who goes, and why."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Take members out; each entry has a result of its own. Source: protocol.md section 8."""

    token: Token
    members: tuple[Leaver, ...]


class OffsetToCommit(NamedTuple):
    """One partition's position."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    log_end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Store positions, as a member or (generation -1, no ids) from outside. Source: protocol.md section 10.1."""

    token: Token
    generation: int
    member_id: str
    group_instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    retention_time_ms: int = -1
    """The offsets' own time to live; -1: the group's retention counts."""
    trusted_topics: tuple[str, ...] = ()
    """Prefixes of the topics whose log ends this reporter may set for every group; none: they count for its own."""


# -- time and the node --------------------------------------------------------------------------------


class DeadlineKind(StrEnum):
    """What a group waits for. Source: protocol.md section 9.6."""

    JOIN = "join"
    """The join limit, or the end of an initial window."""
    SYNC = "sync"
    MEMBER = "member"
    """A member's session; for a newcomer, its first answer."""
    HANDSHAKE = "handshake"
    """A member id that was handed out and not yet used."""


class Deadline(NamedTuple):
    """One timer of a group; `subject` is a member id, or "" for the group's own."""

    kind: DeadlineKind
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Expire:
    """A deadline has passed in full. Source: protocol.md sections 9.2 to 9.6."""

    deadline: Deadline


@dataclass(frozen=True, slots=True)
class Resume:
    """The group was just loaded from the store: start timers, and whatever was owed. Source: protocol.md section 13."""


@dataclass(frozen=True, slots=True)
class Reconsider:
    """Settings or the topic catalogue changed: re-time what is under way, rebalance if partitions changed."""

    is_rebalance_timeout_changed: bool = False
    """Whether it may have; a phase is timed anew only if it runs by another one."""
    gone_topics: frozenset[str] = frozenset()
    """Topics that were taken out of the catalogue."""


# -- operators and maintenance ---------------------------------------------------------------------------


class StoredOffset(NamedTuple):
    """An offset as it stands in the store, read for a decision."""

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
    """When the log's end was reported, where that was not with this commit."""

    @property
    def log_end(self) -> LogEnd | None:
        """Return the end of the log that stands with the offset; a commit shows that the log reaches it."""
        return own_log_end(self.offset, self.log_end_offset, self.log_end_at_ms or self.committed_at_ms)


@dataclass(frozen=True, slots=True)
class ForceRebalance:
    """An operator wants a new generation."""

    token: Token
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """An operator puts a member out, as if it had left."""

    token: Token
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Take committed offsets away, or tell which would go. Source: protocol.md section 10.3.

    `stored` is what stands there now.
    """

    token: Token
    partitions: tuple[tuple[str, int], ...]
    stored: tuple[StoredOffset, ...]
    change_id: str
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Take an empty group away with its offsets. Source: protocol.md section 11."""

    token: Token
    stored: tuple[StoredOffset, ...]
    change_id: str


class ExpiryCandidate(NamedTuple):
    """An offset that a maintenance run proposed to expire, as it was seen then."""

    topic: str
    partition: int
    commit_version: int


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Judge a run's candidates again, by the whole rule, on what stands there now. Source: protocol.md section 10.4."""

    token: Token
    candidates: tuple[ExpiryCandidate, ...]
    stored: tuple[StoredOffset, ...]
    change_id: str


@dataclass(frozen=True, slots=True)
class RemoveTopicOffsets:
    """Take the offsets of a deleted topic away, whatever the group does; but not what was committed since."""

    token: Token
    candidates: tuple[ExpiryCandidate, ...]
    stored: tuple[StoredOffset, ...]
    change_id: str


class ResetTo(StrEnum):
    """Where a reset puts a group. Source: http-api.md "Resetting a group"."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    SHIFT = "shift"
    DATETIME = "datetime"
    CURRENT = "current"
    GIVEN = "given"


class PartitionToReset(NamedTuple):
    """A partition to reset, with what is known of its log; None is not known."""

    topic: str
    partition: int
    log_start_offset: int = 0
    log_end: LogEnd | None = None
    """The furthest end that a trusted reporter or the group itself has reported, and when."""
    committed_then: int | None = None
    """What was committed at the instant asked for."""
    given: int | None = None
    """Where the caller wants this very partition."""


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Put an Empty group to other positions, or tell what they would be."""

    token: Token
    to: ResetTo
    amount: int
    """The offset, or by how much to shift; nothing to the other ways."""
    partitions: tuple[PartitionToReset, ...]
    unknown_topics: tuple[str, ...]
    """Topics that were asked for and of which no partition is known."""
    stored: tuple[StoredOffset, ...]
    change_id: str
    is_dry_run: bool = False
    log_end_max_age_ms: int = LOG_END_MAX_AGE_MS
    """The age past which a log's end is stale, and a result says so."""


class OffsetToRestore(NamedTuple):
    """What a change took from a partition, and what it left there."""

    topic: str
    partition: int
    offset: int | None
    """What stood there before; None: nothing."""
    leader_epoch: int = -1
    metadata: str = ""
    log_end_offset: int | None = None
    log_end_at_ms: int | None = None
    """When that end was reported."""
    left_offset: int | None = None
    """What the change put there; None: nothing."""
    left_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RestoreOffsets:
    """Take a change of offsets back, but nothing that is newer than the change."""

    token: Token
    offsets: tuple[OffsetToRestore, ...]
    stored: tuple[StoredOffset, ...]
    change_id: str
    is_of_run: bool = False
    """Whether a maintenance run asks, which notes that a group is active instead of being refused."""


class GroupSeen(NamedTuple):
    """What a proposal saw of a group: one that woke since then, and emptied again, looks otherwise."""

    generation: int
    state_since_ms: int


@dataclass(frozen=True, slots=True)
class RetireGroup:
    """Take an Empty group that has no offset left to Dead. Source: protocol.md section 10.4."""

    token: Token
    has_offsets: bool
    seen: GroupSeen | None = None
    """What was proposed; None: the last offset has just expired, and it is the group's whole life that counts."""


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | Expire
    | Resume
    | Reconsider
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
