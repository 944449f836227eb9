"""How durations are written."""

from playwright.sync_api import Page

from tests.support.nodes import Node

SPANS = """async (lengths) => {
    const folder = document.querySelector('script[src]').src.replace(/[^/]+$/, '');
    const { span } = await import(`${folder}format.js`);
    return lengths.map(span);
}"""


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
