"""docs/behaviour.md names existing scenarios and tests only, and every story of three consumers."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from tests.support.repository import ROOT
from tests.system.conformance.scenarios import load_scenarios

PAGE = (ROOT / "docs" / "behaviour.md").read_text()

ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| claim |", "| story |"))]
TESTS = {
    name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", path.read_text())
}
SCENARIOS = {scenario.scenario_id for scenario in load_scenarios()}


def shown_by(row: str) -> list[str]:
    return re.findall(r"`([^`]+)`", row.rsplit("|", maxsplit=2)[1])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_claim_names_an_existing_test_or_scenario(row: str) -> None:
    names = shown_by(row)

    assert names
    assert [name for name in names if name not in TESTS | SCENARIOS] == []


def test_every_scenario_and_story_of_the_articles_is_on_the_page() -> None:
    named = set(chain.from_iterable(map(shown_by, ROWS)))
    stories = (ROOT / "tests" / "system" / "e2e" / "stories").glob("test_three_consumers.py")
    reported = {name for path in stories for name in re.findall(r"def (test_\w+)\(", path.read_text())}

    assert {scenario for scenario in SCENARIOS if scenario.startswith("SEED-")} - named == set()
    assert reported - named == set()
