"""A stay's gaps are measured between signs of life, and nobody's but the member's own time counts.

Source: tables.md, `member_sessions`.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_core.store.rows import MemberSessionRow
from coordinator_core.store.stays import GAP_BOUNDS_MS, LONGEST_TOLD_MS, NOT_HEARD, Stay

WALL_MS = 1_790_000_000_000


def stay(*, is_heard: bool = True) -> Stay:
    """Return the stay of a member whose session began at 1,000 of node time."""
    one = Stay(
        client_id="c",
        client_host="/h",
        group_instance_id=None,
        session_timeout_ms=45_000,
        joined_at_ms=WALL_MS,
        told_until_ms=WALL_MS,
    )
    if is_heard:
        one.join_phase_over()
        one.session_began(1_000, 30_000)
    return one


def told(one: Stay, at_ms: int = WALL_MS + 90_000, end_reason: str = "left") -> MemberSessionRow:
    return one.told(
        group_id="g",
        shard_id=3,
        group_created_at_ms=7,
        generation=2,
        member_id="a",
        at_ms=at_ms,
        end_reason=end_reason,
    )


def gaps(one: Stay) -> dict[int | None, int]:
    """Return bound → how many gaps it counts, of those that count any; None is beyond all."""
    counted = zip((*GAP_BOUNDS_MS, None), told(one).heartbeat_gap_histogram, strict=True)
    return {bound: count for bound, count in counted if count}


def beats(one: Stay, *at_ms: int) -> Stay:
    """Let the member be heard at moments of node time, each of which restarts its session."""
    for node_ms in at_ms:
        one.heard(node_ms, WALL_MS + node_ms)
        one.session_began(node_ms, 30_000)
    return one


def test_a_stay_tells_who_it_was_and_how_it_kept_in_touch() -> None:
    row = told(beats(stay(), 4_000, 7_500, 10_000))
    assert row == MemberSessionRow(
        group_id="g",
        shard_id=3,
        group_created_at_ms=7,
        member_id="a",
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        generation=2,
        session_timeout_ms=30_000,
        joined_at_ms=WALL_MS,
        started_at_ms=WALL_MS,
        ended_at_ms=WALL_MS + 90_000,
        end_reason="left",
        last_heartbeat_at_ms=WALL_MS + 10_000,
        heartbeat_count=3,
        heartbeat_gap_ms_max=3_500,
        heartbeat_gap_histogram=row.heartbeat_gap_histogram,
    )
    assert gaps(beats(stay(), 4_000, 7_500, 10_000)) == {4_096: 3}


@pytest.mark.parametrize(
    ("gap_ms", "bound_ms"),
    [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (4_096, 4_096), (4_097, 8_192), (2**21, 2**21), (2**21 + 1, None)],
)
def test_a_gap_is_counted_under_the_first_bound_that_it_does_not_exceed(gap_ms: int, bound_ms: int | None) -> None:
    assert gaps(beats(stay(), 1_000 + gap_ms)) == {bound_ms: 1}


@given(st.lists(st.integers(0, 5_000_000), min_size=1))
def test_the_histogram_says_how_many_gaps_were_over_each_bound(lengths_ms: list[int]) -> None:
    one, node_ms = stay(), 1_000
    for length_ms in lengths_ms:
        node_ms += length_ms
        beats(one, node_ms)
    row = told(one)
    for place, bound_ms in enumerate(GAP_BOUNDS_MS):
        assert sum(row.heartbeat_gap_histogram[place + 1 :]) == sum(length_ms > bound_ms for length_ms in lengths_ms)
    assert row.heartbeat_gap_ms_max == max(lengths_ms)


def test_a_gap_counts_from_when_the_session_began_again() -> None:
    one = beats(stay(), 2_000)
    one.session_began(9_000, 30_000)
    assert gaps(beats(one, 9_500)) == {1_024: 1, 512: 1}


def test_whoever_waits_for_others_lets_nothing_pass() -> None:
    one = stay()
    one.forget_gap(until=NOT_HEARD)
    one.session_began(200_000, 300_000)
    one.join_phase_over()
    one.session_began(400_000, 30_000)
    assert gaps(beats(one, 401_000)) == {1_024: 1}


def test_a_newcomer_has_no_session_before_its_first_join_phase_is_over() -> None:
    one = stay(is_heard=False)
    one.session_began(0, 300_000)
    row = told(one)
    assert (row.session_timeout_ms, row.heartbeat_count, row.heartbeat_gap_ms_max) == (45_000, 0, None)
    assert row.last_heartbeat_at_ms is None


def test_a_take_over_is_nobody_s_gap() -> None:
    one = stay(is_heard=False)
    one.session_began(0, 30_000)
    assert gaps(beats(one, 20_000, 23_000)) == {4_096: 1}


def test_time_in_which_nobody_could_be_heard_is_given_back() -> None:
    one = beats(stay(), 2_000)
    one.give_back(5_000, node_ms=8_000)
    assert gaps(beats(one, 8_500)) == {1_024: 1, 2_048: 1}


def test_who_was_heard_before_the_pause_was_noticed_is_not_heard_in_the_future() -> None:
    one = beats(stay(), 8_000)
    one.give_back(5_000, node_ms=8_001)
    assert gaps(beats(one, 8_101)) == {8_192: 1, 128: 1}


def test_nothing_is_given_back_to_whoever_is_not_measured() -> None:
    one = stay(is_heard=False)
    one.give_back(5_000, node_ms=8_000)
    assert gaps(beats(one, 9_000)) == {}


def test_an_hour_that_was_told_is_not_told_again() -> None:
    one = beats(stay(), 3_000, 7_000)
    hour = told(one, WALL_MS + 3_600_000, "hour")
    rest = told(beats(one, 8_000), WALL_MS + 3_700_000)
    assert (hour.heartbeat_count, hour.ended_at_ms, hour.end_reason) == (2, WALL_MS + 3_600_000, "hour")
    assert (rest.started_at_ms, rest.joined_at_ms, rest.heartbeat_count) == (WALL_MS + 3_600_000, WALL_MS, 1)
    assert rest.heartbeat_gap_ms_max == 1_000, "the gap that an hour's end lies in belongs to the hour it ends in"


def test_a_stay_that_ends_by_a_clock_that_is_behind_ends_where_it_began() -> None:
    one = stay()
    first = told(one, at_ms=WALL_MS - 1_200)
    assert first.ended_at_ms == first.started_at_ms
    assert told(one, at_ms=WALL_MS + 90_000).started_at_ms == first.ended_at_ms


def test_a_gap_too_long_for_its_column_is_told_as_the_longest() -> None:
    row = told(beats(stay(), 2**40))
    assert row.heartbeat_gap_ms_max == LONGEST_TOLD_MS
    assert replace(row, heartbeat_gap_histogram=()).heartbeat_count == 1
