"""Rows as values between the runtime and a store, with times in milliseconds since the epoch.

A `GroupWrite` has everything that one decision stores; it is stored whole or not at all. Rows of the current state
(`GroupRow`, `MemberRow`, offsets) have the values after the decision, so the last of several writes to one key counts.
Rows of history are all stored.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from coordinator_core.protocol.records import CommittedOffset, OffsetRemoved, OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToRestore, SupportedProtocol
from coordinator_core.state_store.dirty_offsets import DirtyOffsets
from coordinator_core.state_store.offset_log import EncodedCommits, LoggedCommits
from coordinator_core.state_store.runs import OutcomeRow

Json = Any
"""A value that `json.loads` may return."""

# -- current state ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A row of `groups`."""

    group_id: str
    shard_id: int
    state: str
    state_since_ms: int
    state_before_join_phase: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    member_count: int
    subscribed_topics: tuple[str, ...] | None
    topics_version: int
    must_rebalance: bool
    rebalance_started_at_ms: int | None
    rebalance_trigger: str | None
    rebalance: Json
    """The ledger's snapshot of the rebalance in progress; None outside of one."""
    created_at_ms: int
    awaited_members: Json = None
    """The members that the current phase waits for (`awaited.AwaitedMembers`); None: none, or not for long yet."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A row of `members`."""

    group_id: str
    shard_id: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes
    subscription_json: Json
    """``{"topics": [...]}``, decoded from the chosen protocol's metadata; None if it cannot be decoded."""
    assignment_json: Json
    """``[{"topic": ..., "partitions": [...]}]``; None if it cannot be decoded."""
    assigned_since_ms: int | None
    ownership: Json
    """Open ownerships: ``[{"topic", "partitions", "since_ms", "generation", "rebalance_id"}]``."""
    joined_at_ms: int
    join_order: int

    @property
    def protocol_names(self) -> list[str]:
        """Return the names of the protocols that it supports."""
        return [protocol.name for protocol in self.protocols]

    @property
    def protocol_metadata(self) -> list[bytes]:
        """Return the metadata of the protocols, in the same order."""
        return [protocol.metadata for protocol in self.protocols]


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """The stored rows of a group; its members in order of `join_order`."""

    group: GroupRow
    members: tuple[MemberRow, ...]

    @property
    def group_id(self) -> str:
        """Return the group's id."""
        return self.group.group_id

    @property
    def shard_id(self) -> int:
        """Return the shard under which the group is stored."""
        return self.group.shard_id


@dataclass(frozen=True, slots=True)
class UnreadableGroup:
    """A group whose rows cannot be loaded; `reason` is a sentence that names the table and the column."""

    group_id: str
    shard_id: int
    reason: str


WITHOUT_GROUP: Final = "members has rows of the group, and groups has none"
"""The reason if a group has rows of members only."""


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """A committed offset as OffsetFetch returns it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    log_end_offset: int | None
    expires_at_ms: int | None = None
    """The offset's own expiry; None: by retention."""


# -- history ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """A row of `group_transitions`."""

    group_id: str
    shard_id: int
    group_created_at_ms: int
    at_ms: int
    generation: int
    from_state: str | None
    to_state: str
    reason: str
    member_id: str | None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance, ended or in progress; in progress it has no outcome and no results. All times are wall time."""

    rebalance_id: str
    group_id: str
    shard_id: int
    group_created_at_ms: int
    generation: int
    trigger: str
    trigger_member_id: str | None
    client_reason: str | None
    started_at_ms: int
    joined_at_ms: int | None
    completed_at_ms: int | None
    outcome: str | None
    restarts: int
    member_count_before: int
    member_count_after: int | None
    partitions_moved: int | None
    is_trigger_inferred: bool = False
    is_start_inferred: bool = False


@dataclass(frozen=True, slots=True)
class RebalanceRow(Rebalance):
    """A row of `rebalances`."""

    completed_at_ms: int
    outcome: str
    member_count_after: int
    partitions_moved: int


class RebalanceMemberRow(NamedTuple):
    """A row of `rebalance_members`: one member's part in a rebalance that is over."""

    rebalance_id: str
    group_id: str
    shard_id: int
    group_created_at_ms: int
    completed_at_ms: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    joined_after_ms: int | None
    synced_after_ms: int | None
    waited_for_ms: int | None
    outcome: str


