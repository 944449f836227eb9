"""Lag over time: the sum of records, the greatest time lag of all partitions, and None if not known."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.lag import GroupLag, LagPoint, SampleTimes, lag_history
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.store.committed_offsets import COARSE_FACTOR, PastLogEnd, PastOffset, TimeRange
from coordinator_core.store.interface import Store

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


def test_deleted_offset_has_no_lag() -> None:
    positions = [past(0, 0, 5, 9), past(0, 2, None), past(0, 4, 6, 9)]
    assert lags(positions, 1, 4) == [(4, 1), (None, None), (None, None), (3, 4)]


def test_lag_points_are_counted_as_returned() -> None:
    for points in (SampleTimes(0, 10, 3), SampleTimes(5, 5, 3), SampleTimes(0, 9, 3)):
        assert len(points) == len(list(points))


class ManyPartitions:
    """A store of a group with so many partitions, which notes how finely it was asked."""

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count
        self.asked: list[TimeRange] = []

    def stored_offsets(self, _group_id: str) -> range:
        return range(self.partition_count)

    def past_offsets(self, time_range: TimeRange, limit: int) -> list[PastOffset]:
        self.asked.append(time_range)
        steps = (time_range.until_ms - time_range.coarse_until_ms) // time_range.step_ms + 1
        steps += (time_range.coarse_until_ms - time_range.from_ms) // (time_range.step_ms * COARSE_FACTOR) + 1
        found = [past(number, 0, 5, 9) for number in range(self.partition_count) for _ in range(steps)]
        return found[:limit]

    def past_log_ends(self, _stretch: TimeRange, _limit: int) -> list[PastLogEnd]:
        return []


async def nothing_dirty(_group_id: str) -> None:
    """Find every offset in the table."""


async def beside(call: Callable[[], T]) -> T:
    return call()


@pytest.mark.parametrize("partition_count", [1, 500, 1_000])
def test_resolution_decreases_with_many_partitions(partition_count: int) -> None:
    store = ManyPartitions(partition_count)
    lag = GroupLag(cast(Store, store), beside, nothing_dirty, MetadataCache(GroupSettings(), frozenset()), lambda: 0)
    day = SampleTimes(DAY_MS, 2 * DAY_MS, 12 * MINUTE_MS)
    lags = asyncio.run(lag.over_time("orders", day, 50_000))
    assert [each.lag and each.lag.records for each in lags] == [4 * partition_count] * len(day)
    assert store.asked[-1].step_ms == 12 * MINUTE_MS * {1: 1, 500: 2, 1_000: 4}[partition_count]
    assert len(store.asked) <= 2


def test_more_partitions_than_points_are_refused() -> None:
    lag = GroupLag(
        cast(Store, ManyPartitions(100)), beside, nothing_dirty, MetadataCache(GroupSettings(), frozenset()), lambda: 0
    )
    with pytest.raises(InvalidRequest, match="more than 99 committed offsets"):
        asyncio.run(lag.over_time("orders", SampleTimes(DAY_MS, 2 * DAY_MS, MINUTE_MS), 99))
