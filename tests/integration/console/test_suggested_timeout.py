"""Dialogs of timeouts, and the notice of a stuck group: the effective value, the suggestion, and the effect."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.console.sample_groups import SampleGroups
from tests.support.http_client import Json, join_body
from tests.support.nodes import Node


def test_shorter_timeout_of_the_advice_is_suggested_with_its_source(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    stuck = samples.stuck()

    def advise(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        advice = {"value": 60_000, "verdict": "change", "because": "members joined within 48 s"}
        body["advice"]["rebalance_timeout_ms"] |= advice
        route.fulfill(response=answer, json=body)

    page.route("**/tuning", advise)
    page.goto(f"{node.url}/#/groups/{stuck.group_id}")
    page.get_by_role("button", name="Shorten rebalance timeout…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(
        "suggested: 60,000 ms (1 min) (the advice from this group’s history: members joined within 48 s)."
    )
    expect(dialog.get_by_label("New value")).to_have_value("60000")


def test_without_advice_the_dialog_says_which_values_end_the_wait_and_their_unit(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    stuck = samples.stuck()
    page.goto(f"{node.url}/#/groups/{stuck.group_id}")
    page.get_by_role("button", name="Shorten rebalance timeout…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(r"have waited for [\d.]+ m?s; with a value below that"))
    expect(dialog).to_contain_text("In milliseconds. Leave empty")
    dialog.get_by_label("New value").fill("1000")
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name="Set").click()
    expect(page.get_by_role("status").filter(has_text="rebalance_timeout_ms updated")).to_be_visible()
    expect(page.get_by_text("Waiting for 1 member")).to_have_count(0)


def test_group_that_waits_for_syncs_continues_with_a_shorter_timeout(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    leader, _ = samples.unsynced(2)
    page.goto(f"{node.url}/#/groups/{leader.group.group_id}")
    page.get_by_role("button", name="Shorten rebalance timeout…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(
        re.compile(r"have waited for .*; with a value below that, those that have not synced are evicted at once")
    )
    dialog.get_by_label("New value").fill("1000")
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name="Set").click()
    expect(page.locator(".facts")).to_contain_text("Empty")


def test_notice_counts_the_awaited_members_that_have_no_button(page: Page, node: Node, samples: SampleGroups) -> None:
    leader, _ = samples.unsynced(5)
    page.goto(f"{node.url}/#/groups/{leader.group.group_id}")
    notice = page.get_by_role("status").filter(has_text="Waiting for 5 members")
    expect(notice.get_by_role("button", name="Remove")).to_have_count(3)
    expect(notice).to_contain_text("2 more can be removed in the list of members.")


@pytest.mark.parametrize(("value", "effect"), [("20000", "at once"), ("600000", "in at most 8 min")])
def test_what_if_begins_with_the_wait_under_way(
    page: Page, node: Node, samples: SampleGroups, value: str, effect: str
) -> None:
    stuck = samples.stuck()

    def age(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"state_since": waiting_since.isoformat()})

    waiting_since = datetime.now(UTC) - timedelta(seconds=90)
    page.route(re.compile(rf"{stuck.path}(\?|$)"), age)
    page.goto(f"{node.url}/#/groups/{stuck.group_id}")
    page.get_by_role("button", name="Shorten rebalance timeout…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New value").fill(value)
    dialog.get_by_role("button", name="What if?").click()
    result = dialog.get_by_role("status")
    expect(result).to_contain_text(f"The wait under way for 1 member would end {effect}")
    expect(result).to_contain_text("nothing else would have been different")


def test_dialog_of_an_unset_timeout_says_what_the_clients_request_now(
    page: Page, node: Node, samples: SampleGroups
) -> None:
    group = samples.client.group("of-two-minds")
    group.stable(session_timeout_ms=300_000)
    patient: Json = {"client_id": "patient", "session_timeout_ms": 600_000}
    group.post("join", join_body(member_id=group.handshake(**patient), **patient, max_wait_ms=1))
    page.goto(f"{node.url}/#/groups/of-two-minds")
    page.get_by_role("button", name="Change session_timeout_ms").click()
    expect(page.get_by_role("dialog")).to_contain_text(
        "Effective now: requested by each client, 300,000 ms (5 min) to 600,000 ms (10 min) (the default)."
    )


def test_timeout_is_simulated_before_it_is_set(page: Page, node: Node, samples: SampleGroups) -> None:
    page.goto(f"{node.url}/#/groups/{samples.flapping().group_id}")
    page.get_by_role("button", name="Change session_timeout_ms").click()
    page.get_by_label("New value").fill("20000")
    page.get_by_role("button", name="What if?").click()

    expect(page.get_by_role("dialog")).to_contain_text(
        "nothing would have been different: no member was evicted, and none would have been."
    )
