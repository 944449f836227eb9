"""Lag of a committed offset, in records and in time, from what is known of the end of its log.

Rules:

* A log's end is known at some instants; between two of them the log is taken to have grown evenly.
* A committed offset is behind by the records between it and the end, and by the time since the log went past it.
* When the log went past an offset lies between the last known end that is not beyond it and the first one after that.
  Where even the first known end is beyond the offset, the time is a lower bound.
* A log never shrinks: of reports that arrive from several clients, one that is lower than an earlier one adds nothing.
* An end that has not been reported for longer than its maximum age is stale. The lag is then a lower bound, in records
  and in time, and a lower bound of 0 is no answer: the lag is unknown.
* Lags that are added up stay within 64 bits, as every offset does, whatever ends consumers report.

Source: Burrow and KIP-489 define lag in records alone; "when was this offset the end?" is the question behind it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

LAG_MAX_RECORDS: Final = 2**63 - 1
LOG_END_MAX_AGE_MS: Final = 300_000
"""The default age past which a log's end is stale."""


class LogEnd(NamedTuple):
    """The offset that the next record of a log would have had at an instant."""

    at_ms: int
    offset: int


def own_log_end(offset: int, log_end_offset: int | None, reported_at_ms: int) -> LogEnd | None:
    """Return the end that was reported with a commit, if one was; the log reaches the committed offset at least."""
    return None if log_end_offset is None else LogEnd(reported_at_ms, max(log_end_offset, offset))


def furthest(*ends: LogEnd | None) -> LogEnd | None:
    """Return the furthest of the ends that are known, with its latest report."""
    return max((end for end in ends if end is not None), key=lambda end: (end.offset, end.at_ms), default=None)


class Behind(NamedTuple):
    """How far a committed offset is from the end of its log."""

    records: int
    ms: int
    """How long ago the log went past the offset; 0 where it has not."""
    is_at_least: bool = False
    """Whether `ms` is a lower bound: nothing older is known of the log, or its end is stale."""
    is_stale: bool = False
    """Whether the end is stale, so that `records` is a lower bound as well."""

    @property
    def is_known(self) -> bool:
        """Return whether this says anything; a lower bound of 0 does not."""
        return self.records > 0 or not self.is_stale


CAUGHT_UP = Behind(0, 0)


def behind(ends: Sequence[LogEnd], offset: int, now_ms: int, max_age_ms: int = LOG_END_MAX_AGE_MS) -> Behind | None:
    """Return how far a committed offset was behind at an instant.

    Args:
        ends: what is known of the log, by time; may be empty, and may reach beyond the instant.
        offset: the committed offset, which is the next record to read.
        now_ms: the instant, in milliseconds since the epoch.
        max_age_ms: the age past which the last of the ends is stale.

    Returns:
        None where nothing was known of the log by then.
    """
    later = bisect_right(ends, now_ms, key=attrgetter("at_ms"))
    if later == 0:
        return None
    is_stale = later == len(ends) and now_ms - ends[-1].at_ms > max_age_ms
    end = _end_at(ends, later, now_ms)
    if end <= offset:
        return CAUGHT_UP._replace(is_at_least=is_stale, is_stale=is_stale)
    passed_at_ms, is_at_least = _passed_at(ends, later, offset)
    return Behind(end - offset, max(0, now_ms - passed_at_ms), is_at_least or is_stale, is_stale)


def rising(ends: Iterable[LogEnd]) -> list[LogEnd]:
    """Return ends of several sources by time, without those that are lower than an earlier one."""
    found: list[LogEnd] = []
    for end in sorted(set(ends)):
        if not found or end.offset >= found[-1].offset:
            found.append(end)
    return found


def telling(ends: Sequence[LogEnd], offset: int) -> list[LogEnd]:
    """Return the ends of one source that `behind` needs: the last at or before an offset, the next one, the last."""
    reached = [place for place, end in enumerate(ends) if end.offset <= offset][-1:]
    beyond = reached[-1] + 1 if reached else 0
    return sorted({*(ends[place] for place in reached), *ends[beyond : beyond + 1], *ends[-1:]})


def total(lags: Iterable[Behind]) -> Behind | None:
    """Return the lag of several partitions: records added up, the longest time; None where there is none."""
    found = list(lags)
    if not found:
        return None
    return Behind(
        added_up(each.records for each in found),
        max(each.ms for each in found),
        any(each.is_at_least for each in found),
        any(each.is_stale for each in found),
    )


def added_up(lags: Iterable[int]) -> int:
    """Return the lag in records of several partitions, at most `LAG_MAX_RECORDS`."""
    return min(sum(lags), LAG_MAX_RECORDS)


def _end_at(ends: Sequence[LogEnd], later: int, at_ms: int) -> int:
    """Return the log's end at an instant, which lies before the end at this place and not before the last one."""
    before = ends[later - 1]
    if later == len(ends):
        return before.offset
    after = ends[later]
    return before.offset + (after.offset - before.offset) * (at_ms - before.at_ms) // (after.at_ms - before.at_ms)


def _passed_at(ends: Sequence[LogEnd], later: int, offset: int) -> tuple[int, bool]:
    """Return when the log went past an offset, and whether that may have been earlier still."""
    for place in range(later - 1, -1, -1):
        before = ends[place]
        if before.offset <= offset:
            after = ends[place + 1]
            took_ms, grown = after.at_ms - before.at_ms, after.offset - before.offset
            return before.at_ms + took_ms * (offset - before.offset) // grown, False
    return ends[0].at_ms, True
