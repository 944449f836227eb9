"""When a log went past a committed offset, computed from its known ends."""

import pytest

from coordinator_core.protocol.log_ends import NO_LAG, Lag, LogEnd, lag_at, latest_log_end, total_lag

END_REASONS = [LogEnd(1_000, 10), LogEnd(2_000, 10), LogEnd(3_000, 20), LogEnd(5_000, 24)]


@pytest.mark.parametrize(
    ("offset", "now_ms", "found"),
    [
        (24, 5_000, NO_LAG),
        (30, 5_000, NO_LAG),
        (22, 5_000, Lag(2, 1_000, is_lower_bound=False)),
        (20, 5_000, Lag(4, 2_000, is_lower_bound=False)),
        (15, 5_000, Lag(9, 2_500, is_lower_bound=False)),
        (10, 5_000, Lag(14, 3_000, is_lower_bound=False)),
        (9, 5_000, Lag(15, 4_000, is_lower_bound=True)),
        (20, 4_000, Lag(2, 1_000, is_lower_bound=False)),
        (20, 9_000, Lag(4, 6_000, is_lower_bound=False)),
        (10, 1_500, NO_LAG),
        (10, 999, None),
    ],
    ids=[
        "at the end",
        "beyond what was reported",
        "between two reports",
        "at a report",
        "in the middle",
        "where the log stood still, since it went on",
        "before all that is known",
        "between two reports, seen before the last",
        "long after the last report",
        "while the log stood still",
        "before anything was known",
    ],
)
def test_lag_is_computed_from_log_ends(offset: int, now_ms: int, found: Lag | None) -> None:
    assert lag_at(END_REASONS, offset, now_ms) == found


@pytest.mark.parametrize(
    ("offset", "now_ms", "found"),
    [
        (24, 6_000, NO_LAG),
        (24, 6_001, Lag(0, 0, is_lower_bound=True, is_stale=True)),
        (20, 6_001, Lag(4, 3_001, is_lower_bound=True, is_stale=True)),
        (12, 2_500, Lag(3, 300)),
        (15, 4_500, Lag(8, 2_000, is_stale=True)),
    ],
    ids=[
        "just in time",
        "caught up, when last known",
        "behind by at least so much",
        "between two ends",
        "long after one",
    ],
)
def test_log_end_older_than_its_age_limit_is_stale(offset: int, now_ms: int, found: Lag) -> None:
    assert lag_at(END_REASONS, offset, now_ms, max_age_ms=1_000) == found
    assert found.is_known == (found != Lag(0, 0, is_lower_bound=True, is_stale=True))


def test_one_stale_log_end_makes_the_sum_a_lower_bound() -> None:
    stale = Lag(0, 0, is_lower_bound=True, is_stale=True)
    assert total_lag([]) is None
    assert total_lag([stale, NO_LAG]) == stale
    assert total_lag([stale, Lag(3, 9), Lag(2, 10)]) == Lag(5, 10, is_lower_bound=True, is_stale=True)
    assert total_lag([Lag(2**63 - 1, 1), Lag(1, 1)]) == Lag(2**63 - 1, 1)


def test_age_of_the_furthest_log_end_is_since_its_last_report() -> None:
    assert latest_log_end(None, None) is None
    assert latest_log_end(LogEnd(9, 5), None, LogEnd(3, 7), LogEnd(4, 7)) == LogEnd(4, 7)


def test_unreported_log_has_no_known_end() -> None:
    assert lag_at([], 5, 1_000) is None


def test_late_report_of_an_older_log_end_is_ignored() -> None:
    ends = [LogEnd(1_000, 10), LogEnd(2_000, 20), LogEnd(3_000, 15), LogEnd(4_000, 30)]
    assert lag_at(ends, 18, 4_000) == Lag(12, 800, is_lower_bound=False)
    assert lag_at(ends, 18, 3_000) == NO_LAG
