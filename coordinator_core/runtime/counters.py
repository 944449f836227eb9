"""Counters of a node since its start, and the snapshot of them that metrics show.

Events of groups are counted when they are stored, from the rows and records of the decision. No counter is kept for a
single group, member or partition, so the size does not depend on what the node serves.

Source: docs/metrics.md.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupFound,
    InitialDelayExtended,
    JoinParked,
    MemberJoined,
    MemberMoved,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    OffsetRemoved,
    OffsetsCommitted,
    PendingMemberAdded,
    PendingMemberRemoved,
    PhaseTimeoutReset,
    RebalanceStarted,
    Record,
    RemovalReason,
    StateObserved,
    SyncParked,
    SyncReceived,
    TriggerInferred,
)
from coordinator_core.protocol.states import COMPLETING, DEAD, PREPARING, GroupState
from coordinator_core.runtime.rebalance_rate import GroupRebalanceRate
from coordinator_core.runtime.stuck_groups import RebalancingGroup
from coordinator_core.state_store.awaited import Phase
from coordinator_core.state_store.rows import GroupWrite, Incarnation, RebalanceRow

QUICK_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Bounds for operations that should take milliseconds."""
PARKED_S: Final = (*QUICK_S, 30.0, 60.0, 300.0)
"""Bounds for requests, some of which wait for other members of their group."""
PATIENT_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0)
"""Bounds for operations that wait for clients."""
ROWS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""Bounds for the rows of a write batch."""
REBALANCING_S: Final = (10, 60, 300, 1_800)
"""Minimum durations of a rebalance for which groups are counted."""
POLLED: Final = ("groups", "log_ends")
"""What a mirror polls."""

Uncounted = (
    MemberUpdated
    | MemberMoved
    | PendingMemberRemoved
    | JoinParked
    | SyncParked
    | SyncReceived
    | InitialDelayExtended
    | PhaseTimeoutReset
    | GroupCreated
    | GroupFound
    | TriggerInferred
    | StateObserved
    | GenerationStarted
    | AssignmentAccepted
    | GroupEmptied
    | GroupDied
    | OffsetRemoved
)
"""Records that are not counted, or are counted from their rows."""


@dataclass(slots=True)
class Distribution:
    """A histogram: counts by bounds, and the sum of all values."""

    bounds: Sequence[float]
    counts: list[int] = field(init=False)
    """One count for each bound (values up to it, above the bound before), and one for greater values."""
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Counters:
    """The counters of one node."""

    def __init__(self) -> None:
        self.phases_started: Counter[str] = Counter()
        """Trigger → join phases that started, restarts included."""
        self.phases_failed: Counter[str] = Counter()
        """Trigger of the rebalance → join phases that were restarted before the group was Stable."""
        self.rebalances: Counter[tuple[str, str]] = Counter()
        """(trigger, outcome) → rebalances that ended."""
        self.rebalance_s: dict[Phase, Distribution] = {"join": Distribution(PATIENT_S), "sync": Distribution(PATIENT_S)}
        """Durations of completed rebalances: their join phase, and the sync after it."""
        self.partitions_moved = 0
        self.members_joined = 0
        self.members_replaced = 0
        self.members_removed: Counter[str] = Counter(dict.fromkeys(map(str, RemovalReason), 0))
        self.pending_member_ids_issued = 0
        self.pending_member_ids_expired = 0
        self.groups_created = 0
        self.groups_died = 0
        self.offsets_committed = 0
        self.offsets_removed: Counter[str] = Counter()
        """Cause → offsets that went to the archive."""
        self.waiting_requests = 0
        """Requests without a response: parked joins and syncs, and writes under way."""
        self.requests_refused: Counter[str] = Counter()
        """Limit (`admission.LIMITS`) → requests that it refused."""
        self.batch_s = Distribution(QUICK_S)
        self.batch_rows = Distribution(ROWS)
        self.batches_failed = 0
        self.checkpoint_s = Distribution(QUICK_S)
        self.checkpoints_failed = 0
        self.offsets_checkpointed = 0
        """Offsets that checkpoints have stored in the table."""
        self.offsets_quarantined = 0
        """Offsets that the table rejected at a checkpoint."""
        self.renewals = 0
        self.renewals_failed = 0
        self.shards_acquired = 0
        self.shards_failed = 0
        self.shards_released = 0
        self.load_s = Distribution(QUICK_S)
        self.loads_failed = 0
        """Shards that were released because loading failed, once for each attempt."""
        self.loop_gap_s = Distribution(PATIENT_S)

    def observe(self, records: Iterable[Record]) -> None:
        """Count events that are in records but in no row."""
        for record in records:
            match record:
                case OffsetsCommitted():
                    pass  # By far the most, and counted from the rows.
                case RebalanceStarted():
                    self.phases_started[record.trigger] += 1
                case MemberJoined():
                    self.members_joined += 1
                case MemberReplaced():
                    self.members_replaced += 1
                case MemberRemoved():
                    self.members_removed[record.removal_reason] += 1
                case PendingMemberAdded():
                    self.pending_member_ids_issued += 1
                case _:
                    _uncounted: Uncounted = record  # mypy checks that every other record is handled above.

    def observe_rows(self, stored: GroupWrite) -> None:
        """Count events that are in stored rows, but for commits."""
        for removed in stored.removed:
            self.offsets_removed[removed.cause] += 1
        for transition in stored.transitions:
            self.groups_created += transition.from_state is None
            self.groups_died += transition.to_state == DEAD
        for rebalance in stored.rebalances:
            self._observe_rebalance(rebalance)

    def _observe_rebalance(self, row: RebalanceRow) -> None:
        self.rebalances[row.trigger, row.outcome] += 1
        self.phases_failed[row.trigger] += row.restarts
        self.partitions_moved += row.partitions_moved
        if row.outcome == "completed" and row.joined_at_ms is not None:
            self.rebalance_s["join"].add((row.joined_at_ms - row.started_at_ms) / 1000)
            self.rebalance_s["sync"].add((row.completed_at_ms - row.joined_at_ms) / 1000)


@dataclass(slots=True)
class GroupCounts:
    """The current groups of a node, counted."""

    by_state: dict[GroupState, int]
    members: int = 0
    static_members: int = 0
    pending_member_ids: int = 0
    parked_joins: int = 0
    parked_syncs: int = 0
    rebalancing: dict[tuple[GroupState, int], int] = field(default_factory=dict)
    """(state, seconds) → groups that have been in PreparingRebalance or CompletingRebalance for longer."""

    @classmethod
    def of(cls, groups: Iterable[Group], wall_ms: int) -> "GroupCounts":
        """Count groups at a moment; takes a few hundred nanoseconds for each."""
        counted = cls({state: 0 for state in GroupState if state is not DEAD})
        counted.rebalancing = {(state, over_s): 0 for state in (PREPARING, COMPLETING) for over_s in REBALANCING_S}
        for group in groups:
            counted.by_state[group.state] += 1
            counted.members += len(group.members)
            counted.static_members += len(group.static_members)
            counted.pending_member_ids += len(group.pending_member_ids)
            counted.parked_joins += len(group.parked_joins)
            counted.parked_syncs += len(group.parked_syncs)
            if group.state is PREPARING or group.state is COMPLETING:
                for over_s in REBALANCING_S:
                    counted.rebalancing[group.state, over_s] += wall_ms - group.state_since_ms > over_s * 1000
        return counted


@dataclass(slots=True)
class MirrorCounts:
    """What a mirror has done since its start, and how far it is behind."""

    records: int = 0
    undecodable: int = 0
    """Records that this program cannot decode, as newer versions of Kafka may write."""
    lag: dict[int, int] = field(default_factory=dict)
    """Partition → offsets between its position and the end of its log."""
    other_groups: dict[tuple[str, str], int] = field(default_factory=dict)
    """(`share` or `streams`, state) → groups of these protocols, which are counted and not mirrored."""
    polls_failed: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(POLLED, 0)))
    """What was polled → polls that failed."""
    failure: str | None = "the mirror has not reached the Kafka cluster yet"
    """Why the log cannot be read; None if it can."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """A snapshot of a node: its counters, and its current state."""

    node_id: str
    version: str
    sums: Counters
    groups: GroupCounts
    longest_rebalance_s: float
    """The duration of the longest rebalance under way, restarts included; 0 if there is none."""
    rebalancing: tuple[RebalancingGroup, ...]
    """The groups whose rebalances have lasted longest, with the members that they wait for."""
    rebalance_rates: tuple[GroupRebalanceRate, ...]
    """The groups with the most rebalances within `RATE_WINDOW_MS`."""
    quarantined_groups: int
    """Groups that are not served: their stored rows cannot be loaded, or they made their shard fail."""
    members_of_group: tuple[tuple[str, int], ...]
    """Group and its number of members, for every group of the node."""
    shard_count: int
    """The number of shards of the cluster."""
    shards_active: int
    shards_loading: int
    lease_left_s: float
    """The time until the first lease expires; 0 if none is valid."""
    is_store_reachable: bool
    incarnation: Incarnation | None
    """The database's incarnation at the last renewal; None before the first."""
    active_timers: int
    queued_rows: int
    max_queued_rows: int
    queued_bytes: int
    max_queued_bytes: int
    largest_shares: dict[str, float]
    """Limit that clients share → the part of it, from 0 to 1, that the client with the most has."""
    dirty_offsets: int
    """Committed offsets that wait for a checkpoint."""
    oldest_dirty_offset_s: float
    """The age of the oldest commit that is not in the table `offsets`; 0 if there is none."""
    wall_ms: int
    """The time of the snapshot, by the node's wall clock."""
    mirror: MirrorCounts | None = None
    """None: the node coordinates its groups."""
