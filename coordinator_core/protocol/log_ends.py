"""Lag of a committed offset, in records and in time, computed from known log end offsets.

Rules:

* A log's end is known at some instants; between two of them the log is assumed to have grown evenly.
* The lag in records is the distance from the committed offset to the end; the lag in time counts from when the log
  went past that offset.
* The log went past an offset between the last known end that is not beyond it and the next known end. If even the
  first known end is beyond the offset, the time is a lower bound.
* A log never shrinks: of reports from several clients, one that is lower than an earlier one is ignored.
* An end older than its maximum age is stale. The lag is then a lower bound, in records and in time; a lower bound of
  0 says nothing, so the lag is unknown.
* Sums of lags stay within 64 bits, as offsets do, whatever ends clients report.

Source: Burrow and KIP-489 define lag in records; the lag in time follows from when this offset was the end.
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


def reported_log_end(offset: int, log_end_offset: int | None, reported_at_ms: int) -> LogEnd | None:
    """Return the end reported with a commit, if any; it is never below the committed offset."""
    return None if log_end_offset is None else LogEnd(reported_at_ms, max(log_end_offset, offset))


def latest_log_end(*ends: LogEnd | None) -> LogEnd | None:
    """Return the highest of the known ends, with its latest report; None if none is known."""
    return max((end for end in ends if end is not None), key=lambda end: (end.offset, end.at_ms), default=None)


class Lag(NamedTuple):
    """How far a committed offset is behind the end of its log."""

    records: int
    ms: int
    """The time since the log went past the offset; 0 if it has not."""
    is_lower_bound: bool = False
    """Whether `ms` is a lower bound: no older end is known, or the end is stale."""
    is_stale: bool = False
    """Whether the end is stale, so that `records` is a lower bound as well."""

    @property
    def is_known(self) -> bool:
        """Return whether the lag says anything; a lower bound of 0 does not."""
        return self.records > 0 or not self.is_stale


NO_LAG = Lag(0, 0)


def lag_at(ends: Sequence[LogEnd], offset: int, now_ms: int, max_age_ms: int = LOG_END_MAX_AGE_MS) -> Lag | None:
    """Return the lag of a committed offset at an instant.

    Args:
        ends: known ends of the log, by time; may be empty, and may reach beyond the instant.
        offset: the committed offset, which is the next record to read.
        now_ms: the instant, in milliseconds since the epoch.
        max_age_ms: the age past which the last end before the instant is stale; the lag is a lower bound then, or an
            estimate if there is a later end.

    Returns:
        None if no end is known at the instant.
    """
    later = bisect_right(ends, now_ms, key=attrgetter("at_ms"))
    if later == 0:
        return None
    is_stale = now_ms - ends[later - 1].at_ms > max_age_ms
    is_last_stale = is_stale and later == len(ends)
    end = _end_at(ends, later, now_ms)
    if end <= offset:
        return NO_LAG._replace(is_lower_bound=is_last_stale, is_stale=is_stale)
    passed_at_ms, is_lower_bound = _passed_at(ends, later, offset)
    return Lag(end - offset, max(0, now_ms - passed_at_ms), is_lower_bound or is_last_stale, is_stale)


def monotonic_log_ends(ends: Iterable[LogEnd]) -> list[LogEnd]:
    """Return the ends of several sources by time, without those that are lower than an earlier one."""
    found: list[LogEnd] = []
    for end in sorted(set(ends)):
        if not found or end.offset >= found[-1].offset:
            found.append(end)
    return found


def total_lag(lags: Iterable[Lag]) -> Lag | None:
    """Return the lag over several partitions: the sum of records, the longest time; None if there is none."""
    found = list(lags)
    if not found:
        return None
    return Lag(
        sum_lags(each.records for each in found),
        max(each.ms for each in found),
        any(each.is_lower_bound for each in found),
        any(each.is_stale for each in found),
    )


def sum_lags(lags: Iterable[int]) -> int:
    """Return the sum of lags in records, at most `LAG_MAX_RECORDS`."""
    return min(sum(lags), LAG_MAX_RECORDS)


def _end_at(ends: Sequence[LogEnd], later: int, at_ms: int) -> int:
    """Return the log's end at an instant between the end before index `later` and the one at it."""
    before = ends[later - 1]
    if later == len(ends):
        return before.offset
    after = ends[later]
    return before.offset + (after.offset - before.offset) * (at_ms - before.at_ms) // (after.at_ms - before.at_ms)


def _passed_at(ends: Sequence[LogEnd], later: int, offset: int) -> tuple[int, bool]:
    """Return when the log went past an offset, and whether that time is only an upper bound."""
    for place in range(later - 1, -1, -1):
        before = ends[place]
        if before.offset <= offset:
            after = ends[place + 1]
            took_ms, grown = after.at_ms - before.at_ms, after.offset - before.offset
            return before.at_ms + took_ms * (offset - before.offset) // grown, False
    return ends[0].at_ms, True
