"""What another timeout would have done to the same days.

A gap that a sign of life ended would have been a spurious eviction under a shorter timeout. Of gaps only the bounds of
their lengths are known, so there is a least and a most; whoever advises takes the most. A day's longest gap is known
exactly, and a timeout that reaches it puts nobody out that day. A longer timeout never puts more members out.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from coordinator_core.protocol.advice.evidence import GAP_BOUNDS_MS, Day
from coordinator_core.protocol.advice.steps import covered

LOWER_BOUNDS_MS = (0, *GAP_BOUNDS_MS)
"""What the gaps of each count are longer than; GAP_BOUNDS_MS are what they are not."""

Z_ONE_IN_TWENTY = 1.645
"""The standard normal distribution exceeds this once in twenty times."""


def spurious_at(days: Iterable[Day], timeout_ms: int) -> int:
    """Return how many spurious evictions there would have been, at most."""
    return sum(gaps_over(day, timeout_ms)[1] + day.spurious - covered(day.silences, timeout_ms) for day in days)


def avoided_at(days: Iterable[Day], timeout_ms: int) -> int:
    """Return how many of the spurious evictions that there were would not have been."""
    return sum(covered(day.silences, timeout_ms) for day in days)


def added_at(days: Iterable[Day], timeout_ms: int) -> tuple[int, int]:
    """Return how many spurious evictions there would have been beside those that there were: at least, at most."""
    each = [gaps_over(day, timeout_ms) for day in days]
    return sum(least for least, _ in each), sum(most for _, most in each)


def failures_of(days: Iterable[Day]) -> int:
    """Return how many members were put out and did not come back."""
    return sum(day.failures for day in days)


def detection_added_ms(days: Iterable[Day], timeout_ms: int) -> int:
    """Return how much later, all in all, failures would have been seen; below zero: sooner."""
    return sum(day.failures * timeout_ms - day.failures_limit_ms for day in days)


def gaps_over(day: Day, timeout_ms: int) -> tuple[int, int]:
    """Return how many gaps of a day were longer than a timeout: at least, at most."""
    if day.longest_gap_ms <= timeout_ms:
        return 0, 0
    at_least = sum(day.gaps[bisect_left(LOWER_BOUNDS_MS, timeout_ms) :])
    at_most = sum(day.gaps[bisect_right(GAP_BOUNDS_MS, timeout_ms) :])
    # The longest gap itself is one.
    return max(1, at_least), max(1, at_most)


def rate_at_most(count: int) -> float:
    """Return the mean that a count of events stays below, by chance, once in twenty times.

    Source: Wilson and Hilferty's approximation of the chi-squared distribution, by which Poisson means are bounded.
    """
    shape = count + 1
    cube_root = 1 - 1 / (9 * shape) + Z_ONE_IN_TWENTY / (3 * shape**0.5)
    return float(shape * cube_root**3)
