"""Tuning over HTTP: advice from a group's own past, from a report or on demand, and what other timeouts would do."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.hashing import shard_of
from tests.integration.http.openapi import answer_fits
from tests.support.http_client import Client, Group, fresh_id
from tests.support.tuning_history import DAY, MINUTE, Past

Json = Any


@pytest.fixture
def past(group: Group, rows: PsycopgConnection) -> Past:
    return Past(group, rows)


# -- advice ---------------------------------------------------------------------------------------------------


def test_a_group_that_flaps_is_advised_a_longer_session_from_its_own_past(past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    told = past.tuning()
    assert (told["source"], told["run_id"], told["what_if"]) == ("live", None, None)
    advice = told["advice"]["session_timeout_ms"]
    assert (advice["verdict"], advice["present"], advice["value"]) == ("change", 10_000, 20_000)
    assert advice["effect"]["evictions_avoided"] == 6
    assert told["back_test"]["is_passed"]
    assert {each["verdict"] for key, each in told["advice"].items() if key != "session_timeout_ms"} == {
        "too_little_data"
    }


def test_the_keys_of_advice_are_those_of_the_settings(client: Client, past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    told = past.tuning()
    assert told["advice"].keys() <= client.ok("GET", f"{past.group.path}/config")["values"].keys()
    assert told["in_force"] == {
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3_000,
        "rebalance_timeout_ms": None,
        "group_initial_rebalance_delay_ms": 0,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
    }


def test_what_is_set_is_what_is_in_force(client: Client, past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    values = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 90_000, "group_max_session_timeout_ms": 40_000}
    client.ok("PUT", f"{past.group.path}/config", {"values": values, "reason": "a test"})
    told = past.tuning()
    assert told["in_force"] | values == told["in_force"]
    assert told["advice"]["session_timeout_ms"]["verdict"] == "keep"


def test_a_young_report_is_told_instead(past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    past.report(past.now - timedelta(hours=3), present_ms=10_000)
    told = past.tuning()
    assert (told["source"], told["advice"]["session_timeout_ms"]["because"]) == ("report", "it flaps")
    assert (told["run_id"] is None, told["back_test"]) == (False, {"is_passed": True})
    window = [datetime.fromisoformat(told["window"][end]) for end in ("from", "to")]
    assert window[1] - window[0] == timedelta(days=28)


@pytest.mark.parametrize(("age", "present_ms"), [(timedelta(hours=49), 10_000), (timedelta(hours=1), 45_000)])
def test_a_report_that_is_old_or_speaks_of_another_value_is_not(past: Past, age: timedelta, present_ms: int) -> None:
    past.flap(6, timedelta(seconds=6))
    past.report(past.now - age, present_ms)
    assert past.tuning()["source"] == "live"


def test_a_group_of_a_moment_ago_is_told_that_too_little_is_known(group: Group) -> None:
    group.stable()
    told = group.client.ok("GET", f"{group.path}/tuning")
    assert {each["verdict"] for each in told["advice"].values()} == {"too_little_data"}
    assert told["in_force"]["session_timeout_ms"] is not None


def test_a_group_that_nobody_ever_saw_is_not_found(client: Client) -> None:
    assert client.call("GET", f"/v1/groups/{fresh_id()}/tuning").code == "GROUP_ID_NOT_FOUND"


# -- what if --------------------------------------------------------------------------------------------------


def test_each_eviction_is_told_with_what_it_needed(past: Past) -> None:
    past.flap(2, timedelta(seconds=6))
    dead = past.now - timedelta(hours=9)
    past.stay("dead", dead, "session_expired", dead - MINUTE)
    tried = past.tuning("?session_timeout_ms=17000")["what_if"]["session_timeout_ms"]
    assert [(each["client_id"], each["needed_ms"]) for each in tried["avoided"]] == [("flapping", 16_000)] * 2
    assert tried["avoided"][0]["back_at"] > tried["avoided"][0]["at"]
    assert [(each["client_id"], each["seen_later_ms"]) for each in tried["failures"]] == [("dead", 7_000)]
    assert (tried["detection_added_ms"], tried["added_at_most"], tried["remaining"]) == (7_000, 0, [])


def test_a_shorter_timeout_is_told_to_put_more_out(client: Client, past: Past) -> None:
    past.flap(2, timedelta(seconds=6))
    lower = {"group_min_session_timeout_ms": 1_000}
    client.ok("PUT", f"{past.group.path}/config", {"values": lower, "reason": "a test"})
    tried = past.tuning("?session_timeout_ms=2000")["what_if"]["session_timeout_ms"]
    assert (tried["added_at_least"], tried["added_at_most"]) == (4 * 400, 4 * 400)
    assert len(tried["remaining"]) == 2


def test_a_rebalance_timeout_is_tried_out_too(past: Past) -> None:
    past.flap(2, timedelta(seconds=6))
    what_if = past.tuning("?rebalance_timeout_ms=60000")["what_if"]
    assert what_if["session_timeout_ms"] is None
    assert what_if["rebalance_timeout_ms"] == {
        "value": 60_000,
        "cost": {"rebalances": 0, "evictions": 0, "stood_still_ms": 0, "repeated_work_ms": 0},
        "present_cost": None,
        "avoided": [],
        "remaining": [],
        "no_shows": [],
        "waiting_added_ms": 0,
        "added": 0,
    }


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("session_timeout_ms=0", "session_timeout_ms must be from 1 to 2147483647"),
        ("session_timeout_ms=-5", "session_timeout_ms must be from 1 to 2147483647"),
        ("session_timeout_ms=5999", "session_timeout_ms (5999) must be from 6000 to 1800000"),
        ("session_timeout_ms=1800001", "session_timeout_ms (1800001) must be from 6000 to 1800000"),
        ("session_timeout_ms=99999999999", "session_timeout_ms must be from 1 to 2147483647"),
        ("rebalance_timeout_ms=999", "rebalance_timeout_ms must be from 1000 to 2147483647"),
        ("session_timeout_ms=soon", "session_timeout_ms"),
        ("sesion_timeout_ms=9000", "the query has an unknown parameter sesion_timeout_ms"),
    ],
)
def test_a_timeout_that_could_not_be_set_is_not_tried_out(group: Group, query: str, complaint: str) -> None:
    group.stable()
    answer = group.client.call("GET", f"{group.path}/tuning?{query}")
    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert complaint in answer.json["detail"]


def test_a_session_that_its_heartbeats_would_not_keep_alive_is_refused(client: Client, group: Group) -> None:
    group.stable()
    slow = {"heartbeat_interval_ms": 9_000}
    client.ok("PUT", f"{group.path}/config", {"values": slow, "reason": "a test"})
    answer = client.call("GET", f"{group.path}/tuning?session_timeout_ms=8000")
    assert answer.json["detail"] == "heartbeat_interval_ms (9000) must be below the session timeout (8000)"


def test_the_whole_cost_of_a_timeout_stands_beside_that_of_the_one_in_force(past: Past) -> None:
    past.flap(2, timedelta(seconds=6))
    tried = past.tuning("?session_timeout_ms=17000")["what_if"]["session_timeout_ms"]
    assert (tried["cost"]["evictions"], tried["present_cost"]["evictions"]) == (0, 2)
    assert tried["present_cost"]["repeated_work_ms"] == 2 * 10_000


def test_members_that_are_restarted_are_recommended_static_membership(past: Past) -> None:
    """Three times a member leaves, and its client is back within the session; each time the group rebalances twice."""
    for number in range(3):
        left = past.now - timedelta(hours=number + 1)
        past.stay("deployed", left, "left", left - MINUTE)
        past.stay("deployed", left + 30 * MINUTE, "hour", left + timedelta(seconds=4))
        for trigger, at in (("member_left", left), ("member_joined", left + timedelta(seconds=4))):
            past.rebalance(at, trigger)
    told = past.tuning()
    (found,) = told["recommendations"]
    assert (found["name"], found["effect"]["restarts"], found["effect"]["rebalances_saved"]) == (
        "static_membership",
        3,
        6,
    )
    assert "saves up to 6 of 6 rebalances and 12 s without reading" in found["because"]


def test_a_recommendation_of_a_report_is_told_until_it_was_followed(past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    past.report(past.now - timedelta(hours=3), present_ms=10_000)
    followed = {"name": "cooperative-sticky", "because": "it moves little", "effect": {"rebalances": 12}}
    update = "UPDATE timeout_advice SET recommendations = %s WHERE group_id = %s"
    past.execute(update, (json.dumps([followed]), past.group.group_id))
    assert past.tuning()["recommendations"] == [followed]
    group = (
        "INSERT INTO groups (group_id, shard_id, state, state_since, protocol_name) VALUES (%s, %s, 'Empty', now(), %s)"
    )
    past.execute(group, (past.group.group_id, shard_of(past.group.group_id, 50), "cooperative-sticky"))
    assert past.tuning()["recommendations"] == []


# -- reports --------------------------------------------------------------------------------------------------


def test_the_newest_advice_on_each_group_is_listed(client: Client, past: Past) -> None:
    past.report(past.now - DAY, present_ms=10_000)
    past.report(past.now, present_ms=12_000)
    told = client.ok("GET", f"/v1/reports/timeouts?group_id={past.group.group_id}")
    (report,) = told["reports"]
    assert (report["session_present_ms"], report["session_advised_ms"], told["next_cursor"]) == (12_000, 20_000, None)
    assert (report["rebalance_advised_ms"], report["session_effect"]) == (None, {"evictions_avoided": 7})
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/reports/timeouts", told)


def test_the_answer_is_as_the_document_has_it(client: Client, past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    told = past.tuning("?session_timeout_ms=17000&rebalance_timeout_ms=60000")
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/groups/{group_id}/tuning", told)
