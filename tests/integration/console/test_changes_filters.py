"""Filters on changes and maintenance runs: actor, action, group, and runs that found nothing."""

import json
import re
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from coordinator_core.state_store.change_actions import ChangeAction
from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node

RUN = (
    "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts) VALUES (%s, 'offset_retention', now(), %s, %s)"
)


@pytest.fixture(scope="module")
def runs(samples: SampleGroups) -> dict[str, str]:
    """Add an applied run that found nothing, one that found something, and changes by two actors."""
    found = {"nothing": 0, "something": 3}
    ids = {name: str(uuid4()) for name in found}
    with samples.rows.cursor() as cursor:
        for name, candidates in found.items():
            cursor.execute(RUN, (ids[name], "applied", json.dumps({"candidates": candidates})))
            cursor.execute(
                "INSERT INTO changes (change_id, at, actor, action, after, reason)"
                " VALUES (%s, now(), 'dag:offset_retention', 'apply_run', %s, %s)",
                (str(uuid4()), json.dumps({"run_id": ids[name], "status": "applying"}), f"found {name}"),
            )
    for actor in ("ada", "grace"):
        body = {"values": {"group_max_size": 40 + len(actor)}, "reason": f"by {actor}"}
        samples.client.ok("PUT", f"/v1/groups/of-{actor}/config", body, {"X-Muster-Actor": actor})
    return ids


def rows(page: Page, table: str = "Changes") -> Locator:
    return page.get_by_role("table", name=table).locator("tbody tr")


def test_changes_are_filtered_by_actor_action_and_group(page: Page, node: Node, runs: dict[str, str]) -> None:
    page.goto(f"{node.url}/#/changes")
    expect(rows(page)).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("GRA")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("by grace")
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    expect(rows(page)).to_have_count(3)

    page.get_by_label("Change", exact=True).select_option("run applied")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("found something")
    page.get_by_label("Group").fill("of-ada")
    expect(page.locator("main")).to_contain_text("No matching changes.")
    page.get_by_label("Change", exact=True).select_option("all")
    expect(rows(page)).to_contain_text("by ada")
    expect(page).to_have_url(f"{node.url}/#/changes?group_id=of-ada")
    page.reload()
    expect(rows(page)).to_have_count(1)


def test_every_action_can_be_picked(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/changes")
    offered = page.get_by_label("Change", exact=True).locator("option")
    assert {each.get_attribute("value") for each in offered.all()} == {"", *ChangeAction}


def test_decisions_on_runs_that_found_nothing_are_hidden(page: Page, node: Node, runs: dict[str, str]) -> None:
    page.goto(f"{node.url}/#/changes")
    expect(rows(page).filter(has_text="found something")).to_have_count(1)
    expect(rows(page).filter(has_text="found nothing")).to_have_count(0)
    page.get_by_label("Maintenance runs that found nothing").check()
    expect(rows(page).filter(has_text="found nothing")).to_have_count(1)


def test_runs_that_found_nothing_are_hidden(
    page: Page, node: Node, samples: SampleGroups, runs: dict[str, str]
) -> None:
    waiting = str(uuid4())
    with samples.rows.cursor() as cursor:
        cursor.execute(RUN, (waiting, "proposed", '{"candidates": 0}'))
    page.goto(f"{node.url}/#/maintenance")
    expect(rows(page, "Maintenance runs")).to_have_count(2)
    expect(rows(page, "Maintenance runs").first).to_contain_text(waiting[:8])
    page.get_by_label("Runs that found nothing").check()
    expect(page.get_by_role("link", name=runs["nothing"][:8])).to_be_visible()
    expect(page).to_have_url(re.compile("empty_runs=true$"))


def test_waiting_run_is_listed_behind_many_newer_runs(page: Page, node: Node, samples: SampleGroups) -> None:
    waiting, newer = str(uuid4()), [str(uuid4()) for _ in range(100)]
    with samples.rows.cursor() as cursor:
        cursor.execute(RUN, (waiting, "proposed", '{"candidates": 3}'))
        for run_id in newer:
            cursor.execute(RUN, (run_id, "rejected", '{"candidates": 3}'))
    page.goto(f"{node.url}/#/maintenance")
    try:
        expect(rows(page, "Maintenance runs").filter(has_text=waiting[:8])).to_have_count(1)
    finally:
        with samples.rows.cursor() as cursor:
            cursor.execute("DELETE FROM maintenance_runs WHERE run_id = ANY(%s::uuid[])", ([waiting, *newer],))
