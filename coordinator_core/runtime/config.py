"""The configuration of a node, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.state_store.rows import LEASE_TTL_MS


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node's identity and limits."""

    node_id: str
    """Its advertised address: a node that restarts at the same address acquires its own leases again at once."""
    listeners: Mapping[str, str]
    """Listener → the address at which clients and other nodes reach it, such as `{"http": "http://10.0.0.5:8080"}`."""
    version: str = "0"
    schema: str = ""
    """The revision of the database's schema that the program was written for: four digits; "" takes any."""
    lease_ttl_ms: int = LEASE_TTL_MS
    defaults: GroupSettings = field(default_factory=GroupSettings)
    """Settings below those of the cluster and the group: the environment's, or the defaults."""
    environment_keys: frozenset[str] = frozenset()
    """Which of `defaults` came from the environment."""
    max_queued_rows: int = 50_000
    """Rows that may wait for the writer; past it, requests that write are refused with a retriable error."""
    max_queued_bytes: int = 67_108_864
    """Bytes of metadata and assignments in these rows; past them, the same."""
    max_waiting_requests: int = 20_000
    """Requests that may wait for an answer; past it, joins and syncs are refused with a retriable error."""
    max_batch_rows: int = 5_000
    """Rows in one transaction; a larger decision has a transaction of its own."""
    offsets_checkpoint_interval_ms: int = 1_000
    """How long a commit is in the offset log before a checkpoint stores it in the table `offsets`."""
    max_dirty_offsets: int = 200_000
    """Offsets that may wait for a checkpoint before one begins at once; past twice as many, commits are refused."""
    max_groups_per_client: int = 200_000
    """Groups that one client may create on this node; past it, requests that create groups are refused."""
    max_checkpoint_offsets: int = 10_000
    """Offsets in one transaction of a checkpoint; more of a shard are stored in several."""
    pause_ms: int = 500
    """A longer pause of the event loop is added to the session deadlines of members."""
    awaited_members_after_ms: int = 5_000
    """How long a rebalance lasts before its awaited members are stored."""
    history_days_ahead: int = 7
    lost_nodes_kept_hours: int = 24
    """How long the row of a lost node is kept, so that operators can see it."""
    archive_uri: str | None = None
    """The archive's URI on this node; None: there is no archive."""
    archive_check: bool = True
    """Whether the node checks the copy of a day before it drops the day."""
    maintenance_chunk: int = 500
    """Candidates that one step of a maintenance run reads."""
    maintenance_groups: int = 4
    """Groups of a run that are decided concurrently: one transaction stores their decisions, and heartbeats wait for it
    meanwhile (DECISIONS.md, 48)."""
    proposal_ttl_hours: int = 168
    """How long a run may wait for a decision before it is rejected as expired."""
    max_reads: int = 4
    """Concurrent reads of the store."""
