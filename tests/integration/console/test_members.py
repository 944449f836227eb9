"""The members of a large group: filter, sort order, and a screen that fits them."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, Route, ViewportSize, expect

from tests.integration.console.boxes import box_of, boxes_of
from tests.integration.console.sample_groups import SampleGroups
from tests.support.http_client import Group
from tests.support.nodes import Node
from tests.support.waiting import poll_until

MEMBERS = 60
TARGET_PX = 24
"""Source: WCAG 2.2, 2.5.8."""
HIT_HEIGHT = """(button) => {
    const { left, top, width, height } = button.getBoundingClientRect();
    const hits = (y) => document.elementFromPoint(left + width / 2, y) === button;
    return Array.from({ length: Math.ceil(height) }, (_, index) => top + index + 0.5).filter(hits).length;
}"""
"""How many pixels of the middle of a button a pointer reaches."""
SCREEN = ViewportSize(width=1_920, height=950)
"""A common screen of 1920 x 1080, less the browser's frame."""


@pytest.fixture(scope="module")
def large(samples: SampleGroups) -> Group:
    return samples.large(MEMBERS, "of-the-large-group")


@pytest.fixture
def members(page: Page, node: Node, large: Group) -> Locator:
    """Open the group's page; return its section of members."""
    page.goto(f"{node.url}/#/groups/{large.group_id}")
    members = page.get_by_role("region", name=re.compile("^Members"))
    expect(members.locator("tbody tr")).to_have_count(MEMBERS)
    return members


def sort_by(members: Locator, title: str) -> None:
    members.get_by_role("button", name=title).click()


def expect_order(members: Locator, first: str, last: str) -> None:
    expect(members.locator("tbody tr").first).to_contain_text(re.compile(rf"^{first} "))
    expect(members.locator("tbody tr").last).to_contain_text(re.compile(rf"^{last} "))


def test_sixty_members_fit_on_one_screen(page: Page, members: Locator) -> None:
    page.set_viewport_size(SCREEN)
    contents = page.get_by_role("navigation", name="On this page")
    contents.get_by_role("button", name="Members").click()
    expect(members.get_by_role("heading")).to_be_focused()
    assert box_of(members.get_by_role("heading")).top >= box_of(contents).bottom
    rows = members.locator("tbody tr")
    poll_until(lambda: max(each.bottom for each in boxes_of(rows)) <= SCREEN["height"])  # Notices come and go.


def test_button_of_a_dense_row_is_a_whole_target_while_the_row_has_the_pointer(page: Page, members: Locator) -> None:
    row = members.locator("tbody tr").nth(MEMBERS // 2)
    button = row.get_by_role("button")
    expect(button).to_have_css("opacity", "0")
    row.locator("td").first.hover()
    expect(button).to_have_css("opacity", "1")
    poll_until(lambda: button.evaluate(HIT_HEIGHT) >= TARGET_PX)
    page.mouse.move(0, 0)
    button.focus()
    expect(button).to_have_css("opacity", "1")
    poll_until(lambda: button.evaluate(HIT_HEIGHT) >= TARGET_PX)


def test_members_are_sorted_by_a_column_in_both_directions(members: Locator) -> None:
    partitions = members.get_by_role("columnheader", name="Partitions")
    sort_by(members, "Partitions")
    expect_order(members, "worker-60", "worker-1")
    expect(partitions).to_have_attribute("aria-sort", "descending")
    sort_by(members, "Partitions")
    expect_order(members, "worker-1", "worker-60")
    expect(partitions).to_have_attribute("aria-sort", "ascending")
    sort_by(members, "Partitions")
    expect(members.locator("[aria-sort]")).to_have_count(0)


def test_names_are_sorted_by_their_numbers(members: Locator) -> None:
    expect_order(members, "worker-1", "worker-60")
    sort_by(members, "Member")
    expect_order(members, "worker-1", "worker-60")
    expect(members.locator("tbody tr").nth(1)).to_contain_text(re.compile("^worker-2 "))
    sort_by(members, "Member")
    expect_order(members, "worker-60", "worker-1")


def test_filter_keeps_matching_members_while_the_page_refreshes(page: Page, members: Locator) -> None:
    page.keyboard.press("/")
    page.keyboard.type("WORKER-4")
    expect(members.locator("tbody tr")).to_have_count(11)
    expect(members.get_by_role("status")).to_have_text("11 of 60 members")
    with page.expect_response(re.compile("/lag$")):
        pass
    expect(members.locator("tbody tr")).to_have_count(11)
    expect(members.get_by_label(re.compile("Filter"))).to_be_focused()
    page.keyboard.type("no such")
    expect(members).to_contain_text("No matching members.")


def test_small_group_has_no_filter(page: Page, node: Node, samples: SampleGroups) -> None:
    page.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    members = page.get_by_role("region", name=re.compile("^Members"))
    expect(members.locator("tbody tr")).to_have_count(2)
    expect(members.get_by_label(re.compile("Filter"))).to_be_hidden()


@pytest.mark.parametrize(("stable_min", "marked"), [(30, ["payments-1"]), (5, [])])
def test_member_that_commits_no_more_is_marked(
    page: Page, node: Node, samples: SampleGroups, stable_min: int, marked: list[str]
) -> None:
    """Its heartbeats go on while its processing hangs; partitions that it has just received say nothing of it."""
    group = samples.healthy()
    stalled = next(each["member_id"] for each in group.describe()["members"] if each["client_id"] == "payments-1")
    now = datetime.now(UTC)

    def age(route: Route) -> None:
        response = route.fetch()
        found = response.json()
        if "partitions" not in found:
            found["state_since"] = (now - timedelta(minutes=stable_min)).isoformat()
        for each in found.get("partitions", ()):
            each["lag_seconds"] = 1_500
            since_min = 23 if each["member_id"] == stalled else each["partition"]
            each["committed_at"] = (now - timedelta(minutes=since_min)).isoformat()
        route.fulfill(response=response, json=found)

    page.route(re.compile(f"/v1/groups/{group.group_id}(/lag)?$"), age)
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    members = page.get_by_role("region", name=re.compile("^Members")).locator("tbody tr")
    expect(members).to_have_count(2)
    expect(members.first.locator("td").nth(6)).not_to_have_text("–")
    expect(members.filter(has_text=re.compile("no commit for 23 min"))).to_have_text(
        [re.compile(f"^{name} ") for name in marked]
    )
    expect(members.filter(has_text="no commit")).to_have_count(len(marked))
    page.unroute_all(behavior="wait")
