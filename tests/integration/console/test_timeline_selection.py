"""A time selected on the timeline narrows the rebalances and the member sessions."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.console.boxes import box_of, boxes_of
from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Group, position
from tests.support.nodes import Node

PAST = """
INSERT INTO group_transitions (group_id, shard_id, group_created_at, at, generation, from_state, to_state, reason)
SELECT group_id, shard_id, created_at, now() - interval '23 hours', 1, 'Empty', 'Stable', 'test'
FROM groups WHERE group_id = %(group_id)s;
INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, client_reason,
    started_at, completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)
SELECT gen_random_uuid(), group_id, shard_id, created_at, 1, 'member_joined', said, at - interval '1 min', at,
    'completed', 0, 1, 1, 0
FROM (VALUES ('long ago', now() - interval '20 hours'), ('lately', now() - interval '1 hour')) AS past (said, at),
    groups WHERE group_id = %(group_id)s;
INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,
    session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,
    heartbeat_gap_histogram)
SELECT group_id, shard_id, created_at, name, name, 'here', 1, 9000, at - interval '1 min', at - interval '1 min', at,
    'left', at, 1, array_fill(0, ARRAY[23])
FROM (VALUES ('early', now() - interval '20 hours'), ('late', now() - interval '1 hour')) AS past (name, at),
    groups WHERE group_id = %(group_id)s
"""
"""Both ended in the first and in the last sixth of a day: far from where the tests begin and end a selection."""


@pytest.fixture(scope="module")
def group(samples: SampleGroups) -> Group:
    group = samples.client.group("of-a-day")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    with samples.rows.cursor() as cursor:
        cursor.execute(PAST, {"group_id": group.group_id})
    return group


@pytest.fixture
def timeline(page: Page, node: Node, group: Group) -> Locator:
    """Open the group's page with a timeline of 24 hours; return its chart."""
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    expect(rebalances(page)).to_have_count(2)
    page.get_by_role("button", name="24 h", exact=True).click()
    expect(page.get_by_role("region", name=re.compile("^Timeline"))).to_contain_text("2 rebalances in the last 1 d")
    return page.get_by_role("group", name=re.compile("^Timeline"))


def rebalances(page: Page) -> Locator:
    return page.get_by_role("region", name=re.compile("^Rebalances")).locator("ol li")


def sessions(page: Page) -> Locator:
    return page.get_by_role("table", name="Ended member sessions").locator("tbody tr")


def drag(page: Page, timeline: Locator, start: float, end: float) -> None:
    """Drag from one share of the time axis to another one, which begins beside the labels."""
    timeline.scroll_into_view_if_needed()
    box = box_of(timeline)
    left, width, middle = box.left + 190, box.width - 190, box.top + 30
    page.mouse.move(left + start * width, middle)
    page.mouse.down()
    page.mouse.move(left + end * width, middle, steps=3)
    page.mouse.up()


def test_dragging_narrows_the_lists_and_escape_clears(page: Page, timeline: Locator) -> None:
    drag(page, timeline, 0.02, 0.5)
    expect(rebalances(page)).to_have_count(1)
    expect(rebalances(page)).to_contain_text("long ago")
    expect(sessions(page)).to_have_count(1)
    expect(sessions(page)).to_contain_text("early")
    expect(page.get_by_role("status").filter(has_text="Selected:")).to_be_visible()

    drag(page, timeline, 0.99, 0.5)
    expect(rebalances(page)).to_contain_text("lately")
    expect(sessions(page)).to_contain_text("late")

    page.keyboard.press("Escape")
    expect(rebalances(page)).to_have_count(2)
    expect(sessions(page)).to_have_count(2)
    expect(page.locator(".timeline .brush")).to_have_count(0)


def test_arrow_keys_select_and_the_selection_outlasts_a_refresh(page: Page, timeline: Locator) -> None:
    timeline.focus()
    page.keyboard.press("ArrowLeft")
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    expect(rebalances(page)).to_have_count(1)
    expect(rebalances(page)).to_contain_text("lately")
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    expect(rebalances(page)).to_have_count(0)
    expect(page.locator("main")).to_contain_text("No rebalance in the selected time")
    expect(page.locator("main")).to_contain_text("No member session ended in the selected time")

    with page.expect_response(re.compile("/rebalances")):
        pass
    expect(timeline).to_be_focused()
    expect(page.locator(".timeline .brush")).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(rebalances(page)).to_have_count(2)


def test_click_without_dragging_selects_nothing(page: Page, timeline: Locator) -> None:
    drag(page, timeline, 0.02, 0.5)
    expect(page.locator(".timeline .brush")).to_have_count(1)
    drag(page, timeline, 0.3, 0.3)
    expect(page.locator(".timeline .brush")).to_have_count(0)
    expect(rebalances(page)).to_have_count(2)


def test_times_do_not_overlap_in_a_narrow_window(page: Page, timeline: Locator) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_role("button", name="5 min", exact=True).click()
    expect(timeline.locator(".tick").nth(1)).to_be_visible()
    ticks = boxes_of(timeline.locator(".tick"))
    assert all(left.right < right.left for left, right in pairwise(ticks)), ticks