@dataclass(frozen=True, slots=True)
class MemberSessionRow:
    """A row of `member_sessions`: a member session, or one interval of it; all instants are wall time."""

    group_id: str
    shard_id: int
    group_created_at_ms: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    generation: int
    session_timeout_ms: int
    joined_at_ms: int
    started_at_ms: int
    ended_at_ms: int
    end_reason: str
    last_heartbeat_at_ms: int | None
    heartbeat_count: int | None
    heartbeat_gap_ms_max: int | None
    heartbeat_gap_histogram: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class PartitionOwnershipRow:
    """A row of `partition_ownership`: an ownership that ended."""

    group_id: str
    shard_id: int
    group_created_at_ms: int
    rebalance_id: str
    generation: int
    member_id: str
    topic: str
    partitions: tuple[int, ...]
    valid_from_ms: int
    valid_to_ms: int


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A row of `changes`: one change by an operator or a DAG."""

    change_id: str
    at_ms: int
    actor: str
    action: str
    group_id: str | None
    before: Json
    after: Json
    reason: str | None
    token_id: str | None = None
    """The token that made it; None: a node did, or a command on the database, or there are no tokens."""
    client_address: str | None = None


class SealedMinute(NamedTuple):
    """A row of `change_seals`."""

    minute_ms: int
    change_count: int
    seal: str


class UndoneChange(NamedTuple):
    """The columns of `changes` that mark a change as undone."""

    change_id: str
    at_ms: int
    undone_by_change_id: str
    """The change that undoes it."""


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A row of `changes` with the columns that mark it as undone."""

    change: ChangeRow
    undone_at_ms: int | None
    undone_by_change_id: str | None


class MirrorPosition(NamedTuple):
    """How far a shard of a mirror has read its partition of `__consumer_offsets`; a row of `mirror_positions`.

    Positions are `base` plus Kafka's offset of the next record. They grow even when the log does not: `base` is raised
    where the log was truncated or created again.
    """

    shard_id: int
    base: int
    groups_seq: int
    """What the log says of groups before this position is stored."""
    offsets_seq: int
    """All commits before this position are in the table `offsets`; a checkpoint may have gone further."""
    read_at_ms: int
    """Up to when the log was read: when what is before the position was written, or the end of the log was reached."""


class OtherGroup(NamedTuple):
    """A share or streams group of a mirrored cluster; a row of `other_groups`."""

    group_id: str
    shard_id: int
    protocol_type: str
    """`share` or `streams`."""
    state: str
    """Kafka's name of it."""
    state_since_ms: int
    epoch: int | None
    """None, as the number of members: groups are polled, and not read from the log."""
    member_count: int | None


class ArchivedOffset(NamedTuple):
    """A row of `archived_offsets`."""

    change_id: str
    group_id: str
    shard_id: int
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    log_end_offset: int | None
    committed_at_ms: int
    archived_at_ms: int
    cause: str
    log_end_at_ms: int | None = None
    """When the log end was reported, if not with the commit."""

    def to_restore(self) -> OffsetToRestore:
        """Return the offset as an undo restores it; the change left no offset in its place."""
        reported_at_ms = None if self.log_end_offset is None else self.log_end_at_ms or self.committed_at_ms
        kept = (self.offset, self.leader_epoch, self.metadata, self.log_end_offset, reported_at_ms)
        return OffsetToRestore(self.topic, self.partition, *kept)


# -- writes -----------------------------------------------------------------------------------------------


NO_MEMBERS: Final[Mapping[str, MemberRow | None]] = MappingProxyType({})


