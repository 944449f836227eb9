"""An operator's tasks: find a group, see the cause, change a setting, and undo the change."""

import re
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.integration.console.sample_groups import SIMPLE_CONSUMER, SampleGroups
from tests.support.databases import Databases
from tests.support.http_client import Client, Group, position
from tests.support.nodes import Node, hanging_node, running_node
from tests.support.tuning_history import Past


@pytest.fixture(scope="module")
def healthy(samples: SampleGroups) -> Group:
    return samples.healthy()


@pytest.fixture(scope="module")
def flapping(samples: SampleGroups) -> Group:
    return samples.flapping()


@pytest.fixture(scope="module")
def stuck(samples: SampleGroups) -> Group:
    return samples.stuck()


@pytest.fixture
def shows(page: Page, node: Node) -> Callable[[str], Page]:
    """Give a function that opens a place in the console."""

    def show(place: str) -> Page:
        page.goto(f"{node.url}/#/{place}")
        return page

    return show


def section(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=re.compile(f"^{name}"))


def decide(page: Page, reason: str, verb: str) -> None:
    """Fill in the dialogue and send it off."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_label("Your name").fill("ada")
    dialog.get_by_role("button", name=verb, exact=True).click()


# -- finding ----------------------------------------------------------------------------------------------


def test_flapping_group_is_found_by_keyboard(shows: Callable[[str], Page], healthy: Group, flapping: Group) -> None:
    page = shows("")
    expect(page.get_by_role("link", name=healthy.group_id)).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("FLAP")
    expect(page.get_by_role("link", name=healthy.group_id)).to_be_hidden()
    expect(page.get_by_role("link", name=flapping.group_id)).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_have_text(flapping.group_id)
    expect(page.locator(".head .badge")).to_contain_text("Stable, flapping")
    expect(section(page, "Timeline")).to_contain_text("23 rebalances")
    expect(section(page, "Timeline")).to_contain_text("12× a member joined")
    expect(section(page, "Rebalances")).to_contain_text("consumer poll timeout has expired")
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.get_by_label(re.compile("Filter"))).to_be_visible()


def test_waiting_groups_are_listed_first_with_awaited_members(
    shows: Callable[[str], Page], flapping: Group, stuck: Group, healthy: Group
) -> None:
    page = shows("")
    rows = page.locator("tbody tr")

    expect(rows.nth(0)).to_contain_text(stuck.group_id)
    expect(rows.nth(0)).to_contain_text("Preparing")
    expect(rows.nth(0)).to_contain_text("Waiting for slowpoke")
    expect(rows.nth(1)).to_contain_text(flapping.group_id)
    expect(rows.nth(1)).to_contain_text("▲ Stable, flapping")
    expect(page.locator("tr", has_text=healthy.group_id)).to_contain_text("● Stable")

    page.get_by_role("button", name="Members").click()
    expect(rows.nth(0)).to_contain_text(re.compile(f"{healthy.group_id}|{stuck.group_id}"))
    page.get_by_role("button", name=re.compile("Preparing")).click()
    expect(rows).to_have_count(1)


def test_stuck_group_shows_awaited_members_and_deadline(shows: Callable[[str], Page], stuck: Group) -> None:
    page = shows(f"groups/{stuck.group_id}")
    notice = page.get_by_text(re.compile("Waiting for 1 member to join until"))

    expect(notice).to_be_visible()
    expect(notice).to_contain_text(re.compile(r"\d\d:\d\d:\d\d, 1\d min .* from now"))
    members = section(page, "Members").locator("tbody tr")
    expect(members.nth(0)).to_contain_text("slowpoke")
    expect(members.nth(0)).to_contain_text("has not joined")
    expect(members.nth(0).locator("td").nth(5)).to_have_text("4")
    expect(members.nth(1)).to_contain_text("joined, waiting for others")
    expect(members.nth(1)).not_to_contain_text("has not joined")
    expect(members.nth(1).locator(".critical")).to_have_count(0)


def test_notice_of_a_stuck_group_offers_what_helps(shows: Callable[[str], Page], stuck: Group) -> None:
    page = shows(f"groups/{stuck.group_id}")
    notice = page.get_by_role("status").filter(has_text="Waiting for 1 member")

    notice.get_by_role("button", name="Shorten rebalance timeout…").click()
    expect(page.get_by_role("dialog")).to_contain_text(
        "Effective now: the longest that any client requests, 900,000 ms (15 min) (the default)."
    )
    page.keyboard.press("Escape")
    notice.get_by_role("button", name="Remove slowpoke…").click()
    expect(page.get_by_role("dialog")).to_contain_text("its 4 partitions (orders:0,1,2,3) go to the other members.")
    page.keyboard.press("Escape")


def test_remove_dialog_lists_owned_partitions_during_rebalance(shows: Callable[[str], Page], stuck: Group) -> None:
    page = shows(f"groups/{stuck.group_id}")
    members = section(page, "Members").locator("tbody tr")
    members.nth(0).get_by_role("button", name=re.compile("Remove")).click()

    expect(page.get_by_role("dialog")).to_contain_text("its 4 partitions (orders:0,1,2,3) go to the other members.")
    page.keyboard.press("Escape")


def test_ownership_map_shows_lag(shows: Callable[[str], Page], healthy: Group) -> None:
    page = shows(f"groups/{healthy.group_id}")
    owners = section(page, "Ownership").locator(".owner")

    expect(owners).to_have_count(2)
    expect(owners.nth(0).locator(".cell")).to_have_count(6)
    deepest = section(page, "Ownership").locator(".cell.level4")
    expect(deepest.last).to_contain_text("11")
    expect(section(page, "Offsets").locator("tbody tr").first).to_contain_text("1,977,326,743")


def test_lag_over_time_is_drawn(shows: Callable[[str], Page], samples: SampleGroups, healthy: Group) -> None:
    with samples.rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, log_end_offset,"
            " member_id) SELECT %s, 0, 'orders', 0, now() - n * interval '1 minute', 0, 1000 - n, ''"
            " FROM generate_series(1, 50) AS n",
            (healthy.group_id,),
        )
    page = shows(f"groups/{healthy.group_id}")

    expect(page.get_by_role("img", name=re.compile("Lag over the last hour: .* now"))).to_be_visible()
    expect(section(page, "Offsets").locator(".scatterlayer path.js-line")).to_have_count(2)
    expect(section(page, "Offsets").locator(".legendtext")).to_have_text(["records", "minutes"])
    assert not page.evaluate("document.querySelector('.main-svg').getBoundingClientRect().width < 600")


# -- diagnosis --------------------------------------------------------------------------------------------

JOINED = (
    "INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger,"
    " trigger_member_id, client_reason, started_at, completed_at, outcome, restarts, member_count_before,"
    " member_count_after, partitions_moved) SELECT gen_random_uuid(), group_id, shard_id, created_at, 1,"
    " 'member_joined', 'thumb-1-' || gen_random_uuid(), %(said)s, at - interval '8 s', at, 'completed', 0, 1, 1, 0"
    " FROM (SELECT now() - n * interval '1 min' AS at FROM generate_series(1, 3) AS n) AS times,"
    " groups WHERE group_id = %(group_id)s"
)
EVICTED = (
    "INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,"
    " session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,"
    " heartbeat_gap_ms_max, heartbeat_gap_histogram) SELECT group_id, shard_id, created_at, 'thumb-1-' || n, 'thumb-1',"
    " 'here', 1, 6000, ended - interval '2 min', ended - interval '2 min', ended,"
    " CASE n WHEN 0 THEN 'left' ELSE 'session_expired' END,"
    " ended - interval '6 s', 12, 1900, array_fill(0, ARRAY[11]) || 12 || array_fill(0, ARRAY[11])"
    " FROM (SELECT n, now() - n * (interval '2 min' + %(away)s::interval) AS ended FROM generate_series(0, 3) AS n)"
    " AS times, groups WHERE group_id = %(group_id)s"
)


def assert_evicted(samples: SampleGroups, group: Group, said: str) -> None:
    """Store three evictions of thumb-1, each with a rejoin after three seconds for this reason, and a leave."""
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    given = {"group_id": group.group_id, "said": said, "away": "3 s"}
    with samples.rows.cursor() as cursor:
        cursor.execute(EVICTED, given)
        cursor.execute(JOINED, given)


def test_pausing_client_is_diagnosed_with_a_timeout(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("pauses")
    assert_evicted(samples, group, "heartbeat: UNKNOWN_MEMBER_ID")
    page = shows("groups/pauses")

    found = page.get_by_role("complementary", name="Diagnosis")
    expect(found).to_contain_text("thumb-1 at here was evicted 3 times because it sent no heartbeat for 6 s")
    expect(found).to_contain_text("It was the same process: it pauses.")
    sessions = section(page, "Member sessions").locator("tbody tr")
    expect(sessions).to_have_count(4)
    expect(sessions.nth(1)).to_contain_text("session expired")
    expect(sessions.nth(1).get_by_role("img", name="gaps: 12 up to 2 s")).to_be_visible()
    expect(section(page, "Timeline")).to_contain_text("Most triggered by thumb-1 (3 of 3)")

    found.get_by_role("button", name="Try 15 s…").click()
    expect(page.get_by_role("dialog")).to_contain_text("suggested: 15,000 ms (15 s) (the diagnosis of the last hour)")
    expect(page.get_by_label("New value")).to_have_value("15000")
    decide(page, "it pauses", "Set")
    expect(section(page, "Settings").locator("tr", has_text="session_timeout_ms").first).to_contain_text("15 s")
    expect(found).to_have_count(0)


def test_restarting_client_is_diagnosed_without_a_timeout(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("crashes")
    assert_evicted(samples, group, "joining")
    page = shows("groups/crashes")

    found = page.get_by_role("complementary", name="Diagnosis")
    expect(found).to_contain_text("Each time it was a new process: it dies and is started again")
    expect(found.get_by_role("button")).to_have_count(0)


CRASHED = (
    "INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,"
    " session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,"
    " heartbeat_gap_ms_max, heartbeat_gap_histogram) SELECT group_id, shard_id, created_at, 'worker-' || n, 'worker',"
    " 'here', 1, 15000, ended - interval '43 s', ended - interval '43 s', ended, 'session_expired',"
    " ended - interval '15 s', 9, 3000, array_fill(0, ARRAY[12]) || 9 || array_fill(0, ARRAY[10])"
    " FROM (SELECT n, now() - n * interval '31 s' AS ended FROM generate_series(0, 3) AS n) AS times,"
    " groups WHERE group_id = %(group_id)s"
)
WAITED_FOR = (
    "INSERT INTO rebalance_members (rebalance_id, group_id, shard_id, group_created_at, completed_at, member_id,"
    " client_id, client_host, joined_after_ms, waited_for_ms, outcome)"
    " SELECT rebalance_id, group_id, 0, group_created_at, completed_at, 'worker-1', 'worker', 'here', NULL, 7000,"
    " 'evicted' FROM rebalances WHERE group_id = %(group_id)s"
)


def test_restart_before_eviction_is_reported_as_crash(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("crash-loop")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    with samples.rows.cursor() as cursor:
        cursor.execute(CRASHED, {"group_id": group.group_id})
        cursor.execute(JOINED, {"group_id": group.group_id, "said": "joining"})
        cursor.execute(WAITED_FOR, {"group_id": group.group_id})
    page = shows(f"groups/{group.group_id}")

    found = page.get_by_role("complementary", name="Diagnosis")
    expect(found).to_contain_text("worker at here died 3 times")
    expect(found).to_contain_text("Rebalances waited 21 s for it.")
    expect(found.get_by_role("button")).to_have_count(0)


LATE = (
    "INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,"
    " session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,"
    " heartbeat_gap_ms_max, heartbeat_gap_histogram) SELECT group_id, shard_id, created_at, 'worker-1', 'worker',"
    " 'here', 1, 45000, now() - interval '1 hour', now() - interval '1 hour', now() - interval '1 min',"
    " 'rebalance_timeout', now() - interval '62 s', 900, 3000,"
    " array_fill(0, ARRAY[12]) || 900 || array_fill(0, ARRAY[10])"
    " FROM groups WHERE group_id = %(group_id)s"
)


def test_live_member_that_missed_a_rebalance_is_diagnosed_as_alive(
    shows: Callable[[str], Page], samples: SampleGroups
) -> None:
    group = samples.client.group("late")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    group.client.ok("PUT", f"{group.path}/config", {"values": {"rebalance_timeout_ms": 10_000}, "reason": "advice"})
    with samples.rows.cursor() as cursor:
        cursor.execute(LATE, {"group_id": group.group_id})
    page = shows(f"groups/{group.group_id}")

    found = page.get_by_role("complementary", name="Diagnosis")
    expect(found).to_contain_text("worker at here was evicted once although it was alive")
    expect(found).to_contain_text("rebalance_timeout_ms is 10 s, set since for this group by ada at")
    expect(found).not_to_contain_text("dead")
    expect(found.get_by_role("button", name="Change rebalance_timeout_ms…")).to_be_visible()
    expect(section(page, "Member sessions").locator("tbody tr").first).to_contain_text("rebalance timeout, alive")


def test_healthy_group_has_no_findings(shows: Callable[[str], Page], healthy: Group) -> None:
    page = shows(f"groups/{healthy.group_id}")
    expect(section(page, "Member sessions")).to_contain_text("No member session has ended within the last day")
    expect(page.get_by_role("complementary", name="Diagnosis")).to_have_count(0)


# -- changing ---------------------------------------------------------------------------------------------


def test_timeout_is_changed_with_a_reason_and_undone(
    shows: Callable[[str], Page], client: Client, flapping: Group
) -> None:
    page = shows(f"groups/{flapping.group_id}")
    page.get_by_role("button", name="Change session_timeout_ms").click()
    page.get_by_label("New value").fill("30000")
    decide(page, "evicted too soon", "Set")

    setting = section(page, "Settings").locator("tr", has_text="session_timeout_ms").first
    expect(setting).to_contain_text("30,000 ms (30 s)")
    expect(setting).to_contain_text("this group")
    change = section(page, "Changes").locator("tbody tr").first
    expect(change).to_contain_text("evicted too soon")
    expect(change).to_contain_text("ada")
    assert flapping.describe()["config"]["session_timeout_ms"] == 30_000

    change.get_by_role("button", name=re.compile("Undo")).click()
    decide(page, "it was not that", "Undo")

    expect(setting).to_contain_text("requested by each client")
    expect(section(page, "Changes").locator("tbody tr", has_text="undone")).to_have_count(1)
    assert flapping.describe()["config"]["session_timeout_ms"] is None


def test_node_that_has_not_confirmed_the_settings_is_listed(context: BrowserContext, databases: Databases) -> None:
    url = databases.create()
    with running_node(url, request_timeout_ms=30_000) as node, closing(Client(node.url)) as client:
        with hanging_node(url) as hanging:
            client.ok("PUT", "/v1/config", {"values": {"group_max_size": 7}, "reason": "a test"})
            page = context.new_page()
            page.goto(f"{node.url}/#/settings")
            notice = page.get_by_role("status", name="Unconfirmed nodes")
            expect(notice.get_by_role("listitem")).to_have_text([hanging])
        expect(notice).to_have_count(0)
    databases.drop(url)


def test_cluster_setting_applies_to_every_group(shows: Callable[[str], Page], flapping: Group) -> None:
    page = shows("")
    expect(page.get_by_role("link", name=flapping.group_id)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.get_by_role("button", name="Change offset_metadata_max_bytes").click()
    page.get_by_label("New value").fill("5000")
    decide(page, "notes are longer now", "Set")

    setting = page.locator("tr", has_text="offset_metadata_max_bytes")
    expect(setting).to_contain_text("5,000")
    expect(setting).to_contain_text("the cluster")
    assert flapping.describe()["config"]["offset_metadata_max_bytes"] == 5_000

    page.get_by_role("button", name="Change offset_metadata_max_bytes").click()
    page.get_by_label("New value").fill("")
    decide(page, "they are not", "Set")
    expect(setting).to_contain_text("4,096")


def test_rejection_is_shown_in_the_dialog_which_remains_open(
    shows: Callable[[str], Page], client: Client, flapping: Group
) -> None:
    page = shows(f"groups/{flapping.group_id}")
    page.get_by_role("button", name="Change session_timeout_ms").click()
    page.get_by_label("New value").fill("1")
    decide(page, "a typing error", "Set")
    refusal = client.call(
        "PUT", f"{flapping.path}/config", {"values": {"session_timeout_ms": 1}, "reason": "the same"}
    ).json["detail"]

    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text(re.compile(re.escape(refusal[1:])))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_advice_is_applied_with_its_own_reason(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("advised")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    past = Past(group, samples.rows)
    past.flap(6, timedelta(seconds=6))
    page = shows("groups/advised")
    card = section(page, "Advice").locator(".card.recommended")
    expect(card).to_contain_text("10,000 ms (10 s) → 20,000 ms (20 s)")
    expect(card).to_contain_text("6 spurious evictions")

    card.get_by_role("button", name="Apply 20 s").click()
    expect(page.get_by_label("Reason")).to_have_value(re.compile("^advice: .* spurious evictions"))
    expect(page.get_by_role("dialog")).to_contain_text(
        re.compile(r"suggested: 20,000 ms \(20 s\) \(the advice from this group’s history: .* spurious evictions")
    )
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("dialog").get_by_role("button", name="Set").click()

    expect(section(page, "Changes")).to_contain_text("advice: 10000 ms has up to 6")
    assert group.describe()["config"]["session_timeout_ms"] == 20_000


def test_a_change_is_undone_from_its_confirmation(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("undone-at-once")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    page = shows("groups/undone-at-once")
    page.get_by_role("button", name="Change group_max_size").click()
    page.get_by_label("New value").fill("7")
    decide(page, "a try", "Set")
    row = section(page, "Settings").locator("tr", has_text="group_max_size")
    expect(row).to_contain_text("this group")

    page.get_by_text("group_max_size updated.").get_by_role("button", name="Undo…").click()
    decide(page, "it was one", "Undo")
    expect(row).not_to_contain_text("this group")

    page.get_by_role("button", name="Delete the group…").click()
    decide(page, "no longer used", "Delete")
    page.get_by_text("Group deleted.").get_by_role("button", name="Undo…").click()
    decide(page, "it is", "Undo")
    expect(page.locator(".facts")).to_contain_text("Empty")


def test_a_member_is_removed_and_an_empty_group_deleted(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("short-lived")
    group.stable()
    page = shows("groups/short-lived")
    section(page, "Members").get_by_role("button", name=re.compile("Remove")).click()
    expect(page.get_by_role("dialog")).to_contain_text("This cannot be undone.")
    decide(page, "it hangs", "Remove member")
    expect(section(page, "Members")).to_contain_text("This group has no members")

    page.get_by_role("button", name="Delete the group…").click()
    decide(page, "no longer used", "Delete")
    expect(page.locator(".facts")).to_contain_text("Dead")
    expect(section(page, "Changes")).to_contain_text("group deleted")


def test_offsets_are_reset_after_a_preview_and_restored_by_undo(
    shows: Callable[[str], Page], samples: SampleGroups
) -> None:
    group = samples.client.group("rewound")
    group.post(
        "offsets",
        {**SIMPLE_CONSUMER, "offsets": [position(500, topic="bids", partition=number) for number in range(3)]},
    )
    page = shows("groups/rewound")
    page.get_by_role("button", name="Reset offsets…").click()
    page.get_by_label("To", exact=True).select_option("shift")
    page.get_by_label("Number of records").fill("a lot")
    page.get_by_label("Topic").fill("bids:0,2")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("as a whole number")
    page.get_by_label("Number of records").fill("-100")
    page.get_by_role("button", name="Preview").click()

    expect(page.get_by_role("dialog", name="Reset 2 offsets?")).to_contain_text("-100")
    expect(page.get_by_role("region", name="Preview").locator("tbody tr")).to_have_count(2)
    assert committed(group) == [500, 500, 500]
    decide(page, "a bad release", "Reset")
    expect(section(page, "Offsets").locator("tbody")).to_contain_text("400")
    assert committed(group) == [400, 500, 400]

    change = section(page, "Changes").locator("tbody tr").first
    expect(change).to_contain_text("a bad release")
    change.get_by_role("button", name=re.compile("Undo")).click()
    decide(page, "it was good", "Undo")
    expect(section(page, "Offsets").locator("tbody")).not_to_contain_text("400")
    assert committed(group) == [500, 500, 500]


def test_offset_deletion_shows_its_count_and_undo(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("tidied")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(7, partition=number) for number in range(3)]})
    for topic in ("orders", "nothing-here"):
        samples.client.ok("DELETE", f"{group.path}/offsets?topic={topic}&reason=tidy")
    page = shows("groups/tidied")

    changes = section(page, "Changes").locator("tbody tr")
    expect(changes).to_have_count(2)
    nothing, all_of_it = changes.all()
    expect(nothing).to_contain_text("nothing-here 0 offsets")
    expect(nothing.get_by_role("button", name=re.compile("Undo"))).to_have_count(0)
    expect(all_of_it).to_contain_text("orders 3 offsets")
    expect(all_of_it.get_by_role("button", name=re.compile("Undo"))).to_have_count(1)


def committed(group: Group) -> list[int]:
    return [each["offset"] for each in group.client.ok("GET", f"{group.path}/offsets")["offsets"]]


def test_group_with_members_reports_why_its_offsets_are_kept(shows: Callable[[str], Page], healthy: Group) -> None:
    page = shows(f"groups/{healthy.group_id}")
    expect(section(page, "Members").locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Reset offsets…").click()
    expect(page.get_by_role("dialog")).to_contain_text("The group has 2 members: stop them first")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    page.keyboard.press("Escape")


def test_a_rebalance_is_forced_with_a_reason(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    group = samples.client.group("shaken")
    group.stable()
    page = shows("groups/shaken")
    page.get_by_role("button", name="Force a rebalance…").click()
    expect(page.get_by_role("dialog")).to_contain_text("This cannot be undone.")
    decide(page, "to spread it anew", "Force a rebalance")

    expect(page.get_by_text(re.compile("Waiting for 1 member"))).to_be_visible()
    expect(section(page, "Rebalances")).to_contain_text("Requested by an operator")


# -- maintenance ------------------------------------------------------------------------------------------


def candidates(page: Page) -> Locator:
    return page.get_by_role("table", name="Candidates").locator("tbody tr")


def test_maintenance_run_is_reviewed_and_applied(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    run_id = samples.proposal(samples.client.group("long-gone"))
    page = shows("maintenance")
    page.locator("tbody tr", has_text=run_id[:8]).get_by_role("link").click()
    expect(candidates(page)).to_have_count(3)
    expect(candidates(page).first).to_contain_text("undecided")
    expect(page.get_by_role("table", name="Counts")).to_contain_text("Candidates3")

    page.keyboard.press("a")
    decide(page, "looked through", "Apply")

    expect(page.get_by_role("heading", level=1)).to_contain_text("applied")
    expect(candidates(page).first).to_contain_text("not due")

    page.get_by_text("Applying the run.").get_by_role("button", name="Undo…").click()
    decide(page, "too soon", "Undo")
    expect(page.get_by_text("A maintenance run restores 0 offsets.")).to_be_visible()


def test_maintenance_run_is_rejected(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    run_id = samples.proposal(samples.client.group("kept"))
    page = shows(f"maintenance/{run_id}")
    page.get_by_role("button", name=re.compile("Reject")).click()
    decide(page, "not on a Friday", "Reject")

    expect(page.get_by_role("heading", level=1)).to_contain_text("rejected")
    expect(page.get_by_role("button", name=re.compile("Apply"))).to_have_count(0)
    expect(page.get_by_role("definition").filter(has_text="not on a Friday")).to_be_visible()


def test_pages_of_candidates_follow_each_other(shows: Callable[[str], Page], samples: SampleGroups) -> None:
    run_id = samples.proposal(samples.client.group("many"), offsets=120)
    page = shows(f"maintenance/{run_id}")
    expect(candidates(page)).to_have_count(100)
    page.keyboard.press("n")
    expect(candidates(page)).to_have_count(20)
    page.keyboard.press("p")
    expect(candidates(page)).to_have_count(100)


def test_date_is_local_midnight_and_large_numbers_are_rejected(
    shows: Callable[[str], Page], time_zone: Callable[[str], None], samples: SampleGroups
) -> None:
    group = samples.client.group("far-east")
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(500)]})
    time_zone("Asia/Tokyo")
    page = shows("groups/far-east")
    page.get_by_role("button", name="Reset offsets…").click()
    page.get_by_label("To", exact=True).select_option("offset")
    page.get_by_label("Number of records").fill("9007199254740993")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("too large for a browser")
    page.get_by_label("To", exact=True).select_option("datetime")
    page.get_by_label("Number of records").fill("2026-11-22")
    with page.expect_request("**/offsets/reset") as asked:
        page.get_by_role("button", name="Preview").click()
    body = asked.value.post_data_json
    assert body and body["datetime"] == "2026-11-21T15:00:00.000Z"  # noqa: PT018 - one thing
