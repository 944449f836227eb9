"""The pictures of `make screenshots`: the script works, and the pages show what it writes."""

from pathlib import Path

from playwright.sync_api import Browser

from scripts.screenshots import IMAGES, create_samples, take_all
from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node


def test_the_script_takes_every_picture_of_the_pages(
    browser: Browser, node: Node, samples: SampleGroups, tmp_path: Path
) -> None:
    take_all(browser, node, create_samples(samples), tmp_path)

    assert {picture.name for picture in tmp_path.iterdir()} == {picture.name for picture in IMAGES.iterdir()}
