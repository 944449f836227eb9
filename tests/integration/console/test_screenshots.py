"""The pictures of `make screenshots`: the script works, and the pages show what it writes."""

from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from scripts.screenshots import IMAGES, create_samples, open_page, take_all
from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node


def test_the_script_takes_every_picture_of_the_pages(
    browser: Browser, node: Node, samples: SampleGroups, tmp_path: Path
) -> None:
    take_all(browser, node, create_samples(samples), tmp_path)

    assert {picture.name for picture in tmp_path.iterdir()} == {picture.name for picture in IMAGES.iterdir()}


def test_a_picture_waits_for_every_section(page: Page, node: Node) -> None:
    sections = page.locator("section")

    def come_last(route: Route) -> None:
        expect(sections.filter(has_text="Timeout advice")).not_to_contain_text("Loading…")
        route.continue_()

    page.route("**/v1/reports/assignments?*", come_last)
    open_page(page, node, "reports", "Timeout advice")
    assert "Loading…" not in page.get_by_role("main").inner_text()
