"""Key presses before the node has answered the previous request."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node

CROWD = 120


@pytest.fixture(scope="module")
def many_groups(samples: SampleGroups) -> int:
    samples.insert_many(CROWD)
    return CROWD


def shown(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/")
    expect(page.locator("tbody tr")).to_have_count(50)


def test_second_enter_opens_the_first_matching_group(page: Page, node: Node, many_groups: int) -> None:
    shown(page, node)
    page.keyboard.press("/")
    page.keyboard.type("CROWD-77")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("crowd-77")


def test_enter_focuses_the_first_matching_group(page: Page, node: Node, many_groups: int) -> None:
    shown(page, node)
    page.keyboard.press("/")
    page.keyboard.type("crowd-7")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr").first).to_be_focused()
    expect(page.locator(".pagination")).to_contain_text("1–11 of 11")


def test_repeated_key_turns_one_page(page: Page, node: Node, many_groups: int) -> None:
    shown(page, node)
    page.evaluate("for (let n = 0; n < 3; n += 1) document.querySelector('[data-key=next]').click()")
    expect(page.locator(".pagination")).to_contain_text("51–100 of 120")
    page.keyboard.press("n")
    expect(page.locator(".pagination")).to_contain_text("101–120 of 120")
    page.evaluate("for (let n = 0; n < 5; n += 1) document.querySelector('[data-key=previous]').click()")
    expect(page.locator(".pagination")).to_contain_text("1–50 of 120")


def test_going_to_the_groups_shows_them_all_again(page: Page, node: Node, many_groups: int) -> None:
    shown(page, node)
    page.get_by_role("button", name=re.compile("Empty")).click()
    expect(page.locator(".pagination")).to_contain_text("of 40")
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.locator(".pagination")).to_contain_text("of 120")
    expect(page.get_by_role("button", name=re.compile("Empty"))).to_have_attribute("aria-pressed", "false")
