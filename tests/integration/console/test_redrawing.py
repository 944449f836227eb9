"""What a user does with the pointer outlasts a redraw of the page: a click, and a selection of text."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.console.sample_groups import LONG_MS, SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Member, fresh_id, position
from tests.support.nodes import Node

SELECTED = "() => getSelection().toString()"

ENDED_SESSIONS = """
INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,
    session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,
    heartbeat_gap_histogram)
SELECT group_id, shard_id, created_at, 'm-' || n, 'client', 'here', 1, 9000, at - interval '1 min',
    at - interval '1 min', at, 'left', at, 1, array_fill(0, ARRAY[23])
FROM generate_series(%(first)s, 13) AS n CROSS JOIN LATERAL (SELECT now() - n * interval '1 min' AS at) AS past, groups
WHERE group_id = %(group_id)s
"""


@pytest.fixture
def member(samples: SampleGroups) -> Member:
    timeouts = {"session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS}
    group = samples.client.group(fresh_id("redrawn"))
    return group.stable(group.group_id, **timeouts)


@pytest.fixture
def row(page: Page, node: Node, member: Member) -> Locator:
    """Open the group's page; return the row of its member."""
    page.goto(f"{node.url}/#/groups/{member.group.group_id}")
    row = page.get_by_role("region", name=re.compile("^Members")).locator("tbody tr")
    expect(row).to_have_count(1)
    expect(page.locator("main")).not_to_contain_text("Loading…")  # what loads moves the row
    return row


def lag_in(row: Locator) -> Locator:
    return row.locator("td").nth(6)


def change(page: Page, member: Member, lag: int) -> None:
    """Change the member's lag, and return once the page has loaded it."""
    assert member.commit(position(1, topic=member.group.group_id, log_end_offset=1 + lag)).status == 200
    for _ in range(2):  # the first may have been on its way
        with page.expect_response(re.compile("/lag$")):
            pass


def test_button_that_is_pressed_over_a_redraw_is_clicked(page: Page, row: Locator, member: Member) -> None:
    row.get_by_role("button").hover()
    page.mouse.down()
    change(page, member, lag=17)
    change(page, member, lag=18)
    page.mouse.up()
    expect(page.get_by_role("dialog")).to_contain_text("Remove")
    expect(lag_in(row)).to_have_text("18")


def test_all_partitions_are_shown_of_the_group_where_that_was_chosen(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    chosen, other = (samples.client.group(fresh_id("wide")) for _ in range(2))
    for group in (chosen, other):
        offsets = [position(1, topic="wide", partition=number) for number in range(30)]
        group.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
    table = page.get_by_role("table", name="Offsets").locator("tbody tr")
    page.goto(f"{node.url}/#/groups/{chosen.group_id}")
    page.get_by_role("button", name="Show all 30 partitions").click()
    expect(table).to_have_count(30)
    page.evaluate("(hash) => { location.hash = hash; }", f"#/groups/{other.group_id}")
    expect(table).to_have_count(25)
    expect(page.get_by_role("button", name="Show all 30 partitions")).to_be_visible()


def test_all_member_sessions_are_shown_once_that_was_chosen(page: Page, node: Node, samples: SampleGroups) -> None:
    group = samples.client.group(fresh_id("sessions"))
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    with samples.rows.cursor() as cursor:
        cursor.execute(ENDED_SESSIONS, {"group_id": group.group_id, "first": 1})
    table = page.get_by_role("table", name="Ended member sessions").locator("tbody tr")
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    expect(table).to_have_count(12)
    page.get_by_role("button", name="Show the last 13 member sessions").click()
    expect(table).to_have_count(13)
    with samples.rows.cursor() as cursor:
        cursor.execute(ENDED_SESSIONS, {"group_id": group.group_id, "first": 13})
    expect(table).to_have_count(14)
    expect(page.get_by_role("button", name="Show the last")).to_have_count(0)


def test_time_range_that_is_pressed_over_a_redraw_is_chosen(page: Page, row: Locator) -> None:
    choice = page.get_by_role("button", name="15 min", exact=True)
    choice.hover()
    page.mouse.down()
    for _ in range(2):
        with page.expect_response(re.compile(r"/rebalances\?")):
            pass
    page.mouse.up()
    expect(choice).to_have_attribute("aria-pressed", "true")


def test_selected_text_is_selected_after_a_redraw(page: Page, row: Locator, member: Member) -> None:
    host = row.locator("td").nth(1)
    host.select_text()
    selected = page.evaluate(SELECTED)
    assert selected == host.text_content()
    change(page, member, lag=19)
    expect(lag_in(row)).to_have_text("19")
    assert page.evaluate(SELECTED) == selected


def test_text_that_changes_is_selected_no_longer(page: Page, row: Locator, member: Member) -> None:
    change(page, member, lag=23)
    expect(lag_in(row)).to_have_text("23")
    lag_in(row).select_text()
    assert page.evaluate(SELECTED) == "23"
    change(page, member, lag=29)
    expect(lag_in(row)).to_have_text("29")
    assert page.evaluate(SELECTED) == ""
