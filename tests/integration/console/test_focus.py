"""The focus of a keyboard user outlasts redraws, dialogues and the link that skips the header."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Group, fresh_id, position
from tests.support.nodes import Node


@pytest.fixture
def group(samples: SampleGroups) -> Group:
    group = samples.client.group(fresh_id("focused"))
    commit(group, 1)
    return group


def commit(group: Group, lag: int) -> None:
    offsets = [position(1, log_end_offset=1 + lag)]
    group.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})


def lag_in(row: Locator) -> Locator:
    return row.locator("td").nth(3)


def test_link_in_a_list_keeps_the_focus_while_the_list_refreshes(page: Page, node: Node, group: Group) -> None:
    page.goto(f"{node.url}/#/?q={group.group_id}")
    row = page.locator("tbody tr")
    link = row.get_by_role("link", name=group.group_id)
    expect(lag_in(row)).to_have_text("1")
    link.focus()
    commit(group, 27)
    expect(lag_in(row)).to_have_text("27")
    expect(link).to_be_focused()


def test_candidate_of_a_run_keeps_the_focus_while_the_run_refreshes(
    page: Page, node: Node, samples: SampleGroups, group: Group
) -> None:
    run_id = samples.proposal(group)
    page.goto(f"{node.url}/#/maintenance/{run_id}")
    rows = page.get_by_role("table", name="Candidates").locator("tbody tr")
    expect(rows).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    with samples.rows.cursor() as cursor:
        cursor.execute("UPDATE expiry_candidates SET outcome = 'not_due' WHERE run_id = %s", (run_id,))
    expect(rows.nth(1)).to_contain_text("not due")
    expect(rows.nth(1)).to_be_focused()


def test_closed_dialog_returns_the_focus_to_a_button_that_was_redrawn(
    page: Page, node: Node, samples: SampleGroups, group: Group
) -> None:
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    opener = page.get_by_role("button", name="Change group_max_size")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("New value")).to_be_focused()
    values = {"values": {"group_max_size": 4_321}, "reason": "beside the page"}
    samples.client.ok("PUT", f"{group.path}/config", values)
    expect(page.get_by_role("table", name="Settings", include_hidden=True)).to_contain_text("4,321")
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()


def test_link_that_skips_the_header_keeps_the_page(page: Page, node: Node, group: Group) -> None:
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(group.group_id)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(heading).to_have_text(group.group_id)
    expect(page).to_have_url(re.compile(f"#/groups/{group.group_id}$"))
