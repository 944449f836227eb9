"""Counts of maintenance runs: in the words of the console, by outcome in a line, and in full in a table."""

import re

import pytest

from muster.run_counts import OUTCOMES, REASONS, SIZE, counts_line, counts_rows
from tests.support.repository import ROOT

CONSOLE = ROOT / "api/console/static/run_counts.js"


def words(name: str) -> list[tuple[str, ...]]:
    """Return the texts of each entry of one of the console's maps."""
    (body,) = re.findall(rf"const {name} = new Map\(\[(.*?)\n\]\);", CONSOLE.read_text(), re.DOTALL)
    return [tuple(re.findall(r'"([^"]*)"', line)) for line in body.splitlines()[1:]]


def test_the_words_are_those_of_the_console() -> None:
    assert [(key, *texts) for key, texts in SIZE.items()] == words("SIZE")
    assert list(REASONS.items()) == words("REASONS")
    assert list(OUTCOMES.items()) == words("OUTCOMES")


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({"candidates": 3, "of": 63, "groups": 1, "simple_group": 3}, "3 candidates"),
        (
            {"candidates": 3, "groups": 1, "simple_group": 3, "expired": 2, "committed_since": 1, "undecided": 0},
            "1 committed since, 2 expired",
        ),
        ({}, "0 candidates"),
    ],
    ids=["proposed", "applied", "none"],
)
def test_candidates_are_listed_by_outcome_alone(counts: dict[str, int], line: str) -> None:
    assert counts_line({"counts": counts}) == line


def test_every_count_is_shown_with_its_meaning() -> None:
    counts = {"simple_group": 1, "expired": 1, "largest_group_permille": 25, "of": 6_300, "new_one": 4}

    assert [row[:2] for row in counts_rows(counts)] == [
        ("Examined", "6,300"),
        ("Largest share of a group", "2.5 %"),
        ("Reason: simple group", "1"),
        ("Outcome: expired", "1"),
        ("New one", "4"),
    ]
    assert [bool(meaning) for *_, meaning in counts_rows(counts)] == [True] * 4 + [False]
