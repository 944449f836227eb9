"""Timeout advice over HTTP: from a report or computed live, and the estimated effect of other timeouts."""

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


def test_flapping_group_is_advised_a_longer_session_timeout(past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    response = past.tuning()
    assert (response["source"], response["run_id"], response["what_if"]) == ("live", None, None)
    advice = response["advice"]["session_timeout_ms"]
    assert (advice["verdict"], advice["present"], advice["value"]) == ("change", 10_000, 20_000)
    assert advice["effect"]["evictions_avoided"] == 6
    assert response["back_test"]["is_passed"]
    assert {each["verdict"] for key, each in response["advice"].items() if key != "session_timeout_ms"} == {
        "too_little_data"
    }


def test_the_keys_of_advice_are_those_of_the_settings(client: Client, past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    advice = past.tuning()
    assert advice["advice"].keys() <= client.ok("GET", f"{past.group.path}/config")["values"].keys()
    assert advice["effective"] == {
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3_000,
        "rebalance_timeout_ms": None,
        "group_initial_rebalance_delay_ms": 0,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
    }


def test_tuning_returns_effective_settings(client: Client, past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    values = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 90_000, "group_max_session_timeout_ms": 40_000}
    client.ok("PUT", f"{past.group.path}/config", {"values": values, "reason": "a test"})
    advice = past.tuning()
    assert advice["effective"] | values == advice["effective"]
    assert advice["advice"]["session_timeout_ms"]["verdict"] == "keep"


def test_recent_report_is_returned_instead(past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    past.report(past.now - timedelta(hours=3), present_ms=10_000)
    advice = past.tuning()
    assert (advice["source"], advice["advice"]["session_timeout_ms"]["because"]) == ("report", "it flaps")
    assert (advice["run_id"] is None, advice["back_test"]) == (False, {"is_passed": True})
    window = [datetime.fromisoformat(advice["window"][end]) for end in ("from", "to")]
    assert window[1] - window[0] == timedelta(days=28)


@pytest.mark.parametrize(("age", "present_ms"), [(timedelta(hours=49), 10_000), (timedelta(hours=1), 45_000)])
def test_outdated_report_is_not_returned(past: Past, age: timedelta, present_ms: int) -> None:
    past.flap(6, timedelta(seconds=6))
    past.report(past.now - age, present_ms)
    assert past.tuning()["source"] == "live"


def test_timeout_that_could_not_be_set_is_not_advised(client: Client, past: Past) -> None:
    for number in range(6):
        ended = past.now - number * DAY - MINUTE
        past.session("member", ended, "session_expired" if number == 3 else "hour", ended - MINUTE, timeout_ms=45_000)
    advised = past.tuning()["advice"]["session_timeout_ms"]
    assert (advised["verdict"], advised["value"]) == ("change", 6_000)
    values = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 9_000}
    client.ok("PUT", f"{past.group.path}/config", {"values": values, "reason": "a test"})
    assert past.tuning()["advice"]["session_timeout_ms"]["value"] == 9_001
    past.report(past.now - timedelta(hours=3), present_ms=45_000)
    assert past.tuning()["source"] == "report"
    values = {"heartbeat_interval_ms": 20_000}
    client.ok("PUT", f"{past.group.path}/config", {"values": values, "reason": "a test"})
    assert past.tuning()["source"] == "live"


def test_incomplete_recommendation_of_a_report_is_left_out(past: Past) -> None:
    complete = {"name": "static_membership", "because": "it restarts", "effect": {"rebalances_avoided": 2}}
    past.flap(6, timedelta(seconds=6))
    past.report(past.now - timedelta(hours=3), present_ms=10_000)
    past.execute(
        "UPDATE timeout_advice SET recommendations = %s WHERE group_id = %s",
        (json.dumps([{"name": "static_membership"}, {**complete, "since": 3}]), past.group.group_id),
    )
    assert past.tuning()["recommendations"] == [complete]


def test_new_group_reports_too_little_data(group: Group) -> None:
    group.stable()
    advice = group.client.ok("GET", f"{group.path}/tuning")
    assert {each["verdict"] for each in advice["advice"].values()} == {"too_little_data"}
    assert advice["effective"]["session_timeout_ms"] is not None


def test_unknown_group_is_not_found(client: Client) -> None:
    assert client.call("GET", f"/v1/groups/{fresh_id()}/tuning").code == "GROUP_ID_NOT_FOUND"


# -- what if --------------------------------------------------------------------------------------------------


def test_eviction_is_reported_with_the_timeout_it_needed(past: Past) -> None:
    past.flap(2, timedelta(seconds=6))
    dead = past.now - timedelta(hours=9)
    past.session("dead", dead, "session_expired", dead - MINUTE)
    tried = past.tuning("?session_timeout_ms=17000")["what_if"]["session_timeout_ms"]
    assert [(each["client_id"], each["needed_ms"]) for each in tried["avoided"]] == [("flapping", 16_000)] * 2
    assert tried["avoided"][0]["reconnected_at"] > tried["avoided"][0]["at"]
    assert [(each["client_id"], each["seen_later_ms"]) for each in tried["failures"]] == [("dead", 7_000)]
    assert (tried["detection_added_ms"], tried["added_at_most"], tried["remaining"]) == (7_000, 0, [])


def test_shorter_timeout_reports_more_evictions(client: Client, past: Past) -> None:
    past.flap(2, timedelta(seconds=6))
    lower = {"group_min_session_timeout_ms": 1_000}
    client.ok("PUT", f"{past.group.path}/config", {"values": lower, "reason": "a test"})
    tried = past.tuning("?session_timeout_ms=2000")["what_if"]["session_timeout_ms"]
    assert (tried["added_at_least"], tried["added_at_most"]) == (4 * 400, 4 * 400)
    assert len(tried["remaining"]) == 2


def test_rebalance_timeout_is_simulated(past: Past) -> None:
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
        ("session_timeout_ms=soon", "session_timeout_ms must be a whole number"),
        ("sesion_timeout_ms=9000", "the query has an unknown parameter sesion_timeout_ms"),
    ],
)
def test_what_if_of_an_invalid_timeout_is_refused(group: Group, query: str, complaint: str) -> None:
    group.stable()
    answer = group.client.call("GET", f"{group.path}/tuning?{query}")
    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert complaint in answer.json["detail"]


