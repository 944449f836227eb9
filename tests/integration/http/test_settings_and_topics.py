"""Settings and the topic metadata."""

from urllib.parse import quote

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.integration.http.openapi import answer_fits
from tests.support.http_client import Client, Group, fresh_id, join_body, position
from tests.support.offset_log import wait_for_checkpoint

# -- settings -------------------------------------------------------------------------------------------


def test_settings_are_returned_with_their_source(client: Client, group: Group) -> None:
    shown = client.ok("GET", f"{group.path}/config")["values"]

    assert shown["offsets_retention_minutes"] == {"value": 10_080, "source": "default"}
    assert shown["group_initial_rebalance_delay_ms"] == {"value": 0, "source": "environment"}


def test_group_settings_override_and_null_resets(client: Client, group: Group) -> None:
    def put(path: str, value: int | None) -> None:
        client.ok("PUT", path, {"values": {"group_max_size": value}, "reason": "a test"})

    def shown() -> object:
        return client.ok("GET", f"{group.path}/config")["values"]["group_max_size"]

    put("/v1/config", 100)
    put(f"{group.path}/config", 3)
    assert shown() == {"value": 3, "source": "group"}

    put(f"{group.path}/config", None)
    assert shown() == {"value": 100, "source": "cluster"}

    put("/v1/config", None)
    assert shown() == {"value": 10_000, "source": "default"}


def test_change_of_settings_returns_the_effective_settings(client: Client, group: Group) -> None:
    answer = client.call("PUT", f"{group.path}/config", {"values": {"session_timeout_ms": 9_000}, "reason": "a test"})

    assert answer.json == client.ok("GET", f"{group.path}/config")
    assert answer.headers["x-muster-change-id"]


def test_changed_setting_is_effective_at_once_on_the_node_that_stored_it(client: Client, group: Group) -> None:
    client.ok("PUT", f"{group.path}/config", {"values": {"session_timeout_ms": 9_000}, "reason": "a test"})

    assert group.join().joined["session_timeout_ms"] == 9_000


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"group_max_sise": 3}, "group_max_sise"),
        ({"group_max_size": "many"}, "group_max_size"),
        ({"group_max_size": 0}, "group_max_size"),
        ({"group_sync_timeout_scope": "static"}, "group_sync_timeout_scope"),
        ({"group_min_session_timeout_ms": 2_000_000}, "group_min_session_timeout_ms"),
    ],
)
def test_invalid_setting_is_named(client: Client, group: Group, values: dict[str, object], named: str) -> None:
    answer = client.call("PUT", f"{group.path}/config", {"values": values, "reason": "a test"})

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert named in answer.json["detail"]


def test_actor_and_reason_of_a_changed_setting_are_recorded(
    client: Client, group: Group, rows: PsycopgConnection
) -> None:
    answer = client.call("PUT", f"{group.path}/config", {"values": {"group_max_size": 3}, "reason": "too many"})

    with rows.cursor() as cursor:
        query = "SELECT actor, reason FROM changes WHERE change_id = %s"
        cursor.execute(query, (answer.headers["x-muster-change-id"],))
        assert cursor.fetchall() == [("ada", "too many")]


# -- topics ---------------------------------------------------------------------------------------------


def test_topic_is_stored_and_listed(client: Client) -> None:
    topic = fresh_id("eu/orders ")

    put = client.ok("PUT", f"/v1/topics/{quote(topic, safe='')}", {"partitions": 12, "log_start_offset": 5})

    assert put == {"topic": topic, "partitions": 12, "log_start_offset": 5}
    assert put in client.ok("GET", "/v1/topics")["topics"]


def test_topics_are_listed_with_groups_and_lag_in_pages(client: Client, rows: PsycopgConnection) -> None:
    prefix = fresh_id("listed")
    for name, lag in (("low", 5), ("high", 50), ("unread", None)):
        client.ok("PUT", f"/v1/topics/{prefix}-{name}", {"partitions": 1})
        if lag is not None:
            ends = position(10, topic=f"{prefix}-{name}", log_end_offset=10 + lag)
            client.group(fresh_id()).post("offsets", {"generation": -1, "member_id": "", "offsets": [ends]})
    wait_for_checkpoint(rows)

    first = client.ok("GET", f"/v1/overview/topics?q={prefix}&limit=2")
    rest = client.ok("GET", f"/v1/overview/topics?q={prefix}&limit=2&cursor={first['next_cursor']}")

    found = [(each["topic"], each["group_count"], each["lag"]) for each in [*first["topics"], *rest["topics"]]]
    assert found == [(f"{prefix}-high", 1, 50), (f"{prefix}-low", 1, 5), (f"{prefix}-unread", 0, None)]
    assert (first["topic_count"], rest["topic_count"], rest["next_cursor"]) == (3, 3, None)
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/overview/topics", first)


def test_partition_count_can_only_be_raised(client: Client) -> None:
    topic = fresh_id("topic")
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 3, "log_start_offset": 5})

    assert client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 4})["log_start_offset"] == 5
    refused = client.call("PUT", f"/v1/topics/{topic}", {"partitions": 2})

    assert (refused.status, refused.code) == (400, "INVALID_REQUEST")
    assert "partitions" in refused.json["detail"]


def test_raised_partition_count_rebalances_subscribers(client: Client, group: Group) -> None:
    topic = fresh_id("topic")
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1})
    member = group.stable(protocols=[{"name": "range", "metadata": {"topics": [topic]}}])

    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 2})

    assert member.post("heartbeat").code == "REBALANCE_IN_PROGRESS"


def test_full_group_rejects_new_members(client: Client, group: Group) -> None:
    client.ok("PUT", f"{group.path}/config", {"values": {"group_max_size": 1}, "reason": "a test"})
    group.stable()

    answer = group.post("join", join_body())

    assert (answer.status, answer.code, answer.json["action"]) == (409, "GROUP_MAX_SIZE_REACHED", "fix")


# -- one topic ------------------------------------------------------------------------------------------


def test_topic_is_described_with_its_groups(client: Client, group: Group, topic: str, rows: PsycopgConnection) -> None:
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 3, "reason": "a test"})
    group.stable(topic).commit(position(5, topic=topic, log_end_offset=9))
    wait_for_checkpoint(rows)

    found = client.ok("GET", f"/v1/topics/{topic}")

    (reading,) = found["groups"]
    assert (found["topic"], found["partition_count"], found["log_start_offset"]) == (topic, 3, 0)
    assert [(each["partition"], each["log_end_offset"], each["group_count"]) for each in found["partitions"]] == [
        (0, 9, 1)
    ]
    assert (reading["group_id"], reading["state"], reading["lag"]) == (group.group_id, "Stable", 4)
    assert (reading["member_count"], reading["is_subscribed"], reading["partition_count"]) == (1, True, 1)
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/topics/{topic}", found)


@pytest.mark.parametrize("name", ["no-such", "a%2Fb%3Fc", "%F0%9F%A6%86"])
def test_unknown_topic_is_not_found(client: Client, name: str) -> None:
    answer = client.call("GET", f"/v1/topics/{name}")

    assert (answer.status, answer.code) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_topic_with_a_slash_is_described(client: Client, group: Group, rows: PsycopgConnection) -> None:
    topic = f"{fresh_id()}/é ?#"
    client.ok(
        "POST", f"{group.path}/offsets", {"generation": -1, "member_id": "", "offsets": [position(1, topic=topic)]}
    )
    wait_for_checkpoint(rows)

    found = client.ok("GET", f"/v1/topics/{quote(topic, safe='')}")

    assert [each["group_id"] for each in found["groups"]] == [group.group_id]
