"""A browser whose machine has another time than the node."""

import re

from playwright.sync_api import Page, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node

THREE_HOURS_AHEAD = "const real = Date.now; Date.now = () => real() + 3 * 3_600_000;"


def test_ages_are_by_the_clock_of_the_node(page: Page, node: Node, samples: SampleGroups) -> None:
    """Else every member seems to have missed its session timeout, and the timeline to be empty."""
    page.add_init_script(THREE_HOURS_AHEAD)
    page.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    expect(page.get_by_role("region", name=re.compile("^Timeline"))).to_contain_text("2 rebalances in the last 5 min")
    for place in (page.locator(".facts"), page.get_by_role("table", name="Members", exact=True)):
        expect(place).to_contain_text("ago")
        expect(place).not_to_contain_text(re.compile(r"\dh|\d h"))
