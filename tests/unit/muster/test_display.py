"""Words for the terminal: durations, names with their control characters escaped."""

import pytest

from coordinator_core.queries import activity
from muster import display
from tests.support.repository import ROOT


@pytest.mark.parametrize(
    ("member_id", "client_id"),
    [("billing-1-0e984725-c51c-4bf4-9960-e1c80e27aba0", "billing-1"), ("odd", "odd"), (None, None)],
)
def test_a_member_id_begins_with_the_client_id(member_id: str | None, client_id: str | None) -> None:
    assert display.client_id_of(member_id) == client_id


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (59.6, "1 min"),
        (90, "2 min"),
        (3_599, "1 h"),
        (7_200, "2 h"),
        (86_399, "1 day"),
        (90_000, "1 day"),
        (172_800, "2 days"),
    ],
)
def test_duration_is_printed_in_one_unit(seconds: float, words: str) -> None:
    assert display.duration(seconds) == words


def test_control_characters_in_names_are_escaped() -> None:
    assert display.printable("\x1b[2Jgone\n") == "�[2Jgone�"


def test_group_is_flapping_by_one_limit_in_the_api_the_commands_and_the_console() -> None:
    labels = (ROOT / "api/console/static/labels.js").read_text()
    assert f"export const FLAPPING_REBALANCES = {display.FLAPPING_REBALANCES};" in labels
    assert display.FLAPPING_REBALANCES == activity.FLAPPING_REBALANCES
