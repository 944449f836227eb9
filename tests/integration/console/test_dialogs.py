"""Dialogues: what becomes of a request that is not answered yet, of repeated presses, and of what is entered."""

import re
from collections.abc import Callable, Mapping

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Group, fresh_id, position
from tests.support.nodes import Node

TOO_LATE = {"detail": "no answer within 2000 ms"}


class Held:
    """Requests that are not answered until a test does."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._routes: list[Route] = []
        page.route(url, self._hold)

    def _hold(self, route: Route) -> None:
        self._routes.append(route)

    def wait_for(self, number: int) -> list[Route]:
        """Return so many requests once they were sent."""
        while len(self._routes) < number:
            self._page.evaluate("0")
        return self._routes


@pytest.fixture
def page(unwatched_page: Page) -> Page:
    return unwatched_page


@pytest.fixture
def group(page: Page, node: Node, samples: SampleGroups) -> Group:
    """Open the page of a group without members."""
    group = samples.client.group(fresh_id("decided"))
    samples.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    expect(page.locator("main")).not_to_contain_text("Loading…")
    return group


def toasts(page: Page) -> Locator:
    return page.locator("#toasts")


def test_button_that_is_pressed_twice_opens_one_dialog(page: Page, group: Group) -> None:
    button = page.get_by_role("button", name="Change group_max_size")
    button.evaluate("(button) => { button.click(); button.click(); }")
    expect(page.get_by_label("New value").first).to_be_focused()
    page.evaluate(f"fetch('{group.path}/config').then((answer) => answer.text())")  # comes after both
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def assert_preview_says(page: Page, answers: Mapping[str, str | None]) -> None:
    """Preview the offsets of times, each in a dialogue of its own; `answers` has the refusal of each, None if valid."""
    dialog = page.get_by_role("dialog")
    for time, refusal in answers.items():
        page.get_by_role("button", name="Reset offsets…").click()
        page.get_by_label("To", exact=True).select_option("datetime")
        page.get_by_label("Number of records, offset or time").fill(time)
        page.get_by_role("button", name="Preview").click()
        if refusal is None:
            answer = dialog.get_by_role("alert").or_(page.get_by_role("region", name="Preview"))
            expect(answer, time).not_to_have_text(re.compile("Enter a time|local time"))
        else:
            expect(dialog.get_by_role("alert"), time).to_have_text(refusal)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)


def test_only_times_in_iso_8601_are_accepted(page: Page, group: Group) -> None:
    """A browser reads 03/04/2026 as the fourth of March, and 1234 as a year."""
    refusal = "Enter a time such as 2026-11-21T02:13:00."
    valid = ("2026-11-21", "2026-11-21 02:13", "2026-11-21T02:13:00.5Z", "2026-11-21T02:13+05:30")
    assert_preview_says(page, dict.fromkeys(("03/04/2026", "1234", "Apr 3"), refusal) | dict.fromkeys(valid))


def test_local_time_within_a_change_of_the_clocks_is_refused(
    page: Page, time_zone: Callable[[str], None], group: Group
) -> None:
    """In Berlin 2026-10-25 02:30 is an hour of summer time and one of winter time."""
    advice = "add Z or an offset, as in 2026-11-21T02:13:00+01:00."
    answers = {
        "2026-10-25 02:30": f"This local time occurs twice: {advice}",
        "2026-03-29 02:30": f"This local time does not occur: {advice}",
        "2026-10-25 01:59": None,
        "2026-10-25 03:00": None,
        "2026-10-25 02:30+02:00": None,
        "2026-03-29": None,
    }
    time_zone("Europe/Berlin")
    assert_preview_says(page, answers)


def test_setting_with_choices_shows_the_present_one_and_can_be_reset(page: Page, group: Group) -> None:
    group.client.ok(
        "PUT", f"{group.path}/config", {"values": {"group_sync_timeout_scope": "dynamic"}, "reason": "ours"}
    )
    change = page.get_by_role("button", name="Change group_sync_timeout_scope")
    change.click()
    choice = page.get_by_label("New value").first
    expect(choice).to_have_value("dynamic")
    expect(choice).to_have_accessible_description("Effective within one heartbeat, without a rebalance.")
    choice.select_option("reset to default")
    page.get_by_label("Reason").fill("as the others")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_text("group_sync_timeout_scope updated.")).to_be_visible()
    found = group.client.ok("GET", f"{group.path}/config")["values"]["group_sync_timeout_scope"]
    assert found == {"value": "all", "source": "default"}


def test_answer_for_an_earlier_value_does_not_replace_that_for_a_later_one(page: Page, group: Group) -> None:
    held = Held(page, "**/tuning?*")
    page.get_by_role("button", name="Change session_timeout_ms").click()
    for value in ("15000", "60000"):
        page.get_by_label("New value").fill(value)
        page.get_by_role("button", name="What if?").click()
    requests = held.wait_for(2)
    result = page.locator(".what-if-result")
    for route, value in zip(reversed(requests), ("60 s", "15 s"), strict=True):
        route.fulfill(status=503, json={"detail": f"no history for {value}"})
        expect(result).not_to_have_text(re.compile("Simulating"))
    page.evaluate("fetch('/v1/config').then((answer) => answer.text())")
    expect(result).to_have_text("No history for 60 s.")


def test_run_whose_candidates_are_replaced_meanwhile_is_not_applied(
    page: Page, node: Node, samples: SampleGroups, group: Group
) -> None:
    """A repeated task of the DAG may propose others, which the operator has not seen."""
    run_id = samples.proposal(group)
    page.goto(f"{node.url}/#/maintenance/{run_id}")
    page.get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 candidates are checked again first.")
    with samples.rows.cursor() as cursor:
        cursor.execute("UPDATE maintenance_runs SET counts = '{\"candidates\": 4}' WHERE run_id = %s", (run_id,))
    dialog.get_by_label("Reason").fill("three of them")
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog.get_by_role("alert")).to_have_text("The run has 4 candidates now, not 3: review it again.")


def decide(page: Page, verb: str) -> None:
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a try")
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name=verb, exact=True).click()
    expect(dialog).to_have_count(0)


def set_max_size(group: Group, value: int) -> None:
    group.client.ok("PUT", f"{group.path}/config", {"values": {"group_max_size": value}, "reason": "ours"})


def test_undo_that_restores_nothing_says_so(page: Page, group: Group) -> None:
    set_max_size(group, 7)
    page.get_by_role("button", name="Undo: settings changed").click()
    set_max_size(group, 8)
    decide(page, "Undo")
    expect(toasts(page)).to_have_text("Nothing was restored (newer there: 1).")


def test_undo_of_a_part_says_what_is_kept(page: Page, group: Group) -> None:
    two = [position(5, partition=number) for number in range(2)]
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": two})
    group.client.ok(
        "POST", f"{group.path}/offsets/reset", {"to": "offset", "offset": 3, "dry_run": False, "reason": "back"}
    )
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": two[:1]})
    page.get_by_role("button", name="Undo: offsets reset").click()
    decide(page, "Undo")
    expect(toasts(page)).to_contain_text("Undone in part (newer there: 1).")
    changes = page.get_by_role("table", name="Changes")
    expect(changes).to_contain_text("undone: offsets reset, 2 offsets (newer there: 1)")


def test_form_of_a_setting_does_not_open_on_the_page_of_another_group(
    page: Page, node: Node, samples: SampleGroups, group: Group
) -> None:
    """It does not name the group, so the operator would take it for that of the page."""
    held = Held(page, f"**{group.path}/config")
    page.get_by_role("button", name="Change group_max_size").click()
    held.wait_for(1)
    other = samples.client.group(fresh_id("other"))
    other.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    page.goto(f"{node.url}/#/groups/{other.group_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text(other.group_id)
    for route in held.wait_for(1):
        with page.expect_response(f"**{group.path}/config"):
            route.continue_()
    page.evaluate(f"fetch('{other.path}').then((answer) => answer.text())")
    expect(page.locator("main")).not_to_contain_text("Loading…")
    assert page.get_by_role("dialog").count() == 0
