"""A group that rebalances again and again is not just Stable, on its own page and on its topic's."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.http_client import Group
from tests.support.nodes import Node


@pytest.fixture(scope="module")
def flapping(samples: SampleGroups) -> Group:
    return samples.flapping()


def test_flapping_group_is_marked_as_soon_as_its_rebalances_are_read(page: Page, node: Node, flapping: Group) -> None:
    held: list[Route] = []
    page.route(f"**{flapping.path}/rebalances?*", lambda route: held.append(route))  # noqa: PLW0108 - playwright takes no built-in
    page.goto(f"{node.url}/#/groups/{flapping.group_id}")
    badge = page.locator(".head .badge")
    expect(badge).to_have_text("● Stable")

    page.route(re.compile(rf"{flapping.path}(\?|$)"), lambda _: None)  # nothing more is answered about the group itself
    held[0].continue_()

    expect(badge).to_have_text("▲ Stable, flapping")


def test_flapping_group_is_marked_on_the_page_of_its_topic(page: Page, node: Node, flapping: Group) -> None:
    page.goto(f"{node.url}/#/topics/orders")
    row = page.get_by_role("table", name="Groups").get_by_role("row", name=flapping.group_id)
    expect(row).to_contain_text("▲ Stable, flapping")


def test_rebalances_count_in_the_hour_in_which_they_end(page: Page, node: Node, samples: SampleGroups) -> None:
    group = samples.flapping()
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "UPDATE rebalances SET started_at = started_at - interval '1 hour' WHERE group_id = %s", (group.group_id,)
        )
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    expect(page.locator(".head .badge")).to_have_text("▲ Stable, flapping")


def test_rebalances_of_a_former_group_of_that_name_do_not_count(page: Page, node: Node, samples: SampleGroups) -> None:
    """As in the list of groups."""
    group = samples.flapping()
    [member] = group.describe()["members"]
    group.post("leave", {"members": [{"member_id": member["member_id"]}]})
    group.client.ok("DELETE", f"{group.path}?reason=another+one")
    group.stable()
    page.goto(f"{node.url}/#/groups/{group.group_id}")
    expect(page.locator("main")).not_to_contain_text("Loading…")
    expect(page.locator(".head .badge")).to_have_text("● Stable")
