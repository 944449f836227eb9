"""The list of topics; the page of a topic: who reads it, with which lag, and its log ends."""

import re
from collections.abc import Collection

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.http_client import Group, position
from tests.support.nodes import Node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import poll_until

TOPIC = "clicks/é <b>"
OUTDATE_LOG_END = (
    "UPDATE log_end_offsets SET reported_at = now() - interval '1 hour' WHERE topic = 'sums' AND partition = 1"
)


@pytest.fixture(scope="module")
def readers(samples: SampleGroups) -> dict[str, Group]:
    """Let a member subscribe to a topic and commit, and a simple consumer lag behind it."""
    long = {"session_timeout_ms": 900_000, "rebalance_timeout_ms": 900_000}
    groups = {name: samples.client.group(name) for name in ("subscriber", "simple")}
    groups["subscriber"].stable(TOPIC, **long).commit(position(90, topic=TOPIC, log_end_offset=100))
    offsets = [position(number, topic=TOPIC, partition=number) for number in (0, 1)]
    groups["simple"].post("offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
    wait_for_checkpoint(samples.rows)
    return groups


def table(page: Page, name: str) -> Locator:
    return page.get_by_role("table", name=name)


def test_topic_is_opened_from_a_group_and_leads_to_its_readers(
    page: Page, node: Node, readers: dict[str, Group]
) -> None:
    page.goto(f"{node.url}/#/groups/subscriber")
    page.get_by_role("region", name=re.compile("^Offsets")).get_by_role("link", name=TOPIC).click()

    expect(page.get_by_role("heading", level=1)).to_have_text(TOPIC)
    groups = table(page, "Groups").locator("tbody tr")
    expect(groups).to_have_count(2)
    expect(groups.nth(0)).to_have_text(re.compile(r"^simple○ Empty0not subscribed2100\d\d"))
    expect(groups.nth(1)).to_have_text(re.compile(r"^subscriber● Stable1subscriber110\d\d"))
    partitions = table(page, "Partitions").locator("tbody tr")
    expect(partitions).to_have_text([re.compile(r"^0100\d\d.*2$"), re.compile("^1––1$")])
    expect(page.locator(".facts")).to_contain_text("no topic metadata")

    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("simple")


def test_topic_is_linked_wherever_it_is_named(
    page: Page, node: Node, samples: SampleGroups, readers: dict[str, Group]
) -> None:
    run_id = samples.proposal(samples.client.group("long-gone"))
    samples.client.ok("PUT", "/v1/topics/orders", {"partitions": 16, "reason": "a test"})
    for place in (f"maintenance/{run_id}", "changes", "groups/long-gone"):
        page.goto(f"{node.url}/#/{place}")
        expect(page.get_by_role("link", name="orders", exact=True).first).to_have_attribute("href", "#/topics/orders")
    page.goto(f"{node.url}/#/topics/orders")
    expect(page.locator(".facts")).to_contain_text("Partitions16")


@pytest.mark.parametrize("topic", [".", ".."])
def test_topic_that_is_a_dot_segment_has_a_page(page: Page, node: Node, samples: SampleGroups, topic: str) -> None:
    """Browsers take such segments out of the paths of requests."""
    offsets = [position(3, topic=topic, log_end_offset=9)]
    samples.client.ok("POST", "/v1/groups/dots/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
    page.goto(f"{node.url}/#/groups/dots")
    page.get_by_role("region", name=re.compile("^Offsets")).get_by_role("link", name=topic, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(topic)
    expect(table(page, "Groups").locator("tbody tr")).to_contain_text(["dots"])


def test_unknown_topic_is_reported(page: Page, node: Node) -> None:
    page.goto(f"{node.url}/#/topics/no-such")
    expect(page.get_by_role("alert")).to_contain_text("no group reads it")
    expect(page.get_by_role("heading", name="Partitions")).to_be_hidden()


def test_lists_that_the_node_has_cut_say_so(page: Page, node: Node) -> None:
    lag = {"lag": 7, "is_lag_lower_bound": False, "log_end_at": None}
    group = {"state": None, "member_count": 0, "is_subscribed": False, "partition_count": 1, "committed_at": None}
    partition = {"log_end_offset": None, "log_end_at": None, "group_count": 1}
    use = {
        "topic": "wide",
        "partition_count": None,
        "log_start_offset": None,
        "group_count": 1_234,
        "partitions": [{"partition": number, **partition} for number in range(10_000)],
        "groups": [{"group_id": each, **group, **lag, "rebalances_last_hour": 0} for each in ("g", "h")],
        **lag,
    }
    page.route(re.compile("/v1/topics/wide"), lambda route: route.fulfill(json=use))
    page.goto(f"{node.url}/#/topics/wide")

    expect(page.get_by_role("region", name="Groups that read it")).to_contain_text("Only 2 of 1,234 groups are listed")
    expect(page.get_by_role("region", name="Partitions")).to_contain_text("No more than 10,000 partitions are listed.")


# -- the list ------------------------------------------------------------------------------------------------


def test_topics_are_listed_the_highest_lag_first_and_linked(
    page: Page, node: Node, samples: SampleGroups, readers: dict[str, Group]
) -> None:
    samples.client.ok("PUT", "/v1/topics/unread", {"partitions": 3, "reason": "a test"})
    page.goto(f"{node.url}/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    rows = page.get_by_role("table", name="Topics").locator("tbody tr")
    expect(rows.first).to_contain_text(TOPIC)
    expect(rows.filter(has_text="unread").locator("td")).to_have_text(["unread", "3", "0", "–"])
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(TOPIC)
    page.keyboard.press("u")
    expect(rows.first).to_contain_text(TOPIC)


def test_two_thousand_topics_are_filtered_and_paged(page: Page, node: Node, samples: SampleGroups) -> None:
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO topics (topic, partitions, version)"
            " SELECT 'many-' || n, 1, 1 FROM generate_series(1, 2000) AS n"
        )
    page.goto(f"{node.url}/#/topics?q=MANY")
    rows = page.get_by_role("table", name="Topics").locator("tbody tr")
    expect(rows).to_have_count(50)
    expect(page.locator(".pagination")).to_contain_text("1–50 of 2,000")
    first = page.get_by_role("link", name="many-1", exact=True)
    expect(first).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator(".pagination")).to_contain_text("51–100 of 2,000")
    expect(first).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("many-1999")
    expect(page.locator(".pagination")).to_contain_text("1–1 of 1")
    expect(page).to_have_url(re.compile("q=many-1999"))
    page.keyboard.type("-no-such")
    expect(page.get_by_role("main")).to_contain_text("No matching topics.")
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    expect(page.locator(".pagination")).to_contain_text("1–50 of")


def test_sums_of_lag_name_their_bound_and_what_is_unknown(page: Page, node: Node, samples: SampleGroups) -> None:
    commits = {
        "behind": position(5, topic="sums", log_end_offset=10),
        "long-ago": position(10, topic="sums", partition=1, log_end_offset=10),
        "unknown": position(10, topic="sums", partition=2),
    }
    for group_id, offset in commits.items():
        samples.client.group(group_id).post("offsets", {**SIMPLE_CONSUMER, "offsets": [offset]})
    wait_for_checkpoint(samples.rows)
    with samples.rows.cursor() as cursor:
        cursor.execute("UPDATE offsets SET committed_at = now() - interval '1 hour' WHERE group_id = 'long-ago'")

        def is_outdated() -> bool:
            cursor.execute(OUTDATE_LOG_END)
            return cursor.rowcount > 0

        poll_until(is_outdated)

    page.goto(f"{node.url}/#/topics/sums")
    expect(page.locator(".facts")).to_contain_text("Lag of all groups≥ 5")
    for group_id, shown in (("behind", "lag 5"), ("long-ago", "lag 0 as of "), ("unknown", "lag –")):
        page.goto(f"{node.url}/#/groups/{group_id}")
        expect(page.get_by_role("region", name=re.compile("^Ownership"))).to_contain_text(f"1 partition, {shown}")


def _show_chart(page: Page, node: Node, lags: list[int | None], *, stale: Collection[int] = ()) -> Locator:
    """Show the chart of these lags, a minute each; log ends are stale at the places `stale`."""
    points = [
        {"at": f"2026-11-21T02:0{minute}:00Z", "lag": lag, "lag_seconds": lag, "is_log_end_stale": minute in stale}
        for minute, lag in enumerate(lags)
    ]
    page.route(re.compile("/lag/history"), lambda route: route.fulfill(json={"points": points}))
    page.goto(f"{node.url}/#/settings")
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    page.goto(f"{node.url}/#/groups/subscriber")
    return page.get_by_role("img", name=re.compile("^Lag over the last hour"))


def test_chart_of_lag_marks_what_is_not_known(page: Page, node: Node, readers: dict[str, Group]) -> None:
    """Where log ends were not reported it has a band, and where the lag is not known a gap."""
    chart = _show_chart(page, node, [7, 8, 8, 8, 9, 9, 9], stale={0, 2, 3, 5, 6})
    expect(chart).to_have_attribute("aria-label", re.compile("9 now; estimated while log ends were not reported$"))
    expect(chart.get_by_text("log ends not reported")).to_have_count(3)

    chart = _show_chart(page, node, [None, 7, 8, None, 9, None])
    expect(chart).to_have_attribute("aria-label", re.compile(": 7 records at the start, not known now$"))