class GroupWrite(Struct, frozen=True):
    """Everything that one decision stores about one group; stored whole or not at all."""

    group_id: str
    shard_id: int
    group: GroupRow | None = None
    """The group's current state; None: unchanged."""
    is_group_deleted: bool = False
    """Deletes the rows of the group and its members, before anything else in this write."""
    members: Mapping[str, MemberRow | None] = NO_MEMBERS
    """Members that changed; None: the member has no row any more (or never had one)."""
    members_size: int = 0
    """The size of their metadata and assignments, in bytes: known before the rows are made."""
    logged: EncodedCommits | None = None
    """Commits of members and simple consumers, which go to the offset log."""
    is_only_logged: bool = False
    """Whether there is nothing else: a batch of such writes is one statement."""
    committed: tuple[OffsetsCommitted, ...] = ()
    """Commits of operators and maintenance runs, which lock the group; they are stored with their rows."""
    removed: tuple[OffsetRemoved, ...] = ()
    """Offsets that move to `archived_offsets`."""
    transitions: tuple[TransitionRow, ...] = ()
    rebalances: tuple[RebalanceRow, ...] = ()
    ownerships: tuple[PartitionOwnershipRow, ...] = ()
    rebalance_members: Collection[RebalanceMemberRow] = ()
    sessions: tuple[MemberSessionRow, ...] = ()
    outcomes: tuple[OutcomeRow, ...] = ()
    changes: tuple[ChangeRow, ...] = ()
    undone: tuple[UndoneChange, ...] = ()
    mirror_position: MirrorPosition | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Return about how many rows this writes, and the size of what has no fixed size, to limit batches.

        The size is that of metadata and assignments in bytes, and of the metadata of offsets in characters.
        """
        rows, size = 1, self.members_size
        if self.logged is not None:
            rows, size = rows + self.logged.offset_count, size + self.logged.metadata_chars
            if self.is_only_logged:
                return rows, size
        for record in self.committed:
            rows += len(record.offsets)
            size += sum([len(offset.metadata) for offset in record.offsets])
        history = len(self.transitions) + len(self.rebalances) + len(self.ownerships)
        history += len(self.rebalance_members) + len(self.sessions)
        notes = len(self.outcomes) + len(self.changes) + len(self.undone)
        return rows + len(self.members) + 2 * len(self.removed) + notes + history, size

    @property
    def committed_offsets(self) -> Iterator[CommittedOffset]:
        """Return every committed offset, in order."""
        logged = () if self.logged is None else self.logged.commits.records
        return (offset for record in (*logged, *self.committed) for offset in record.committed_offsets)

    @property
    def committed_count(self) -> int:
        """Return the number of committed offsets."""
        count = 0 if self.logged is None else self.logged.offset_count
        for record in self.committed:
            count += len(record.offsets)
        return count


class ExtraRows(NamedTuple):
    """Rows that are stored in the transaction of a decision, in addition to its records."""

    outcomes: tuple[OutcomeRow, ...] = ()
    changes: tuple[ChangeRow, ...] = ()
    undone: tuple[UndoneChange, ...] = ()
    mirror_position: MirrorPosition | None = None


NO_EXTRA_ROWS = ExtraRows()


@dataclass(frozen=True, slots=True)
class Batch:
    """The writes of one transaction, in the order of the decisions, and the leases that they need."""

    node_id: str
    epochs: Mapping[int, int]
    """Shard → the epoch under which this node owns it; an entry for every shard written to."""
    writes: tuple[GroupWrite, ...]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The writes of a batch that were not stored; all others were."""

    lost_shards: frozenset[int] = frozenset()
    """Shards whose lease the node has lost; none of their writes are stored."""
    refused_groups: Mapping[str, str] = field(default_factory=dict)
    """Group → why the database rejected its data; none of this group's writes of the batch are stored."""
    log_position: int = 0
    """The position of the batch's commits in the offset log; 0: it has none that go there."""


class ShardCheckpoint(NamedTuple):
    """The dirty offsets of a shard, and how far they reach in the offset log."""

    epoch: int
    position: int
    """Every commit of the shard up to this position is in the table, or among the dirty offsets."""
    dirty: DirtyOffsets


class ShardLog(NamedTuple):
    """The commits of a shard that no checkpoint has passed."""

    position: int
    """The position of the last checkpoint."""
    commits: list[tuple[int, LoggedCommits]]
    """Each with its position, the oldest first."""


class QuarantinedOffset(NamedTuple):
    """A committed offset that is in `quarantined_offsets`, because the table `offsets` rejected it."""

    group_id: str
    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """What a checkpoint did not store in the table; everything else was."""

    lost_shards: frozenset[int] = frozenset()
    """Shards whose lease the node has lost; none of their offsets are stored."""
    quarantined: tuple[QuarantinedOffset, ...] = ()
    """Offsets that the database rejected."""


# -- ownership ----------------------------------------------------------------------------------------------

LEASE_TTL_MS: Final = 5_000
"""How long a lease lasts by default."""
LEASE_TTL_MAX_MS: Final = 600_000
"""How long it lasts at most."""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A row of `shard_leases` with the listeners of its owner; `is_expired` is by the clock of the database."""

    shard_id: int
    node_id: str | None
    epoch: int
    is_expired: bool
    listeners: Mapping[str, str]
    """Listener → its address; empty without an owner."""


class Versions(NamedTuple):
    """The number of changes of each table of settings and topic metadata."""

    cluster_configs: int
    group_configs: int
    topics: int
    log_end_deletions: int
    """The number of deletions of log ends; reports from before the last deletion are discarded."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of the database in Postgres."""

    system_identifier: int
    """Of the Postgres cluster; changes when a dump is restored into a new cluster."""
    timeline: int
    """Raised by each promotion of a standby and each point-in-time recovery."""
    database_oid: int
    """Changes when the database is created again in its cluster."""
    table_oid: int
    """Of the table `incarnation`; changes when a dump is restored into the same database."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The row of `incarnation`; its identity is None until the first node serves the database."""

    number: int
    started_at_ms: int
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The result of a renewal."""

    held: frozenset[int]
    """Shards whose lease was renewed."""
    leases: tuple[LeaseRow, ...]
    """Every lease, by shard."""
    live_nodes: tuple[str, ...]
    """Unexpired nodes, including this one, sorted."""
    versions: Versions
    incarnation: Incarnation
    renewals: int
    """The node's number of renewals; it continues when the process is restarted."""


# -- settings and topic metadata -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A row of `topics`; `version` is the topic metadata's version when its count last changed."""

    topic: str
    partitions: int
    log_start_offset: int
    version: int


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """Stored settings, as text; a group's overrides the cluster's."""

    cluster: Mapping[str, str]
    groups: Mapping[str, Mapping[str, str]]
    """Group → key → value."""
