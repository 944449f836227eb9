"""What goes between the runtime and a store: rows as values, with times in milliseconds since the epoch.

A `GroupWrite` is everything that one decision stores, and it is stored whole or not at all. Rows of the present
(`GroupRow`, `MemberRow`, offsets) say how things stand after the decision, so of several writes to one key the
last one counts; rows of history are all kept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from coordinator_core.protocol.records import CommittedOffset, OffsetRemoved, OffsetsCommitted
from coordinator_core.protocol.requests import Offer
from coordinator_core.store.runs import OutcomeRow

Json = Any
"""What `json.loads` may return."""

# -- the present ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A row of `groups`."""

    group_id: str
    shard_id: int
    state: str
    state_since_ms: int
    settled_state: str
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
    """What the ledger knows of the rebalance under way; None outside of one."""
    created_at_ms: int
    awaited_members: Json = None
    """The members that the phase under way waits for (`awaited.AwaitedMembers`); None: none, or not for long yet."""


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
    protocols: tuple[Offer, ...]
    assignment: bytes
    subscription_json: Json
    """``{"topics": [...]}`` as read from the chosen protocol's metadata; None where it cannot be read."""
    assignment_json: Json
    """``[{"topic": ..., "partitions": [...]}]``; None where it cannot be read."""
    assigned_since_ms: int | None
    held: Json
    """Open ownership spans: ``[{"topic", "partitions", "since_ms", "generation", "rebalance_id"}]``."""
    joined_at_ms: int
    position: int


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as a take-over finds it; its members in order of `position`."""

    group: GroupRow
    members: tuple[MemberRow, ...]

    @property
    def group_id(self) -> str:
        """Return whose rows these are."""
        return self.group.group_id

    @property
    def shard_id(self) -> int:
        """Return under which shard the group is stored."""
        return self.group.shard_id


@dataclass(frozen=True, slots=True)
class UnreadableGroup:
    """A group whose rows cannot be read; `reason` is one sentence that names the table and the column."""

    group_id: str
    shard_id: int
    reason: str


WITHOUT_GROUP: Final = "members has rows of the group, and groups has none"
"""Why members alone are no group."""


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """A committed offset as callers see it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    log_end_offset: int | None
    expires_at_ms: int | None = None
    """Its own end; None: it ends with its group, or with the retention."""


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
class RebalanceRow:
    """A row of `rebalances`; all times are wall time."""

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
    completed_at_ms: int
    outcome: str
    restarts: int
    member_count_before: int
    member_count_after: int
    partitions_moved: int


@dataclass(frozen=True, slots=True)
class RebalanceMemberRow:
    """A row of `rebalance_members`: one member's part in a rebalance that is over."""

    rebalance_id: str
    group_id: str
    shard_id: int
    group_created_at_ms: int
    completed_at_ms: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str | None
    """None: written before hosts were stored."""
    joined_after_ms: int | None
    synced_after_ms: int | None
    waited_for_ms: int
    outcome: str


@dataclass(frozen=True, slots=True)
class MemberSessionRow:
    """A row of `member_sessions`: a member's stay, or an hour of it; all instants are wall time."""

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
    heartbeat_count: int
    heartbeat_gap_ms_max: int | None
    heartbeat_gap_histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OwnershipRow:
    """A row of `assignments`: a span of ownership that is over."""

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
    """A row of `changes`: one act of an operator or a DAG."""

    change_id: str
    at_ms: int
    actor: str
    action: str
    group_id: str | None
    before: Json
    after: Json
    reason: str | None


class Undone(NamedTuple):
    """That a change is taken back: what its row of `changes` says from now on."""

    change_id: str
    at_ms: int
    undone_by: str
    """The change that takes it back."""


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A row of `changes` as it is read."""

    change: ChangeRow
    undone_at_ms: int | None
    undone_by: str | None


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
    """When the log's end was reported, where that was not with the commit."""


# -- writes -----------------------------------------------------------------------------------------------


NO_MEMBERS: Final[Mapping[str, MemberRow | None]] = MappingProxyType({})


