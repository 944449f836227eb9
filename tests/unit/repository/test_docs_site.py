"""The site of `make docs`: it builds without a broken link, anchor or image, and loads nothing from another host."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.docs_site import ROOT_PAGES, with_links_of_site
from tests.support.repository import ROOT

LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]*)")
"""What a page loads from a host that it names."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr  # mkdocs.yml makes every warning an error.
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {page.stem for page in [*(ROOT / "docs").glob("*.md"), *map(Path, ROOT_PAGES)]} - {"README"}
    assert {page.stem for page in site.glob("*.html")} == pages | {"404", "index"}


def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    assert LOADED.findall('<script src="https://host/x.js">') == ["https://host/x.js"]
    assert {address for page in site.glob("*.html") for address in LOADED.findall(page.read_text())} == set()


def test_every_row_of_a_table_is_in_a_table(site: Path) -> None:
    assert [page.name for page in site.glob("*.html") if re.search(r"^(<p>)?\|", page.read_text(), re.MULTILINE)] == []


def test_every_picture_is_a_small_screenshot_that_a_page_shows() -> None:
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    console = (ROOT / "docs" / "console.md").read_text()

    assert [picture.name for picture in pictures if f"](images/{picture.name})" not in console] == []
    assert [picture.name for picture in pictures if picture.stat().st_size > 150_000] == []
    assert {struct.unpack(">II", picture.read_bytes()[16:24]) for picture in pictures} == {(1280, 800)}


@pytest.mark.parametrize(
    ("folder", "written", "in_site"),
    [
        ("", "[it](docs/tuning.md#advice)", "[it](tuning.md#advice)"),
        ("", "![it](docs/images/group.png)", "![it](images/group.png)"),
        ("", "[it](ARCHITECTURE.md)", "[it](ARCHITECTURE.md)"),
        ("docs", "[it](tuning.md#advice)", "[it](tuning.md#advice)"),
        ("docs", "[it](#advice)", "[it](#advice)"),
        ("docs", "[it](https://semver.org/)", "[it](https://semver.org/)"),
        ("docs", "[it](../README.md)", "[it](README.md)"),
        ("docs", "[it](../CHANGELOG.md#010)", "[it](CHANGELOG.md#010)"),
        ("docs", "[rules](../docker/prometheus/rules.yml)", "rules"),
        ("docs", "[rules](../docker/no-such.yml)", "[rules](../docker/no-such.yml)"),
    ],
)
def test_links_lead_to_pages_of_the_site(folder: str, written: str, in_site: str) -> None:
    assert with_links_of_site(written, folder) == in_site
