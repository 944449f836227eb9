"""When a log went past a position, from what is known of its end."""

import pytest

from coordinator_core.protocol.log_ends import CAUGHT_UP, Behind, LogEnd, behind, furthest, total

ENDS = [LogEnd(1_000, 10), LogEnd(2_000, 10), LogEnd(3_000, 20), LogEnd(5_000, 24)]


@pytest.mark.parametrize(
    ("offset", "now_ms", "found"),
    [
        (24, 5_000, CAUGHT_UP),
        (30, 5_000, CAUGHT_UP),
        (22, 5_000, Behind(2, 1_000, is_at_least=False)),
        (20, 5_000, Behind(4, 2_000, is_at_least=False)),
        (15, 5_000, Behind(9, 2_500, is_at_least=False)),
        (10, 5_000, Behind(14, 3_000, is_at_least=False)),
        (9, 5_000, Behind(15, 4_000, is_at_least=True)),
        (20, 4_000, Behind(2, 1_000, is_at_least=False)),
        (20, 9_000, Behind(4, 6_000, is_at_least=False)),
        (10, 1_500, CAUGHT_UP),
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
def test_how_far_a_position_is_behind(offset: int, now_ms: int, found: Behind | None) -> None:
    assert behind(ENDS, offset, now_ms) == found


@pytest.mark.parametrize(
    ("offset", "now_ms", "found"),
    [
        (24, 6_000, CAUGHT_UP),
        (24, 6_001, Behind(0, 0, is_at_least=True, is_stale=True)),
        (20, 6_001, Behind(4, 3_001, is_at_least=True, is_stale=True)),
        (15, 4_500, Behind(8, 2_000)),
    ],
    ids=["just in time", "caught up, when last known", "behind by at least so much", "between two known ends"],
)
def test_an_end_that_was_not_reported_for_longer_than_its_age_is_stale(offset: int, now_ms: int, found: Behind) -> None:
    assert behind(ENDS, offset, now_ms, max_age_ms=1_000) == found
    assert found.is_known == (found != Behind(0, 0, is_at_least=True, is_stale=True))


def test_of_several_partitions_one_stale_end_makes_the_sum_a_lower_bound() -> None:
    stale = Behind(0, 0, is_at_least=True, is_stale=True)
    assert total([]) is None
    assert total([stale, CAUGHT_UP]) == stale
    assert total([stale, Behind(3, 9), Behind(2, 10)]) == Behind(5, 10, is_at_least=True, is_stale=True)
    assert total([Behind(2**63 - 1, 1), Behind(1, 1)]) == Behind(2**63 - 1, 1)


def test_of_two_reporters_the_furthest_end_counts_as_old_as_its_last_report() -> None:
    assert furthest(None, None) is None
    assert furthest(LogEnd(9, 5), None, LogEnd(3, 7), LogEnd(4, 7)) == LogEnd(4, 7)


def test_of_a_log_that_nobody_reported_nothing_is_known() -> None:
    assert behind([], 5, 1_000) is None


def test_a_late_report_of_an_older_end_does_no_harm() -> None:
    ends = [LogEnd(1_000, 10), LogEnd(2_000, 20), LogEnd(3_000, 15), LogEnd(4_000, 30)]
    assert behind(ends, 18, 4_000) == Behind(12, 800, is_at_least=False)
    assert behind(ends, 18, 3_000) == CAUGHT_UP
