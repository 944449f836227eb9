"""Offsets beyond 2^53, as times in nanoseconds, and lags: a page that rounds them shows what was never committed."""

import re

from playwright.sync_api import Page, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import position
from tests.support.nodes import Node

LAG = "9,214,364,837,600,034,814"


def test_large_offsets_are_shown_with_all_digits(page: Page, node: Node, samples: SampleGroups) -> None:
    group = samples.client.group("far")
    offsets = [position(2**53 + 1, topic="far", log_end_offset=2**63 - 1)]
    samples.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})

    page.goto(f"{node.url}/#/topics/far")
    expect(page.get_by_role("table", name="Partitions")).to_contain_text("9,223,372,036,854,775,807")
    expect(page.locator(".facts")).to_contain_text(LAG)
    page.goto(f"{node.url}/#/groups/far")
    row = page.get_by_role("region", name=re.compile("^Offsets")).locator("tbody tr")
    expect(row).to_contain_text("9,007,199,254,740,993")
    expect(row).to_contain_text("9,223,372,036,854,775,807")
    expect(row).to_contain_text(LAG)
    expect(page.get_by_role("region", name=re.compile("^Ownership"))).to_contain_text(f"1 partition, lag {LAG}")

    page.get_by_role("button", name="Reset offsets…").click()
    page.get_by_label("To", exact=True).select_option("shift")
    page.get_by_label("Number of records").fill("2")
    page.get_by_role("button", name="Preview").click()
    previewed = page.get_by_role("region", name="Preview").locator("tbody td")
    expect(previewed).to_have_text(["far", "0", "9,007,199,254,740,993", "9,007,199,254,740,995", "+2"])