def test_session_timeout_shorter_than_the_heartbeat_interval_is_rejected(client: Client, group: Group) -> None:
    group.stable()
    slow = {"heartbeat_interval_ms": 9_000}
    client.ok("PUT", f"{group.path}/config", {"values": slow, "reason": "a test"})
    answer = client.call("GET", f"{group.path}/tuning?session_timeout_ms=8000")
    assert answer.json["detail"] == "heartbeat_interval_ms (9000) must be below the session timeout (8000)"


def test_cost_of_a_timeout_is_returned_with_the_cost_of_the_effective_one(past: Past) -> None:
    past.flap(2, timedelta(seconds=6))
    tried = past.tuning("?session_timeout_ms=17000")["what_if"]["session_timeout_ms"]
    assert (tried["cost"]["evictions"], tried["present_cost"]["evictions"]) == (0, 2)
    assert tried["present_cost"]["repeated_work_ms"] == 2 * 10_000


def test_members_that_are_restarted_are_recommended_static_membership(past: Past) -> None:
    """Three times a member leaves, and its client is back within the session; each time the group rebalances twice."""
    for number in range(3):
        left = past.now - timedelta(hours=number + 1)
        past.session("deployed", left, "left", left - MINUTE)
        past.session("deployed", left + 30 * MINUTE, "hour", left + timedelta(seconds=4))
        for trigger, at in (("member_left", left), ("member_joined", left + timedelta(seconds=4))):
            past.rebalance(at, trigger)
    advice = past.tuning()
    (found,) = advice["recommendations"]
    assert (found["name"], found["effect"]["restarts"], found["effect"]["rebalances_saved"]) == (
        "static_membership",
        3,
        6,
    )
    assert "saves up to 6 of 6 rebalances and 12 s without reading" in found["because"]


def test_report_recommendation_is_shown_until_followed(past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    past.report(past.now - timedelta(hours=3), present_ms=10_000)
    count_startups = {"name": "cooperative-sticky", "because": "it moves little", "effect": {"rebalances": 12}}
    update = "UPDATE timeout_advice SET recommendations = %s WHERE group_id = %s"
    past.execute(update, (json.dumps([count_startups]), past.group.group_id))
    assert past.tuning()["recommendations"] == [count_startups]
    group = (
        "INSERT INTO groups (group_id, shard_id, state, state_since, protocol_name) VALUES (%s, %s, 'Empty', now(), %s)"
    )
    past.execute(group, (past.group.group_id, shard_of(past.group.group_id, 50), "cooperative-sticky"))
    assert past.tuning()["recommendations"] == []


# -- reports --------------------------------------------------------------------------------------------------


def test_the_newest_advice_on_each_group_is_listed(client: Client, past: Past) -> None:
    past.report(past.now - DAY, present_ms=10_000)
    past.report(past.now, present_ms=12_000)
    advice = client.ok("GET", f"/v1/reports/timeouts?group_id={past.group.group_id}")
    (report,) = advice["reports"]
    assert (report["session_present_ms"], report["session_advised_ms"], advice["next_cursor"]) == (12_000, 20_000, None)
    assert (report["rebalance_advised_ms"], report["session_effect"]) == (None, {"evictions_avoided": 7})
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/reports/timeouts", advice)


def test_response_matches_the_openapi_document(client: Client, past: Past) -> None:
    past.flap(6, timedelta(seconds=6))
    advice = past.tuning("?session_timeout_ms=17000&rebalance_timeout_ms=60000")
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/groups/{group_id}/tuning", advice)
