"""A log's end is known at some instants, and between two of them the log is taken to have grown evenly.

Rules:

* A position is behind by the records between it and the end, and by the time since the log went past it.
* When the log went past a position lies between the last known end that is not beyond it and the first one after that.
* Where even the first known end is beyond the position, the log went past it before that: by that much at least.
* Lags that are added up stay within 64 bits, as every offset does, whatever ends consumers report.
* Nothing is known of a log before its first known end; after the last one it is taken to have stood still, because a
  lag that nobody has seen is not told.

Source: Burrow and KIP-489 tell lag in records alone; "when was this position the end?" is what people ask of it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

LAG_MAX_RECORDS: Final = 2**63 - 1


class LogEnd(NamedTuple):
    """Where a log ended at an instant: the offset that its next record would have."""

    at_ms: int
    offset: int


class Behind(NamedTuple):
    """How far a position is from the end of its log."""

    records: int
    ms: int
    """How long ago the log went past the position; 0 where it has not."""
    is_at_least: bool
    """Whether it may be longer: nothing older is known of the log."""


CAUGHT_UP = Behind(0, 0, is_at_least=False)


def behind(ends: Sequence[LogEnd], offset: int, now_ms: int) -> Behind | None:
    """Tell how far a position was behind at an instant.

    Args:
        ends: what is known of the log, by time; may be empty, and may reach beyond the instant.
        offset: the position, which is the next record to read.
        now_ms: the instant, in milliseconds since the epoch.

    Returns:
        None where nothing was known of the log by then.
    """
    later = bisect_right(ends, now_ms, key=attrgetter("at_ms"))
    if later == 0:
        return None
    end = _end_at(ends, later, now_ms)
    if end <= offset:
        return CAUGHT_UP
    passed_at_ms, is_at_least = _passed_at(ends, later, offset)
    return Behind(end - offset, max(0, now_ms - passed_at_ms), is_at_least)


def added_up(lags: Iterable[int]) -> int:
    """Return the lag in records of several partitions, at most `LAG_MAX_RECORDS`."""
    return min(sum(lags), LAG_MAX_RECORDS)


def _end_at(ends: Sequence[LogEnd], later: int, at_ms: int) -> int:
    """Tell where the log ended at an instant, which lies before the end at this place and not before the last one."""
    before = ends[later - 1]
    if later == len(ends):
        return before.offset
    after = ends[later]
    return before.offset + (after.offset - before.offset) * (at_ms - before.at_ms) // (after.at_ms - before.at_ms)


def _passed_at(ends: Sequence[LogEnd], later: int, offset: int) -> tuple[int, bool]:
    """Tell when the log went past a position, and whether that may have been earlier still."""
    for place in range(later - 1, -1, -1):
        before = ends[place]
        if before.offset <= offset:
            after = ends[place + 1]
            took_ms, grown = after.at_ms - before.at_ms, after.offset - before.offset
            return before.at_ms + took_ms * (offset - before.offset) // grown, False
    return ends[0].at_ms, True
