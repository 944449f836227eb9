"""Laws of the time lag: exact where a log grows evenly, monotonic, and never invented."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from coordinator_core.protocol import log_ends
from coordinator_core.protocol.log_ends import NO_LAG, Lag, LogEnd, monotonic_log_ends
from tests.support.log_ends import relevant_log_ends

FOR_EVER_MS = 2**60
lag_at = partial(log_ends.lag_at, max_age_ms=FOR_EVER_MS)

INSTANTS = st.integers(0, 10**6)
GROWTHS = st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 1_000)), max_size=20)


@st.composite
def logs(draw: st.DrawFn) -> list[LogEnd]:
    """Return ends of a log that never shrinks, by time."""
    ends = [LogEnd(draw(INSTANTS), draw(st.integers(0, 1_000)))]
    for later_ms, grown in draw(GROWTHS):
        ends.append(LogEnd(ends[-1].at_ms + later_ms, ends[-1].offset + grown))
    return ends


@given(
    rate=st.integers(1, 50),
    instants=st.lists(st.integers(0, 10_000), min_size=2, unique=True).map(sorted),
    data=st.data(),
)
def test_time_lag_of_an_evenly_growing_log_is_exact(rate: int, instants: list[int], data: st.DataObject) -> None:
    ends = [LogEnd(at_ms, rate * at_ms) for at_ms in instants]
    now_ms = data.draw(st.integers(instants[0], instants[-1]))
    read_ms = data.draw(st.integers(instants[0], now_ms))

    assert lag_at(ends, rate * read_ms, now_ms) == Lag(rate * (now_ms - read_ms), now_ms - read_ms, False)


@given(ends=logs(), offset=st.integers(0, 30_000), further=st.integers(0, 100), later_ms=st.integers(0, 10**6))
def test_lag_grows_in_records_and_in_time(ends: list[LogEnd], offset: int, further: int, later_ms: int) -> None:
    now_ms = ends[0].at_ms + later_ms
    ahead, after = lag_at(ends, offset + further, now_ms), lag_at(ends, offset, now_ms)

    assert ahead is not None
    assert after is not None
    assert after.records >= ahead.records
    assert after.ms >= ahead.ms
    assert after.records <= ahead.records + further


@given(ends=logs(), offset=st.integers(0, 30_000), now_ms=st.integers(0, 2 * 10**6))
def test_time_lag_is_limited_by_known_history_and_0_once_caught_up(
    ends: list[LogEnd], offset: int, now_ms: int
) -> None:
    found = lag_at(ends, offset, now_ms)
    if now_ms < ends[0].at_ms:
        assert found is None
        return
    assert found is not None
    assert 0 <= found.ms <= now_ms - ends[0].at_ms
    assert (found == NO_LAG) == (found.records == 0)
    assert found.is_lower_bound == (found.records > 0 and offset < ends[0].offset)


@given(ends=logs(), offset=st.integers(0, 30_000), later_ms=st.integers(0, 10**6))
def test_relevant_log_ends_give_the_lag_of_all_log_ends(ends: list[LogEnd], offset: int, later_ms: int) -> None:
    """A store needs only the last log end at or before an offset, the first one after it, and the last."""
    now_ms = ends[-1].at_ms + later_ms

    assert lag_at(relevant_log_ends(ends, offset), offset, now_ms) == lag_at(ends, offset, now_ms)


@given(ends=logs(), shares=st.lists(st.booleans(), min_size=21, max_size=21), offset=st.integers(0, 30_000))
def test_two_reporters_of_one_log_give_the_same_lag_as_one(ends: list[LogEnd], shares: list[bool], offset: int) -> None:
    mine = [end for end, is_mine in zip(ends, shares, strict=False) if is_mine]
    theirs = [end for end, is_mine in zip(ends, shares, strict=False) if not is_mine]
    merged = monotonic_log_ends([*relevant_log_ends(mine, offset), *relevant_log_ends(theirs, offset)])

    assert lag_at(merged, offset, ends[-1].at_ms) == lag_at(ends, offset, ends[-1].at_ms)


@given(ends=logs(), offset=st.integers(0, 30_000), later_ms=st.integers(0, 10**6), max_age_ms=st.integers(0, 10**6))
def test_stale_log_end_makes_lag_a_lower_bound(ends: list[LogEnd], offset: int, later_ms: int, max_age_ms: int) -> None:
    now_ms = ends[-1].at_ms + later_ms
    fresh, found = lag_at(ends, offset, now_ms), log_ends.lag_at(ends, offset, now_ms, max_age_ms)

    assert fresh is not None
    assert found is not None
    assert found.is_stale == (later_ms > max_age_ms)
    assert (found.records, found.ms) == (fresh.records, fresh.ms)
    assert found.is_lower_bound == (fresh.is_lower_bound or found.is_stale)
    assert found.is_known == (found.records > 0 or not found.is_stale)


@given(ends=st.lists(st.builds(LogEnd, st.integers(0, 50), st.integers(0, 50))))
def test_log_end_never_decreases(ends: list[LogEnd]) -> None:
    found = monotonic_log_ends(ends)

    assert found == sorted(found)
    assert [end.offset for end in found] == sorted(end.offset for end in found)
    assert max((end.offset for end in ends), default=None) == (found[-1].offset if found else None)


@given(ends=logs(), offset=st.integers(0, 30_000), stands_ms=st.integers(0, 10**6))
def test_time_lag_of_a_stopped_consumer_grows_with_time(ends: list[LogEnd], offset: int, stands_ms: int) -> None:
    before, after = lag_at(ends, offset, ends[-1].at_ms), lag_at(ends, offset, ends[-1].at_ms + stands_ms)

    assert before is not None
    assert after is not None
    assert (after.records, after.ms) == (before.records, before.ms + (stands_ms if before.records else 0))
