"""Counts of a maintenance run are a table with words; its change is undone where that restores something."""

import json
import re
from uuid import uuid4

from playwright.sync_api import Locator, Page, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node
from tests.support.repository import ROOT

COMMENT = re.compile(
    r"COLUMN (?:expiry|cleanup|archive)_candidates\.(?:reason|outcome) IS '(.*)';$", flags=re.MULTILINE
)


def add_run(samples: SampleGroups, counts: dict[str, int]) -> str:
    run_id = str(uuid4())
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
            " VALUES (%s, 'offset_retention', now(), 'applied', %s)",
            (run_id, json.dumps(counts)),
        )
    return run_id


def test_counts_are_a_table_with_words(page: Page, node: Node, samples: SampleGroups) -> None:
    counts = {"candidates": 1_200, "of": 48_000, "largest_group_permille": 731, "group_empty": 1_200, "not_due": 7}
    page.goto(f"{node.url}/#/maintenance/{add_run(samples, counts)}")

    rows = page.get_by_role("table", name="Counts").locator("tbody tr")
    expect(rows).to_have_text(
        [
            re.compile("^Candidates1,200what the run proposes to change"),
            re.compile("^Examined48,000all offsets"),
            re.compile(r"^Largest share of a group73\.1 %"),
            "Candidates by reason",
            re.compile("^Group empty1,200the group has had no members"),
            "Candidates by outcome",
            re.compile("^Not due7kept: no longer due"),
        ]
    )


def test_every_reason_and_outcome_has_words(page: Page, node: Node, samples: SampleGroups) -> None:
    comments = COMMENT.findall((ROOT / "migrations" / "comments" / "tables.sql").read_text())
    names = {name for comment in comments for name in re.findall("`([a-z_]+)`", comment)}
    assert len(comments) == 5
    assert {"own_expiry", "expired", "retired", "dropped"} <= names
    page.goto(f"{node.url}/#/maintenance/{add_run(samples, dict.fromkeys(names, 1))}")

    table = page.get_by_role("table", name="Counts")
    expect(table.locator("tbody td.number")).to_have_count(len(names))
    expect(table).not_to_contain_text("Other counts")


def test_count_without_words_is_listed_by_its_name(page: Page, node: Node, samples: SampleGroups) -> None:
    page.goto(f"{node.url}/#/maintenance/{add_run(samples, {'': 1, '__proto__': 2, 'of_a_later_release': 3})}")
    table = page.get_by_role("table", name="Counts")
    expect(table).to_contain_text("Other counts")
    expect(table).to_contain_text("Of a later release3")


UNDOS = {"proposed offset_retention": 1, "applying offset_retention": 0, "proposed group_cleanup": 0}
"""A run's status before it was applied and its kind → how many buttons undo the change."""


def test_undo_is_offered_for_runs_that_removed_offsets(page: Page, node: Node, samples: SampleGroups) -> None:
    for run, undos in UNDOS.items():
        status, kind = run.split()
        change = _change(page, node, samples, status, kind)
        expect(change).to_have_count(1)
        expect(change).to_contain_text(kind)
        expect(change.get_by_role("button", name=re.compile("Undo")), run).to_have_count(undos)


def _change(page: Page, node: Node, samples: SampleGroups, status: str, kind: str) -> Locator:
    """Add the change of a run of this kind, which had this status before, and show it."""
    row = {"change_id": str(uuid4()), "before": {"status": status}, "after": {"status": "applying", "kind": kind}}
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO changes (change_id, at, actor, action, before, after)"
            " VALUES (%(change_id)s, now(), %(change_id)s, 'apply_run', %(before)s, %(after)s)",
            {key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()},
        )
    page.goto(f"{node.url}/#/changes?actor={row['change_id']}")
    return page.get_by_role("table", name="Changes").locator("tbody tr", has_text=str(row["change_id"]))
