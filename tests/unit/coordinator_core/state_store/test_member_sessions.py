"""Heartbeat gaps of a member session exclude time in which the member waited or could not be heard.

Source: tables.md, `member_sessions`.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS
from coordinator_core.protocol.settings import Now
from coordinator_core.state_store.member_sessions import GAP_MAX_MS, NEXT_HEARTBEAT, NO_DEADLINE_MS, MemberSession
from coordinator_core.state_store.rows import MemberSessionRow

WALL_MS = 1_790_000_000_000


def session(*, is_heard: bool = True) -> MemberSession:
    """Return the session of a member whose timer started at 1,000 of node time."""
    one = MemberSession(
        client_id="c",
        client_host="/h",
        group_instance_id=None,
        session_timeout_ms=45_000,
        joined_at_ms=WALL_MS,
        interval_start_ms=WALL_MS,
    )
    if is_heard:
        one.join_phase_ended()
        one.timer_started(1_000, 30_000)
    return one


def session_row(one: MemberSession, at_ms: int = WALL_MS + 90_000, end_reason: str = "left") -> MemberSessionRow:
    return one.close_interval(
        group_id="g",
        shard_id=3,
        group_created_at_ms=7,
        generation=2,
        member_id="a",
        at_ms=at_ms,
        end_reason=end_reason,
    )


def gaps(one: MemberSession) -> dict[int | None, int]:
    """Return bound → how many gaps it counts, of those that count any; None is beyond all."""
    counted = zip((*GAP_BOUNDS_MS, None), session_row(one).heartbeat_gap_histogram or (), strict=True)
    return {bound: count for bound, count in counted if count}


def beats(one: MemberSession, *at_ms: int) -> MemberSession:
    """Let the member be heard at moments of node time, each of which restarts its session."""
    for node_ms in at_ms:
        one.record_activity(Now(node_ms, WALL_MS + node_ms), NO_DEADLINE_MS)
        one.timer_started(node_ms, 30_000)
    return one


def test_session_includes_client_and_heartbeat_statistics() -> None:
    row = session_row(beats(session(), 4_000, 7_500, 10_000))
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
    assert gaps(beats(session(), 4_000, 7_500, 10_000)) == {4_096: 3}


@pytest.mark.parametrize(
    ("gap_ms", "bound_ms"),
    [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (4_096, 4_096), (4_097, 8_192), (2**21, 2**21), (2**21 + 1, None)],
)
def test_a_gap_is_counted_under_the_first_bound_that_it_does_not_exceed(gap_ms: int, bound_ms: int | None) -> None:
    assert gaps(beats(session(), 1_000 + gap_ms)) == {bound_ms: 1}


@given(st.lists(st.integers(0, 5_000_000), min_size=1))
def test_histogram_counts_gaps_above_each_bound(lengths_ms: list[int]) -> None:
    one, node_ms = session(), 1_000
    for length_ms in lengths_ms:
        node_ms += length_ms
        beats(one, node_ms)
    row = session_row(one)
    assert row.heartbeat_gap_histogram is not None
    for place, bound_ms in enumerate(GAP_BOUNDS_MS):
        assert sum(row.heartbeat_gap_histogram[place + 1 :]) == sum(length_ms > bound_ms for length_ms in lengths_ms)
    assert row.heartbeat_gap_ms_max == max(lengths_ms)


def test_a_gap_counts_from_when_the_session_began_again() -> None:
    one = beats(session(), 2_000)
    one.timer_started(9_000, 30_000)
    assert gaps(beats(one, 9_500)) == {1_024: 1, 512: 1}


def test_silence_goes_on_over_the_end_of_an_interval() -> None:
    one = beats(session(), 2_000)
    assert session_row(one).last_heartbeat_at_ms == WALL_MS + 2_000
    after = session_row(one)
    assert (after.last_heartbeat_at_ms, after.heartbeat_count) == (WALL_MS + 2_000, 0)


def test_waiting_for_others_keeps_the_order() -> None:
    one = session()
    one.discard_gap(until=NEXT_HEARTBEAT)
    one.timer_started(200_000, 300_000)
    one.join_phase_ended()
    one.timer_started(400_000, 30_000)
    assert gaps(beats(one, 401_000)) == {1_024: 1}


def test_new_member_has_no_session_before_its_first_join_phase_ends() -> None:
    one = session(is_heard=False)
    one.timer_started(0, 300_000)
    row = session_row(one)
    assert (row.session_timeout_ms, row.heartbeat_count, row.heartbeat_gap_ms_max) == (45_000, 0, None)
    assert row.last_heartbeat_at_ms is None


def test_failover_is_no_heartbeat_gap() -> None:
    one = session(is_heard=False)
    one.timer_started(0, 30_000)
    assert gaps(beats(one, 20_000, 23_000)) == {4_096: 1}


def test_time_of_a_doubtful_lease_is_added_to_sessions() -> None:
    one = beats(session(), 2_000)
    one.exclude_pause(5_000, node_ms=8_000)
    assert gaps(beats(one, 8_500)) == {1_024: 1, 2_048: 1}


def test_activity_before_a_pause_is_noticed_starts_no_gap_in_the_future() -> None:
    one = beats(session(), 8_000)
    one.exclude_pause(5_000, node_ms=8_001)
    assert gaps(beats(one, 8_101)) == {8_192: 1, 128: 1}


def test_unmeasured_members_get_no_time_back() -> None:
    one = session(is_heard=False)
    one.exclude_pause(5_000, node_ms=8_000)
    assert gaps(beats(one, 9_000)) == {}


def test_session_interval_is_written_once() -> None:
    one = beats(session(), 3_000, 7_000)
    hour = session_row(one, WALL_MS + 3_600_000, "hour")
    rest = session_row(beats(one, 8_000), WALL_MS + 3_700_000)
    assert (hour.heartbeat_count, hour.ended_at_ms, hour.end_reason) == (2, WALL_MS + 3_600_000, "hour")
    assert (rest.started_at_ms, rest.joined_at_ms, rest.heartbeat_count) == (WALL_MS + 3_600_000, WALL_MS, 1)
    assert rest.heartbeat_gap_ms_max == 1_000, "the gap that an hour's end lies in belongs to the hour it ends in"


def test_session_that_ends_by_a_slow_clock_ends_where_it_started() -> None:
    one = session()
    first = session_row(one, at_ms=WALL_MS - 1_200)
    assert first.ended_at_ms == first.started_at_ms
    assert session_row(one, at_ms=WALL_MS + 90_000).started_at_ms == first.ended_at_ms


def test_gap_beyond_its_column_is_stored_as_the_maximum() -> None:
    row = session_row(beats(session(), 2**40))
    assert row.heartbeat_gap_ms_max == GAP_MAX_MS
    assert replace(row, heartbeat_gap_histogram=()).heartbeat_count == 1
