"""The timeouts that can be advised, and counts of durations by the same steps.

A duration is counted under the lowest step that is not below it, so a timeout of that step would have covered it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import ceil
from typing import Final

STEP_RANGES_MS: Final = (
    range(1_000, 60_000, 1_000),
    range(60_000, 300_000, 5_000),
    range(300_000, 1_800_000, 30_000),
    range(1_800_000, 14_401_000, 300_000),
)
"""Every second to a minute, every five to five minutes, every half minute to half an hour, then to four hours."""

STEPS_MS: Final = tuple(chain.from_iterable(STEP_RANGES_MS))
"""All steps, in order."""

BEYOND: Final = len(STEPS_MS)
"""The index of durations longer than the last step."""


def place_of(length_ms: int) -> int:
    """Return the step of a duration: an index of STEPS_MS, or BEYOND."""
    return bisect_left(STEPS_MS, length_ms)


def counted(lengths_ms: Iterable[int]) -> tuple[int, ...]:
    """Return how many durations fall under each step, and last how many are beyond."""
    counts = [0] * (BEYOND + 1)
    for length_ms in lengths_ms:
        counts[place_of(length_ms)] += 1
    return tuple(counts)


def covered(counts: tuple[int, ...], timeout_ms: int) -> int:
    """Return how many of the counted durations a timeout certainly covers: those under steps up to it."""
    return sum(counts[: bisect_right(STEPS_MS, timeout_ms)])


def share_step_ms(counts: tuple[int, ...], share: float) -> int:
    """Return the step up to which this share of the counted durations lies; the last step for those beyond it."""
    wanted, so_far = ceil(share * sum(counts)), 0
    for step_ms, count in zip(STEPS_MS, counts, strict=False):
        so_far += count
        if so_far >= wanted:
            return step_ms
    return STEPS_MS[-1]


def candidates(least_ms: int, most_ms: int) -> tuple[int, ...]:
    """Return the timeouts to choose from, in order: the bounds, and every step between them."""
    between = [step_ms for step_ms in STEPS_MS if least_ms < step_ms < most_ms]
    return tuple(dict.fromkeys([least_ms, *between, most_ms]))


def shortest(choices_ms: Sequence[int], is_enough: Callable[[int], bool]) -> int | None:
    """Return the first sufficient choice, or None. Every choice above a sufficient one must be sufficient too."""
    place = bisect_left(choices_ms, True, key=is_enough)
    return choices_ms[place] if place < len(choices_ms) else None
