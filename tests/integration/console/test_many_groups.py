"""The list of 10,000 groups: filter, sort order and pages."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.integration.console.boxes import box_of
from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node

CROWD = 10_000


@pytest.fixture(scope="module")
def many_groups(samples: SampleGroups) -> int:
    samples.insert_many(CROWD)
    return CROWD


def test_first_page_shows_fifty_groups_and_the_total(page: Page, node: Node, many_groups: int) -> None:
    page.goto(f"{node.url}/")
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(page.locator(".pagination")).to_contain_text("1–50 of 10,000")
    expect(page.get_by_role("button", name=re.compile("Empty"))).to_contain_text("3,333")
    expect(page.locator("tbody tr").first).to_contain_text("11")


def test_filter_finds_one_group(page: Page, node: Node, many_groups: int) -> None:
    page.goto(f"{node.url}/")
    page.get_by_label(re.compile("Filter")).fill("crowd-9876")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator(".pagination")).to_contain_text("1–1 of 1")
    expect(page).to_have_url(re.compile("q=crowd-9876"))
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_pages_follow_each_other_without_a_repeat(page: Page, node: Node, many_groups: int) -> None:
    page.goto(f"{node.url}/#/?sort=lag")
    seen: list[str] = []
    for first in (1, 51, 101):
        expect(page.locator(".pagination")).to_contain_text(f"{first}–{first + 49} of 10,000")
        seen += page.locator("tbody tr .id").all_text_contents()
        page.keyboard.press("n")
    assert len(set(seen)) == 150


def test_back_leads_to_the_page_of_the_list(page: Page, node: Node, many_groups: int) -> None:
    page.goto(f"{node.url}/#/?sort=group_id")
    for first in (1, 51):
        expect(page.locator(".pagination")).to_contain_text(f"{first}–{first + 49} of 10,000")
        page.keyboard.press("n")
    expect(page.locator(".pagination")).to_contain_text("101–150 of 10,000")
    page.locator("tbody tr .id a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("crowd-")
    page.go_back()
    expect(page.locator(".pagination")).to_contain_text("101–150 of 10,000")
    page.get_by_label(re.compile("Filter")).fill("crowd-98")
    expect(page.locator(".pagination")).to_contain_text("1–50 of 111")


def test_text_that_is_selected_in_a_row_does_not_open_it(page: Page, node: Node, many_groups: int) -> None:
    page.goto(f"{node.url}/#/?sort=group_id")
    expect(page.locator("tbody tr")).to_have_count(50)
    box = box_of(page.locator("tbody td.number").nth(1))
    page.mouse.move(box.left + 1, box.top + 9)
    page.mouse.down()
    page.mouse.move(box.right - 2, box.top + 9)
    page.mouse.up()
    assert page.evaluate("getSelection().toString()").strip()
    expect(page).to_have_url(f"{node.url}/#/?sort=group_id")
    page.locator("tbody td.number").nth(2).click()
    expect(page).to_have_url(re.compile("#/groups/crowd-"))


def test_state_filter_narrows_the_list(page: Page, node: Node, many_groups: int) -> None:
    page.goto(f"{node.url}/")
    page.get_by_role("button", name=re.compile("Empty")).click()
    expect(page.locator(".pagination")).to_contain_text("of 3,333")
    expect(page.get_by_role("button", name=re.compile("Empty"))).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("x")
    expect(page.locator(".pagination")).to_contain_text("of 10,000")


def test_filter_without_matches_offers_to_clear_it(page: Page, node: Node, many_groups: int) -> None:
    page.goto(f"{node.url}/#/?q=nowhere-to-be-found")
    expect(page.locator("main")).to_contain_text("No matching groups.")
    page.keyboard.press("x")
    expect(page.locator("tbody tr")).to_have_count(50)
