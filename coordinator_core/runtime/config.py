"""What a node is told when it starts; plain values, read from the environment far above."""

from dataclasses import dataclass, field

from coordinator_core.protocol.settings import GroupSettings


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node's identity and limits."""

    node_id: str
    """Its advertised address: a node that starts again at the same address takes its own leases back at once."""
    url: str
    version: str = "0"
    schema: str = ""
    """The revision of the database's schema that the program was written for: four digits; "" takes any."""
    lease_ttl_ms: int = 5_000
    defaults: GroupSettings = field(default_factory=GroupSettings)
    """Settings before the cluster's and the group's: defaults, with the environment's in their place."""
    environment_keys: frozenset[str] = frozenset()
    """Which of `defaults` came from the environment."""
    max_queued_rows: int = 50_000
    """Rows that may wait for the writer; past it, requests that write are refused with a retriable error."""
    max_waiting_requests: int = 20_000
    """Requests that may wait for an answer; past it, joins and syncs are refused with a retriable error."""
    max_batch_rows: int = 5_000
    """Rows that one transaction takes; a larger decision goes alone."""
    prepare_ahead_rows: int = 500
    """Rows that must wait before the next transaction is prepared while one is under way."""
    pause_ms: int = 500
    """A gap in the loop's own time beyond this counts as nobody's silence."""
    awaited_members_after_ms: int = 5_000
    """How long a rebalance lasts before the members that it waits for are stored."""
    history_days_ahead: int = 7
    lost_nodes_kept_hours: int = 24
    """How long the row of a node that was lost is kept, for whoever wonders where it went."""
    tuning_window_days: int = 7
    """How far back advice that is worked out on demand, and what-if, look."""
    tuning_max_rows: int = 500_000
    """Rows of one group's stays that they look at, the newest; and as many of rejoins."""
    tuning_max_evictions: int = 1_000
    """Evictions that they look at one by one, the newest."""
    tuning_advice_max_age_hours: int = 48
    """How old a report may be that is told in place of advice worked out on demand."""
    archive_uri: str | None = None
    """Where copies of history are, as this node sees it; None: nowhere."""
    archive_check: bool = True
    """Whether a day of history is dropped only after this node has found its copy."""
    maintenance_chunk: int = 500
    """Candidates judged in one step when a maintenance run is applied."""
    maintenance_groups: int = 4
    """Groups judged beside each other: one transaction takes what they decided, and whoever sends a heartbeat meanwhile
    waits for all of them (DECISIONS.md, 48)."""
    max_reads: int = 4
    """Reads of the store that may be under way."""
