"""A curve of lag adds records up, tells the time of the partition furthest behind, and knows when it knows nothing."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.behind import GroupLag, LagPoint, Points, curve
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.store.interface import Store
from coordinator_core.store.positions import EARLY_FACTOR, PastLogEnd, PastPosition, Stretch

T = TypeVar("T")

MINUTE_MS = 60_000
DAY_MS = 86_400_000


def past(partition: int, minute: int, offset: int | None, end: int | None = None) -> PastPosition:
    return PastPosition("orders", partition, minute * MINUTE_MS, offset, end)


def told(positions: list[PastPosition], first: int, last: int) -> list[tuple[int | None, int | None]]:
    """Return lag in records and in minutes, minute by minute."""
    points = Points(first * MINUTE_MS, last * MINUTE_MS, MINUTE_MS)
    found = curve(positions, [], points, MINUTE_MS, LOG_END_MAX_AGE_MS)
    return [(None, None) if each is None else (each.records, each.ms // MINUTE_MS) for _, each in found]


def test_before_anything_is_known_a_point_is_empty() -> None:
    assert told([past(0, 2, 5, 9)], 0, 2) == [(None, None), (None, None), (4, 0)]
    assert curve([], [], Points(0, 0, 1), 1, 1) == [LagPoint(0, None)]


def test_records_are_added_up_and_the_longest_time_is_told() -> None:
    positions = [past(0, 0, 5, 5), past(0, 4, 5, 9), past(1, 0, 0, 1), past(1, 6, 9, 9)]
    assert told(positions, 2, 6) == [(5, 2), (8, 3), (10, 4), (11, 5), (4, 6)]


def test_who_stands_still_falls_behind_and_who_reports_no_end_is_left_out() -> None:
    positions = [past(0, 0, 5, 9), past(1, 0, 5)]
    assert told(positions, 0, 3) == [(4, 0), (4, 1), (4, 2), (4, 3)]


def test_who_keeps_up_is_not_behind_between_two_positions() -> None:
    """History keeps the last position of a minute; in between both the log and the group moved on."""
    positions = [past(0, 0, 10, 10), past(0, 2, 30, 30), past(0, 4, 40, 50)]
    assert told(positions, 0, 4) == [(0, 0), (0, 0), (0, 0), (5, 0), (10, 1)]


def test_an_offset_that_was_taken_away_is_behind_no_more() -> None:
    positions = [past(0, 0, 5, 9), past(0, 2, None), past(0, 4, 6, 9)]
    assert told(positions, 1, 4) == [(4, 1), (None, None), (None, None), (3, 4)]


def test_points_are_counted_as_they_are_told() -> None:
    for points in (Points(0, 10, 3), Points(5, 5, 3), Points(0, 9, 3)):
        assert len(points) == len(list(points))


class ManyPartitions:
    """A store of a group with so many partitions, which notes how finely it was asked."""

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count
        self.asked: list[Stretch] = []

    def stored_offsets(self, _group_id: str) -> range:
        return range(self.partition_count)

    def past_positions(self, stretch: Stretch, limit: int) -> list[PastPosition]:
        self.asked.append(stretch)
        steps = (stretch.until_ms - stretch.early_until_ms) // stretch.step_ms + 1
        steps += (stretch.early_until_ms - stretch.from_ms) // (stretch.step_ms * EARLY_FACTOR) + 1
        found = [past(number, 0, 5, 9) for number in range(self.partition_count) for _ in range(steps)]
        return found[:limit]

    def past_log_ends(self, _stretch: Stretch, _limit: int) -> list[PastLogEnd]:
        return []


async def beside(call: Callable[[], T]) -> T:
    return call()


@pytest.mark.parametrize("partition_count", [1, 500, 1_000])
def test_of_many_partitions_positions_are_looked_at_less_finely(partition_count: int) -> None:
    store = ManyPartitions(partition_count)
    lag = GroupLag(cast(Store, store), beside, Surroundings(GroupSettings(), frozenset()), lambda: 0)
    day = Points(DAY_MS, 2 * DAY_MS, 12 * MINUTE_MS)
    told = asyncio.run(lag.over_time("orders", day, 50_000))
    assert [each.behind and each.behind.records for each in told] == [4 * partition_count] * len(day)
    assert store.asked[-1].step_ms == 12 * MINUTE_MS * {1: 1, 500: 2, 1_000: 4}[partition_count]
    assert len(store.asked) <= 2


def test_more_partitions_than_positions_are_refused() -> None:
    lag = GroupLag(cast(Store, ManyPartitions(100)), beside, Surroundings(GroupSettings(), frozenset()), lambda: 0)
    with pytest.raises(InvalidRequest, match="more than 99 positions"):
        asyncio.run(lag.over_time("orders", Points(DAY_MS, 2 * DAY_MS, MINUTE_MS), 99))
