"""When a log went past a position, from what is known of its end."""

import pytest

from coordinator_core.protocol.log_ends import CAUGHT_UP, Behind, LogEnd, behind

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


def test_of_a_log_that_nobody_reported_nothing_is_known() -> None:
    assert behind([], 5, 1_000) is None


def test_a_late_report_of_an_older_end_does_no_harm() -> None:
    ends = [LogEnd(1_000, 10), LogEnd(2_000, 20), LogEnd(3_000, 15), LogEnd(4_000, 30)]
    assert behind(ends, 18, 4_000) == Behind(12, 800, is_at_least=False)
    assert behind(ends, 18, 3_000) == CAUGHT_UP
