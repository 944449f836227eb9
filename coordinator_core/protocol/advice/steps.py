"""Timeouts are advised in steps that people would choose themselves, and lengths of time are counted by the same steps.

A length falls under the least step that is not below it, so a timeout of that step would have covered it.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain
from typing import Final

SECOND_MS: Final = 1_000

STEPS_MS: Final = tuple(
    seconds * SECOND_MS
    for seconds in chain(range(1, 60), range(60, 300, 5), range(300, 1_800, 30), range(1_800, 14_401, 300))
)
"""Every second to a minute, every five to five minutes, every half minute to half an hour, then to four hours."""

BEYOND: Final = len(STEPS_MS)
"""The place of whatever is longer than the last step."""


def place_of(length_ms: int) -> int:
    """Return under which step a length is counted: an index of STEPS_MS, or BEYOND."""
    return bisect_left(STEPS_MS, length_ms)


def counted(lengths_ms: Iterable[int]) -> tuple[int, ...]:
    """Return how many lengths fall under each step, and last how many are beyond."""
    counts = [0] * (BEYOND + 1)
    for length_ms in lengths_ms:
        counts[place_of(length_ms)] += 1
    return tuple(counts)


def covered(counts: tuple[int, ...], timeout_ms: int) -> int:
    """Return how many of the counted lengths a timeout certainly covers: those under a step that it reaches."""
    return sum(count for step_ms, count in zip(STEPS_MS, counts, strict=False) if step_ms <= timeout_ms)


def candidates(least_ms: int, most_ms: int) -> tuple[int, ...]:
    """Return the timeouts to choose from, in order: the bounds, and every step between them."""
    between = [step_ms for step_ms in STEPS_MS if least_ms < step_ms < most_ms]
    return tuple(dict.fromkeys([least_ms, *between, most_ms]))
