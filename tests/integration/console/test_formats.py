"""How durations are written."""

from playwright.sync_api import Page

from tests.support.nodes import Node

IMPORT = "import(`${document.querySelector('script[src]').src.replace(/[^/]+$/, '')}format.js`)"
SPANS = f"async (lengths) => lengths.map((await {IMPORT}).span)"
ELAPSED = f"async (sooner) => (await {IMPORT}).elapsed(Date.now() - sooner)"


def test_rounded_duration_is_written_in_the_larger_unit(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/")
    expected = {
        999.4: "999 ms",
        999.6: "1 s",
        9_940: "9.9 s",
        9_960: "10 s",
        59_499: "59 s",
        59_500: "1 min",
        60_000: "1 min",
        119_999: "1 min 59 s",
        3_599_999: "59 min 59 s",
        3_600_000: "1 h",
    }
    assert dict(zip(expected, page.evaluate(SPANS, list(expected)), strict=True)) == expected


def test_nothing_has_lasted_less_than_no_time(page: Page, node: Node) -> None:
    """The node's clock is estimated from whole seconds: what it has just reported may seem to be still to come."""
    page.goto(f"{node.url}/")
    assert page.evaluate(ELAPSED, -1_000) == 0
    assert 5_000 <= page.evaluate(ELAPSED, 5_000) < 600_000