class GroupWrite(NamedTuple):
    """Everything that one decision stores about one group. Whole or not at all."""

    group_id: str
    shard_id: int
    group: GroupRow | None = None
    """How the group stands now; None where that did not change."""
    is_group_gone: bool = False
    """The group's life is over: its row and its members' go (before anything else in this write)."""
    members: Mapping[str, MemberRow | None] = NO_MEMBERS
    """Members that changed; None where one is gone (or never had a row)."""
    committed: tuple[OffsetsCommitted, ...] = ()
    removed: tuple[OffsetRemoved, ...] = ()
    """Offsets that go to `archived_offsets`."""
    transitions: tuple[TransitionRow, ...] = ()
    rebalances: tuple[RebalanceRow, ...] = ()
    ownerships: tuple[OwnershipRow, ...] = ()
    rebalance_members: tuple[RebalanceMemberRow, ...] = ()
    sessions: tuple[MemberSessionRow, ...] = ()
    outcomes: tuple[OutcomeRow, ...] = ()
    changes: tuple[ChangeRow, ...] = ()
    undone: tuple[Undone, ...] = ()

    @property
    def row_count(self) -> int:
        """Return how many rows this writes, near enough to bound a batch by."""
        if self.is_only_commits:
            return 1 + self.committed_count
        history = len(self.transitions) + len(self.rebalances) + len(self.ownerships)
        history += len(self.rebalance_members) + len(self.sessions)
        notes = len(self.outcomes) + len(self.changes) + len(self.undone)
        return 1 + len(self.members) + self.committed_count + 2 * len(self.removed) + notes + history

    @property
    def positions(self) -> Iterator[CommittedOffset]:
        """Return every position that this commits, in order."""
        return (position for record in self.committed for position in record.positions)

    @property
    def committed_count(self) -> int:
        """Return how many positions this commits."""
        return sum([len(record.offsets) for record in self.committed])

    @property
    def is_only_commits(self) -> bool:
        """Tell whether there is nothing in it but commits."""
        return not any(self[_AFTER_NAMES:_COMMITTED]) and not any(self[_COMMITTED + 1 :])


_AFTER_NAMES: Final = GroupWrite._fields.index("group")
_COMMITTED: Final = GroupWrite._fields.index("committed")


class Beside(NamedTuple):
    """What is stored in the transaction of a decision, and is no record of the group."""

    outcomes: tuple[OutcomeRow, ...] = ()
    changes: tuple[ChangeRow, ...] = ()
    undone: tuple[Undone, ...] = ()


NOTHING_BESIDE = Beside()


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction takes: the writes in the order decided, and the leases that allow them."""

    node_id: str
    epochs: Mapping[int, int]
    """Shard → the epoch under which this node owns it; an entry for every shard written to."""
    writes: tuple[GroupWrite, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch. Whatever is not named here is stored."""

    lost_shards: frozenset[int] = frozenset()
    """Shards whose lease has moved on; none of their writes are stored."""
    refused_groups: Mapping[str, str] = field(default_factory=dict)
    """Group → why the database refused its data; none of this group's writes of the batch are stored."""


# -- ownership ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A row of `shard_leases`, with what is known of its owner, as of the database's clock."""

    shard_id: int
    node_id: str | None
    epoch: int
    is_expired: bool
    url: str | None


class Versions(NamedTuple):
    """How often each small table was changed."""

    cluster_config: int
    group_configs: int
    topics: int
    log_end_deletions: int
    """How often ends of logs were deleted: reports that a node gathered before the last deletion do not count."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which database this is, as Postgres knows it."""

    system_identifier: int
    """The cluster's; another one after a dump is restored into a new cluster."""
    timeline: int
    """Raised by each promotion of a standby and each point-in-time recovery."""
    database_oid: int
    """Another one after the database is created anew in its cluster."""
    table_oid: int
    """That of the table `incarnation`; another one after a dump is restored into the same database."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The row of `incarnation`; its identity is None until the first node serves the database."""

    number: int
    started_at_ms: int
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a renewal found."""

    held: frozenset[int]
    """Shards whose lease is still ours, and now runs on for the whole time."""
    leases: tuple[LeaseRow, ...]
    """Every lease, by shard."""
    live_nodes: tuple[str, ...]
    """Nodes that are unexpired, this one included, sorted."""
    versions: Versions
    incarnation: Incarnation
    renewals: int
    """How often the node has renewed; the count goes on when its process is started again."""


# -- settings and catalogue -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A row of `topics`; `version` is the catalogue's version when its count last changed."""

    topic: str
    partitions: int
    log_start_offset: int
    version: int


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """Settings as stored, as texts; narrower wins."""

    cluster: Mapping[str, str]
    groups: Mapping[str, Mapping[str, str]]
    """Group → key → value."""


class SettingOrigin(NamedTuple):
    """By whom and when a setting was set that is stored."""

    set_by: str
    set_at_ms: int


# -- lists ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes a list shows, the newest first."""

    group_id: str | None = None
    """None: every group's, and those of no group."""
    after: tuple[int, str] | None = None
    """Instant and id of the last change of the page before."""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Which groups a list shows; every part narrows it."""

    states: frozenset[str] = frozenset()
    """Empty: every state but Dead."""
    prefix: str = ""
    protocol_type: str | None = None
    after: str | None = None
    """The last group id of the page before."""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A line of a list of groups."""

    group_id: str
    state: str
    protocol_type: str | None
    generation: int
    member_count: int
    node_id: str | None
