"""Counts of a maintenance run: a table with words."""

import json
import re
from uuid import uuid4

from playwright.sync_api import Page, expect

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
