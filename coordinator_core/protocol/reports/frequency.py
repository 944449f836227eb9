"""When rebalances are a storm, when an eviction was for nothing, and when a group does not settle.

Rules, each with its twin in `spark_jobs/rules/frequency.py`:

* A *storm*: at least so many rebalances began within a window. Storms that share a rebalance are one.
* A member that was put out for its silence (its session, the join or the sync ran out of time) was put out *spuriously*
  if the same consumer joined again within the grace, both ends included: it had been alive all the time; unless it had
  joined again before, while the member was silent: then the one that was put out was dead, and this is one more. The
  same consumer has the same instance id; without one, the same client id on the same host; and a new member id.
* A group *never settles* if a rebalance has gone on for longer than a bound when the interval ends, or if one that was
  over within the interval had fallen back too often.
* The *share* of an interval in which a group rebalanced is taken of the time that the group lived in it: from its
  creation until its death, clipped to the interval, and the lives of a group that was made again added up.
* Of lengths, the *median* and the *high* one (19 of 20 are no longer) are lengths that occurred: the smallest that so
  large a share is not longer than.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

SILENCES: Final = ("session_expired", "rebalance_timeout", "sync_timeout")
"""Why a stay ended, where its member was put out for its silence."""
MEDIAN: Final = 0.5
HIGH: Final = 0.95


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the rules go by."""

    grace_ms: int
    """Who is back within this time was put out spuriously."""
    storm_rebalances: int
    """So many rebalances within the window are a storm; at least 2."""
    storm_window_ms: int
    unsettled_ms: int
    """A rebalance that has gone on for so long when the interval ends does not settle."""
    unsettled_restarts: int
    """A rebalance that fell back so often does not settle."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who a member is, apart from its member id."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str


def is_same_consumer(gone: Consumer, back: Consumer) -> bool:
    """Tell whether a member that joined is one that is gone, come back."""
    if gone.member_id == back.member_id or gone.instance_id != back.instance_id:
        return False
    return gone.instance_id is not None or (gone.client_id, gone.host) == (back.client_id, back.host)


def is_back_in_time(gone_at_ms: int, joined_at_ms: int, grace_ms: int) -> bool:
    """Tell whether somebody joined soon enough after having been put out."""
    return gone_at_ms <= joined_at_ms <= gone_at_ms + grace_ms


def is_successor(silent_since_ms: int, joined_at_ms: int, gone_at_ms: int) -> bool:
    """Tell whether somebody joined in the place of a member that was silent, and not put out yet."""
    return silent_since_ms < joined_at_ms < gone_at_ms


def storms(starts_ms: Sequence[int], thresholds: Thresholds) -> tuple[int, int]:
    """Return how many storms there were, and how many rebalances were part of one.

    Args:
        starts_ms: When rebalances began, in order.
        thresholds: How many within which window are a storm.
    """
    rebalances, window_ms = thresholds.storm_rebalances, thresholds.storm_window_ms
    count, stormy, covered_until = 0, 0, 0
    for first in range(len(starts_ms) - rebalances + 1):
        end = first + rebalances
        if starts_ms[end - 1] - starts_ms[first] <= window_ms:
            count += first >= covered_until
            stormy += end - max(first, covered_until)
            covered_until = end
    return count, stormy


def percentile(lengths_ms: Sequence[int], share: float) -> int | None:
    """Return the smallest of the lengths that so large a share is not longer than; None of none."""
    ordered = sorted(lengths_ms)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a group; `died_at_ms` None: it did not die within the interval."""

    created_at_ms: int
    died_at_ms: int | None = None


def lived_ms(lives: Sequence[Life], start_ms: int, end_ms: int) -> int:
    """Return how long of an interval a group lived."""
    ends_ms = (end_ms if life.died_at_ms is None else min(life.died_at_ms, end_ms) for life in lives)
    return sum(
        max(0, until_ms - max(life.created_at_ms, start_ms)) for life, until_ms in zip(lives, ends_ms, strict=True)
    )


def rebalancing_share(rebalancing_ms: int, lived_ms: int) -> float:
    """Return which share of its life within an interval a group rebalanced; 0 of a group that did not live in it."""
    return rebalancing_ms / lived_ms if lived_ms else 0.0


def never_settles(under_way_ms: int | None, restarts: int, thresholds: Thresholds) -> bool:
    """Tell whether a group does not settle.

    Args:
        under_way_ms: For how long a rebalance had been under way when the interval ended; None: none was.
        restarts: How often a rebalance that was over within the interval fell back, at most.
        thresholds: The bounds on both.
    """
    goes_on = under_way_ms is not None and under_way_ms >= thresholds.unsettled_ms
    return goes_on or restarts >= thresholds.unsettled_restarts
