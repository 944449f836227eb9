"""Counters are what a node adds up of its own doings since it started: plain sums, read by whoever shows them.

What groups do is counted when it is stored, from the rows and records of the decision. Nothing is kept for a group,
a member or a partition, so sums stay as small as they are, however much a node serves.

Source: docs/metrics.md.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    JoinParked,
    MemberIdDropped,
    MemberIdIssued,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    OffsetRemoved,
    OffsetsCommitted,
    PhaseRetimed,
    RebalanceStarted,
    Record,
    Removal,
    SyncParked,
    SyncReceived,
    WindowExtended,
)
from coordinator_core.protocol.states import COMPLETING, DEAD, PREPARING, GroupState
from coordinator_core.runtime.restless import RestlessGroup
from coordinator_core.runtime.unsettled import UnsettledGroup
from coordinator_core.store.rows import GroupWrite, Incarnation, RebalanceRow

QUICK_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Bounds for what ought to take milliseconds."""
PARKED_S: Final = (*QUICK_S, 30.0, 60.0, 300.0)
"""Bounds for requests, of which some wait for others of their group."""
PATIENT_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0)
"""Bounds for what waits for people's programs."""
ROWS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""Bounds for rows in a batch; a larger decision goes alone."""
UNSETTLED_S: Final = (10, 60, 300, 1_800)
"""How long a group has been between two settled states at least, to be counted."""

Phase = Literal["join", "sync"]
Uncounted = (
    MemberUpdated
    | MemberIdDropped
    | JoinParked
    | SyncParked
    | SyncReceived
    | WindowExtended
    | PhaseRetimed
    | GroupCreated
    | GenerationStarted
    | AssignmentAccepted
    | GroupEmptied
    | GroupDied
    | OffsetRemoved
)
"""Records that stand for nothing that is counted, or are counted from their rows."""


@dataclass(slots=True)
class Distribution:
    """How often what was measured lay between which bounds, and all of it together."""

    bounds: Sequence[float]
    counts: list[int] = field(init=False)
    """One for each bound (what is at most that, and more than the one before), and one for what is beyond."""
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Take note of one measurement."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Counters:
    """The sums of one node."""

    def __init__(self) -> None:
        self.phases_started: Counter[str] = Counter()
        """Trigger → join phases that began, those that began again included."""
        self.phases_failed: Counter[str] = Counter()
        """Trigger of the rebalance → join phases that had to begin again before the group was Stable."""
        self.rebalances: Counter[tuple[str, str]] = Counter()
        """(trigger, outcome) → rebalances that are over."""
        self.rebalance_s: dict[Phase, Distribution] = {"join": Distribution(PATIENT_S), "sync": Distribution(PATIENT_S)}
        """How long completed rebalances took, until all had joined and from then on."""
        self.partitions_moved = 0
        self.members_joined = 0
        self.members_replaced = 0
        self.members_removed: Counter[str] = Counter(dict.fromkeys(map(str, Removal), 0))
        self.member_ids_issued = 0
        self.member_ids_expired = 0
        self.groups_created = 0
        self.groups_died = 0
        self.offsets_committed = 0
        self.offsets_removed: Counter[str] = Counter()
        """Cause → offsets that went to the archive."""
        self.batch_s = Distribution(QUICK_S)
        self.batch_rows = Distribution(ROWS)
        self.batches_failed = 0
        self.renewals = 0
        self.renewals_failed = 0
        self.shards_taken = 0
        self.shards_failed = 0
        self.shards_given_up = 0
        self.load_s = Distribution(QUICK_S)
        self.loads_failed = 0
        """Shards that were released because they could not be loaded, each attempt."""
        self.loop_gap_s = Distribution(PATIENT_S)

    def observe(self, records: Iterable[Record]) -> None:
        """Count what is in records and in no row."""
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
                    self.members_removed[record.removal] += 1
                case MemberIdIssued():
                    self.member_ids_issued += 1
                case _:
                    _uncounted: Uncounted = record  # Nothing else is left over, or mypy says so.

    def observe_rows(self, stored: GroupWrite) -> None:
        """Count what is in rows that are in the database now."""
        self.offsets_committed += stored.committed_count
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
    """The groups of a node as they are now."""

    by_state: dict[GroupState, int]
    members: int = 0
    static_members: int = 0
    pending_member_ids: int = 0
    parked_joins: int = 0
    parked_syncs: int = 0
    unsettled: dict[tuple[GroupState, int], int] = field(default_factory=dict)
    """(state, seconds) → groups that have been preparing or completing a rebalance for longer."""

    @classmethod
    def of(cls, groups: Iterable[Group], wall_ms: int) -> "GroupCounts":
        """Count groups, as of a moment; a few hundred nanoseconds each."""
        counted = cls({state: 0 for state in GroupState if state is not DEAD})
        counted.unsettled = {(state, over_s): 0 for state in (PREPARING, COMPLETING) for over_s in UNSETTLED_S}
        for group in groups:
            counted.by_state[group.state] += 1
            counted.members += len(group.members)
            counted.static_members += len(group.static_members)
            counted.pending_member_ids += len(group.pending_member_ids)
            counted.parked_joins += len(group.parked_joins)
            counted.parked_syncs += len(group.parked_syncs)
            if group.state is PREPARING or group.state is COMPLETING:
                for over_s in UNSETTLED_S:
                    counted.unsettled[group.state, over_s] += wall_ms - group.state_since_ms > over_s * 1000
        return counted


@dataclass(frozen=True, slots=True)
class Counts:
    """A node's sums, beside how it stands at this moment."""

    node_id: str
    version: str
    sums: Counters
    groups: GroupCounts
    longest_rebalance_s: float
    """How long the rebalance has been under way that began first, however often it fell back; 0 where none is."""
    unsettled: tuple[UnsettledGroup, ...]
    """The groups that have rebalanced for longest, with whom they wait for."""
    restless: tuple[RestlessGroup, ...]
    """The groups that rebalanced most often of late."""
    quarantined_groups: int
    """Groups that are not served because their rows cannot be loaded."""
    members_of_group: tuple[tuple[str, int], ...]
    """Group and how many members it has, of every group of the node."""
    shard_count: int
    """How many there are, whoever owns them."""
    shards_active: int
    shards_loading: int
    lease_left_s: float
    """How long the lease runs that runs out first; 0 where none runs."""
    is_store_reached: bool
    incarnation: Incarnation | None
    """The database's, as of the last renewal; None before the first."""
    deadlines_armed: int
    queued_rows: int
    max_queued_rows: int
    wall_ms: int
    """The node's own clock."""
