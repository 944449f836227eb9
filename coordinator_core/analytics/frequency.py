"""Rules on rebalance churn, spurious evictions and groups that do not settle.

`spark_jobs/rules/frequency.py` has the same rules as column expressions:

* *Churn*: at least so many rebalances began within a window. Churn periods that share a rebalance are one.
* A member that was evicted for its silence (its session, the join or the sync timed out) was evicted *spuriously* if
  the same consumer joined again within the grace, both ends included: it was alive all the time. The exception: if the
  consumer had already joined again while the member was silent, the evicted one was dead, and this is a further one.
  The same consumer has the same instance id, or else the same client id and host; and a new member id.
* A group *never settles* if a rebalance had been under way for longer than a bound when the interval ended, or if one
  that ended within the interval had restarted too often.
* The *share* of an interval in which a group rebalanced is a share of the group's life within it: from its creation to
  its death, clipped to the interval; the lives of a group that was created again add up.
* The *median* and the *high* percentile (19 of 20 are no longer) of durations are durations that occurred: the
  smallest that so large a share does not exceed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

EVICTION_REASONS: Final = ("session_expired", "rebalance_timeout", "sync_timeout")
"""End reasons of members that were evicted for their silence."""
MEDIAN: Final = 0.5
HIGH: Final = 0.95


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of the rules."""

    grace_ms: int
    """A member that is back within this time was evicted spuriously."""
    churn_min_rebalances: int
    """So many rebalances within the window are churn; at least 2."""
    churn_window_ms: int
    stuck_ms: int
    """A rebalance that has been under way for so long when the interval ends does not settle."""
    stuck_restarts: int
    """A rebalance that restarted so often does not settle."""


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
    """Return the share of a group's life within an interval in which it rebalanced; 0 without any."""
    return rebalancing_ms / existed_ms if existed_ms else 0.0


def is_churning(under_way_ms: int | None, restarts: int, thresholds: Thresholds) -> bool:
    """Return whether a group does not settle.

    Args:
        under_way_ms: How long a rebalance had been under way when the interval ended; None: none was.
        restarts: How often a rebalance that ended within the interval had restarted, at most.
        thresholds: The bounds of both.
    """
    is_stuck = under_way_ms is not None and under_way_ms >= thresholds.stuck_ms
    return is_stuck or restarts >= thresholds.stuck_restarts
