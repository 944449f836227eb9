"""A browser whose machine has another time than the node, or another time zone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from playwright.sync_api import CDPSession, Page, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.nodes import Node

THREE_HOURS_AHEAD = "const real = Date.now; Date.now = () => real() + 3 * 3_600_000;"


def test_ages_are_by_the_clock_of_the_node(page: Page, devtools: CDPSession, node: Node, samples: SampleGroups) -> None:
    """Else every member seems to have missed its session timeout, and the timeline to be empty."""
    devtools.send("Page.enable")
    devtools.send("Page.addScriptToEvaluateOnNewDocument", {"source": THREE_HOURS_AHEAD})
    page.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    expect(page.get_by_role("region", name=re.compile("^Timeline"))).to_contain_text("2 rebalances in the last 5 min")
    for place in (page.locator(".facts"), page.get_by_role("table", name="Members", exact=True)):
        expect(place).to_contain_text("ago")
        expect(place).not_to_contain_text(re.compile(r"\dh|\d h"))


def test_diagnosis_names_local_times(
    page: Page, time_zone: Callable[[str], None], node: Node, samples: SampleGroups
) -> None:
    """As the rest of the page does: else an operator compares times of two zones."""
    evicted = datetime.now(UTC) - timedelta(minutes=5)
    text = f"worker was evicted at {evicted:%H:%M:%S} UTC. It was set by ada at 2026-11-21 22:10:05 UTC."
    finding = {"kind": "silent", "group_instance_id": None, "client_id": "worker", "client_host": "here", "text": text}
    found = {"group_id": "g", "findings": [{**finding, "setting": None, "value": None}]}
    time_zone("Asia/Tokyo")
    page.route("**/diagnosis", lambda route: route.fulfill(json=found))
    page.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    diagnosis = page.get_by_role("complementary", name="Diagnosis")
    local = f"{evicted + timedelta(hours=9):%H:%M:%S}"
    expect(diagnosis).to_contain_text(re.compile(rf"evicted at [-\d ]*{local}\. .* by ada at 2026-11-22 07:10:05\."))
    expect(diagnosis).not_to_contain_text("UTC")


def test_chart_goes_on_through_an_hour_that_the_clock_repeats(
    page: Page, time_zone: Callable[[str], None], node: Node, samples: SampleGroups
) -> None:
    """In Berlin, 01:10 UTC is 02:10, forty minutes after 00:30 UTC, which was 02:30."""
    points = [
        {"at": f"2026-10-25T{time}:00Z", "lag": 5, "lag_seconds": 5, "is_log_end_stale": time != "01:50"}
        for time in ("00:30", "01:10", "01:50")
    ]
    time_zone("Europe/Berlin")
    page.route("**/lag/history", lambda route: route.fulfill(json={"points": points}))
    page.goto(f"{node.url}/#/groups/{samples.healthy().group_id}")
    expect(page.locator(".chart .main-svg").first).to_be_visible()
    chart = page.locator(".js-plotly-plot")
    drawn = chart.evaluate("(chart) => chart.calcdata[0].map(({ x }) => new Date(x).toISOString().slice(11, 16))")
    assert drawn == ["01:30", "02:10", "02:50"]
    [band] = chart.evaluate("(chart) => chart.layout.shapes.map(({ x0, x1 }) => [x0, x1])")
    assert [time[11:16] for time in band] == ["01:30", "02:50"]
