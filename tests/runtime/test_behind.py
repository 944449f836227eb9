"""A curve of lag adds records up, tells the time of the partition furthest behind, and knows when it knows nothing."""

from coordinator_core.runtime.behind import LagPoint, Points, curve
from coordinator_core.store.positions import PastPosition

MINUTE_MS = 60_000


def past(partition: int, minute: int, offset: int | None, end: int | None = None) -> PastPosition:
    return PastPosition("orders", partition, minute * MINUTE_MS, offset, end)


def told(positions: list[PastPosition], first: int, last: int) -> list[tuple[int | None, int | None]]:
    """Return lag in records and in minutes, minute by minute."""
    points = Points(first * MINUTE_MS, last * MINUTE_MS, MINUTE_MS)
    return [(lag, ms if ms is None else ms // MINUTE_MS) for _, lag, ms in curve(positions, points)]


def test_before_anything_is_known_a_point_is_empty() -> None:
    assert told([past(0, 2, 5, 9)], 0, 2) == [(None, None), (None, None), (4, 0)]
    assert curve([], Points(0, 0, 1)) == [LagPoint(0, None, None)]


def test_records_are_added_up_and_the_longest_time_is_told() -> None:
    positions = [past(0, 0, 5, 5), past(0, 4, 5, 9), past(1, 0, 0, 1), past(1, 6, 9, 9)]
    assert told(positions, 2, 6) == [(5, 2), (8, 3), (10, 4), (11, 5), (4, 6)]


def test_who_stands_still_falls_behind_and_who_reports_no_end_is_left_out() -> None:
    positions = [past(0, 0, 5, 9), past(1, 0, 5)]
    assert told(positions, 0, 3) == [(4, 0), (4, 1), (4, 2), (4, 3)]


def test_an_offset_that_was_taken_away_is_behind_no_more() -> None:
    positions = [past(0, 0, 5, 9), past(0, 2, None), past(0, 4, 6, 9)]
    assert told(positions, 1, 4) == [(4, 1), (None, None), (None, None), (3, 4)]


def test_points_are_counted_as_they_are_told() -> None:
    for points in (Points(0, 10, 3), Points(5, 5, 3), Points(0, 9, 3)):
        assert len(points) == len(list(points))
