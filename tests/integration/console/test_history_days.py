"""Runs: days of history with rows, archive path and outcome; what applying a run of each kind does."""

from uuid import uuid4

from playwright.sync_api import Page, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node


def test_a_run_about_history_shows_its_days(page: Page, node: Node, samples: SampleGroups) -> None:
    run_id = str(uuid4())
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
            " VALUES (%s, 'history_archive', now(), 'applied', '{\"candidates\": 2}')",
            (run_id,),
        )
        cursor.execute(
            "INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at,"
            " outcome) SELECT %s, 'rebalances', '2026-10-01'::date + n, '', 'file:///a/' || n, 1234, '1-1', now(),"
            " CASE n WHEN 0 THEN 'dropped' END FROM generate_series(0, 1) AS n",
            (run_id,),
        )
    page.goto(f"{node.url}/#/maintenance/{run_id}")
    days = page.get_by_role("table", name="Days of history").locator("tbody tr")
    expect(days).to_have_count(2)
    expect(days.first).to_have_text("rebalances2026-10-011,234file:///a/0dropped")
    expect(days.last).to_contain_text("undecided")
    expect(page.locator(".pagination")).to_have_text("2 shown")


def test_a_run_says_before_it_is_applied_whether_that_can_be_undone(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    consequences = {
        "offset_retention": "the change can be undone",
        "group_cleanup": "That cannot be undone",
        "history_archive": "history_restore brings them back",
    }
    for kind, consequence in consequences.items():
        run_id = str(uuid4())
        with samples.rows.cursor() as cursor:
            cursor.execute(
                "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
                " VALUES (%s, %s, now(), 'proposed', '{\"candidates\": 0}')",
                (run_id, kind),
            )
        page.goto(f"{node.url}/#/maintenance/{run_id}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(kind.replace("_", " "))
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("dialog")).to_contain_text(consequence)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
