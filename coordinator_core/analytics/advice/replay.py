"""Replay of a group's days under another timeout.

A gap between heartbeats would have been a spurious eviction under a shorter timeout. Gaps are counted in buckets, so
there is a lower and an upper bound; advice uses the upper one. The longest gap of a day is known exactly, and a
timeout that reaches it evicts no member that day. A longer timeout never evicts more members.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS, Day
from coordinator_core.analytics.advice.steps import covered

LOWER_BOUNDS_MS = (0, *GAP_BOUNDS_MS)
"""The exclusive lower bounds of the buckets; GAP_BOUNDS_MS are the inclusive upper ones."""

Z_ONE_IN_TWENTY = 1.645
"""The standard normal distribution exceeds this once in twenty times."""


def spurious_at(days: Iterable[Day], timeout_ms: int) -> int:
    """Return an upper bound of the spurious evictions under a timeout."""
    return sum(gaps_over(day, timeout_ms)[1] + day.spurious - covered(day.silences, timeout_ms) for day in days)


def avoided_at(days: Iterable[Day], timeout_ms: int) -> int:
    """Return how many of the actual spurious evictions a timeout would have avoided."""
    return sum(covered(day.silences, timeout_ms) for day in days)


def added_at(days: Iterable[Day], timeout_ms: int) -> tuple[int, int]:
    """Return how many spurious evictions a timeout would have added: lower bound, upper bound."""
    each = [gaps_over(day, timeout_ms) for day in days]
    return sum(least for least, _ in each), sum(most for _, most in each)


def failures_of(days: Iterable[Day]) -> int:
    """Return the number of evicted members that did not come back."""
    return sum(day.failures for day in days)


def detection_added_ms(days: Iterable[Day], timeout_ms: int) -> int:
    """Return the total delay that a timeout would have added to failure detection; negative: sooner."""
    return sum(day.failures * timeout_ms - day.failures_limit_ms for day in days)


def gaps_over(day: Day, timeout_ms: int) -> tuple[int, int]:
    """Return how many gaps of a day were longer than a timeout: lower bound, upper bound."""
    if day.longest_gap_ms <= timeout_ms:
        return 0, 0
    at_least = sum(day.gaps[bisect_left(LOWER_BOUNDS_MS, timeout_ms) :])
    at_most = sum(day.gaps[bisect_right(GAP_BOUNDS_MS, timeout_ms) :])
    # At least the longest gap.
    return max(1, at_least), max(1, at_most)


def rate_at_most(count: int) -> float:
    """Return the mean that a count of events stays below, by chance, once in twenty times.

    Source: Wilson and Hilferty's approximation of the chi-squared distribution, which bounds Poisson means.
    """
    shape = count + 1
    cube_root = 1 - 1 / (9 * shape) + Z_ONE_IN_TWENTY / (3 * shape**0.5)
    return float(shape * cube_root**3)
