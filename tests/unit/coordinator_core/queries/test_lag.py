"""Lag over time: the sum of records, the greatest time lag of all partitions, and None if not known."""

from typing import TypeVar

import pytest

from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.queries.committed_offsets import PastOffset
from coordinator_core.queries.lag import LagPoint, SampleTimes, lag_history, resolution_ms

T = TypeVar("T")

MINUTE_MS = 60_000
DAY_MS = 86_400_000


def past(partition: int, minute: int, offset: int | None, end: int | None = None) -> PastOffset:
    return PastOffset("orders", partition, minute * MINUTE_MS, offset, end)


def lags(positions: list[PastOffset], first: int, last: int) -> list[tuple[int | None, int | None]]:
    """Return lag in records and in minutes, minute by minute."""
    points = SampleTimes(first * MINUTE_MS, last * MINUTE_MS, MINUTE_MS)
    found = lag_history(positions, [], points, MINUTE_MS, LOG_END_MAX_AGE_MS)
    return [(None, None) if each is None else (each.records, each.ms // MINUTE_MS) for _, each in found]


def test_before_anything_is_known_a_point_is_empty() -> None:
    assert lags([past(0, 2, 5, 9)], 0, 2) == [(None, None), (None, None), (4, 0)]
    assert lag_history([], [], SampleTimes(0, 0, 1), 1, 1) == [LagPoint(0, None)]


def test_records_are_summed_and_the_longest_time_returned() -> None:
    positions = [past(0, 0, 5, 5), past(0, 4, 5, 9), past(1, 0, 0, 1), past(1, 6, 9, 9)]
    assert lags(positions, 2, 6) == [(5, 2), (8, 3), (10, 4), (11, 5), (4, 6)]


def test_group_without_commits_falls_behind() -> None:
    positions = [past(0, 0, 5, 9), past(1, 0, 5)]
    assert lags(positions, 0, 3) == [(4, 0), (4, 1), (4, 2), (4, 3)]


def test_offsets_are_interpolated_between_commits() -> None:
    """History keeps the last position of a minute; in between both the log and the group moved on."""
    positions = [past(0, 0, 10, 10), past(0, 2, 30, 30), past(0, 4, 40, 50)]
    assert lags(positions, 0, 4) == [(0, 0), (0, 0), (0, 0), (5, 0), (10, 1)]


def test_a_log_end_that_was_not_reported_for_long_is_an_estimate() -> None:
    """As while a mirror was down, or a consumer without another reporter."""
    positions = [past(0, 0, 10, 10), past(0, 20, 90, 90)]
    assert lags(positions, 5, 7) == [(20, 5), (24, 6), (28, 7)]
    points = SampleTimes(5 * MINUTE_MS, 7 * MINUTE_MS, MINUTE_MS)
    found = lag_history(positions, [], points, MINUTE_MS, LOG_END_MAX_AGE_MS)
    assert [lag is not None and lag.is_stale for _, lag in found] == [False, True, True]
    coarse = lag_history(positions, [], points, 4 * MINUTE_MS, LOG_END_MAX_AGE_MS)
    assert [lag is not None and lag.is_stale for _, lag in coarse] == [False, False, False]


def test_deleted_offset_has_no_lag() -> None:
    positions = [past(0, 0, 5, 9), past(0, 2, None), past(0, 4, 6, 9)]
    assert lags(positions, 1, 4) == [(4, 1), (None, None), (None, None), (3, 4)]


def test_a_log_end_counts_until_the_group_reports_a_lower_one() -> None:
    positions = [past(0, 0, 90, 100), past(0, 2, 90, 120), past(0, 5, 4, 6), past(0, 9, 4, 10)]
    assert [records for records, _ in lags(positions, 2, 9)] == [30, 30, 30, 2, 3, 4, 5, 6]


def test_lag_points_are_counted_as_returned() -> None:
    for points in (SampleTimes(0, 10, 3), SampleTimes(5, 5, 3), SampleTimes(0, 9, 3)):
        assert len(points) == len(list(points))


@pytest.mark.parametrize(("partitions", "factor"), [(1, 1), (500, 2), (1_000, 4)])
def test_resolution_decreases_with_many_partitions(partitions: int, factor: int) -> None:
    day = SampleTimes(DAY_MS, 2 * DAY_MS, 12 * MINUTE_MS)
    assert resolution_ms(day, partitions, 50_000) == 12 * MINUTE_MS * factor


def test_resolution_is_not_finer_than_history() -> None:
    assert resolution_ms(SampleTimes(0, DAY_MS, 1), 1, 50_000) == MINUTE_MS
