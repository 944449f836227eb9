"""Lags that are lower bounds are marked wherever they are shown, and the colours of lags are those of the legend."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.console.sample_groups import LONG_MS, SampleGroups
from tests.support.http_client import Json, Member, fresh_id
from tests.support.nodes import Node

AT = "2026-11-27T20:00:00Z"


@pytest.fixture
def member(samples: SampleGroups) -> Member:
    group = samples.client.group(fresh_id("bounded"))
    return group.stable(group.group_id, session_timeout_ms=LONG_MS, rebalance_timeout_ms=LONG_MS)


def lag_of(member: Member, *lags: int, is_stale: bool) -> Json:
    """Return the node's answer about partitions with lags, whose time lag is a lower bound of two minutes."""
    bound = {"lag_seconds": 120.0, "is_lag_lower_bound": True, "is_log_end_stale": is_stale, "log_end_at": AT}
    owned = {"topic": "orders", "member_id": member.member_id, "client_id": "", "committed_at": AT, "expires_at": None}
    partitions = [
        {**bound, **owned, "partition": number, "current_offset": 1, "log_end_offset": 1 + lag, "lag": lag}
        for number, lag in enumerate(lags)
    ]
    return {"group_id": member.group.group_id, "lag": sum(lags), **bound, "partitions": partitions, "next_cursor": None}


def show(page: Page, node: Node, member: Member, *lags: int, is_stale: bool) -> Locator:
    page.route("**/lag", lambda route: route.fulfill(json=lag_of(member, *lags, is_stale=is_stale)))
    page.goto(f"{node.url}/#/groups/{member.group.group_id}")
    cells = page.locator(".cell")
    expect(cells).to_have_count(len(lags))
    return cells


def test_time_lag_that_is_a_lower_bound_is_marked(page: Page, node: Node, member: Member) -> None:
    cells = show(page, node, member, 5, is_stale=False)
    expect(page.locator(".facts")).to_contain_text("Lag5, ≥ 2 min")
    expect(cells).to_have_attribute("title", re.compile("5 records behind, ≥ 2 min; "))


def test_lag_of_a_member_that_is_a_lower_bound_is_marked(page: Page, node: Node, member: Member) -> None:
    show(page, node, member, 2, 3, is_stale=True)
    row = page.get_by_role("table", name="Members", exact=True).locator("tbody tr")
    expect(row.locator("td").nth(6)).to_have_text("≥ 5")


@pytest.mark.parametrize("most", [1, 2, 10, 1_000])
def test_cells_have_the_colours_of_the_legend(page: Page, node: Node, member: Member, most: int) -> None:
    lags = sorted({0, 1, 2, 3, 6, 32, 178, most} & set(range(most + 1)))
    cells = show(page, node, member, *lags, is_stale=False)
    legend = page.get_by_role("region", name=re.compile("^Ownership")).locator(".legend li:has([class*=level])")
    limits = [
        0 if text.strip() == "none" else int(text.split()[1].replace("K", "000")) for text in legend.all_inner_texts()
    ]
    swatches = legend.evaluate_all("(all) => all.map((each) => /level./.exec(each.innerHTML)[0])")
    shown = cells.evaluate_all("(all) => all.map((each) => /level./.exec(each.className)[0])")
    assert shown == [
        next(swatch for limit, swatch in zip(limits, swatches, strict=True) if lag <= limit) for lag in lags
    ]
