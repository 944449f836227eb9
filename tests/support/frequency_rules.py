"""Plain functions with the rules of `spark_jobs/rules/frequency.py`, to which a property test compares them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from coordinator_core.analytics.frequency import Thresholds


@dataclass(frozen=True, slots=True)
class Consumer:
    """The identity of a consumer, apart from its member id."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str


def is_same_consumer(evicted: Consumer, joined: Consumer) -> bool:
    """Return whether a member that joined is the same consumer as an evicted one."""
    if evicted.member_id == joined.member_id or evicted.instance_id != joined.instance_id:
        return False
    return evicted.instance_id is not None or (evicted.client_id, evicted.host) == (joined.client_id, joined.host)


def is_back_within_grace(evicted_at_ms: int, joined_at_ms: int, grace_ms: int) -> bool:
    """Return whether a join came soon enough after the eviction."""
    return evicted_at_ms <= joined_at_ms <= evicted_at_ms + grace_ms


def is_successor(silent_since_ms: int, joined_at_ms: int, evicted_at_ms: int) -> bool:
    """Return whether a join replaced a silent member that had not been evicted yet."""
    return silent_since_ms < joined_at_ms < evicted_at_ms


def churn_periods(starts_ms: Sequence[int], thresholds: Thresholds) -> tuple[int, int]:
    """Return the number of churn periods, and of the rebalances in them.

    Args:
        starts_ms: When rebalances began, in order.
        thresholds: How many within which window are churn.
    """
    rebalances, window_ms = thresholds.churn_min_rebalances, thresholds.churn_window_ms
    count, in_churn, covered_until = 0, 0, 0
    for first in range(len(starts_ms) - rebalances + 1):
        end = first + rebalances
        if starts_ms[end - 1] - starts_ms[first] <= window_ms:
            count += first >= covered_until
            in_churn += end - max(first, covered_until)
            covered_until = end
    return count, in_churn


def percentile(lengths_ms: Sequence[int], share: float) -> int | None:
    """Return the smallest duration that this share of the durations does not exceed; None if there are none."""
    ordered = sorted(lengths_ms)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a group; `died_at_ms` None: it did not die within the interval."""

    created_at_ms: int
    died_at_ms: int | None = None


def existed_ms(lives: Sequence[Life], start_ms: int, end_ms: int) -> int:
    """Return how long the group existed within an interval."""
    ends_ms = (end_ms if life.died_at_ms is None else min(life.died_at_ms, end_ms) for life in lives)
    return sum(
        max(0, until_ms - max(life.created_at_ms, start_ms)) for life, until_ms in zip(lives, ends_ms, strict=True)
    )


def rebalancing_share(rebalancing_ms: int, existed_ms: int) -> float:
    """Return the share of a group's life within an interval in which it rebalanced, 1 at most; 0 without any."""
    return min(1.0, rebalancing_ms / existed_ms) if existed_ms else 0.0


def is_churning(under_way_ms: int | None, restarts: int, thresholds: Thresholds) -> bool:
    """Return whether a group does not settle.

    Args:
        under_way_ms: How long a rebalance had been under way when the interval ended; None: none was.
        restarts: How often a rebalance that ended within the interval had restarted, at most.
        thresholds: The bounds of both.
    """
    is_stuck = under_way_ms is not None and under_way_ms >= thresholds.stuck_ms
    return is_stuck or restarts >= thresholds.stuck_restarts
