"""Lag over HTTP, in records and in seconds, now and over time."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.http_client import Client, Group, gives, join_body, position
from tests.support.waiting import poll_until

Json = Any
SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}
AGO = "INSERT INTO offset_history SELECT %s, 1, %s, 0, now() - make_interval(secs => %s), %s, %s, ''"
"""Inserts a committed offset of a number of seconds ago into the history."""


def lag_of(group: Group, query: str = "") -> Json:
    return group.client.ok("GET", f"{group.path}/lag{query}")


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def was(rows: PsycopgConnection, group: Group, topic: str, ago_s: float, offset: int, end: int) -> None:
    with rows.cursor() as cursor:
        cursor.execute(AGO, (group.group_id, topic, ago_s, offset, end))


def curve(group: Group, query: str = "") -> Json:
    return lag_of(group, f"/history{query}")


# -- now --------------------------------------------------------------------------------------------------


def test_lag_is_listed_by_partition_with_owner(group: Group, topic: str) -> None:
    member = group.join(topic=topic)
    member.sync(gives(member.member_id, 0, 1, topic=topic))
    member.commit(position(5, topic=topic, log_end_offset=9), position(7, partition=2, topic=topic, log_end_offset=7))

    reported = lag_of(group)

    assert (reported["group_id"], reported["lag"]) == (group.group_id, 4)
    behind, held, ahead = reported["partitions"]
    assert [behind[key] for key in ("topic", "partition", "member_id", "client_id")] == [
        topic,
        0,
        member.member_id,
        "agent-1",
    ]
    assert (behind["current_offset"], behind["log_end_offset"], behind["lag"]) == (5, 9, 4)
    assert behind["committed_at"] == behind["log_end_at"]
    assert (held["member_id"], held["current_offset"], held["lag"], held["lag_seconds"]) == (
        member.member_id,
        None,
        None,
        None,
    )
    assert (ahead["member_id"], ahead["lag"], ahead["lag_seconds"]) == (None, 0, 0)


def test_lag_beyond_int64_is_reported_as_the_maximum(group: Group, topic: str) -> None:
    group.stable(topic).commit(*(position(0, partition=each, topic=topic, log_end_offset=2**63 - 1) for each in (0, 1)))
    assert lag_of(group)["lag"] == 2**63 - 1
    assert max(point["lag"] or 0 for point in curve(group)["points"]) == 2**63 - 1


def test_time_lag_is_since_the_log_end_passed_the_committed_offset(
    group: Group, rows: PsycopgConnection, topic: str
) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(30, topic=topic, log_end_offset=90)]})
    was(rows, group, topic, 600, 10, 20)
    was(rows, group, topic, 400, 15, 40)

    reported = lag_of(group)
    (partition,) = reported["partitions"]

    assert 500 <= reported["lag_seconds"] < 590
    assert (partition["lag"], partition["is_lag_lower_bound"]) == (60, False)
    assert partition["lag_seconds"] == reported["lag_seconds"]


def test_time_lag_of_a_group_that_always_lagged_covers_all_known_history(
    group: Group, rows: PsycopgConnection, topic: str
) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(3, topic=topic, log_end_offset=90)]})
    was(rows, group, topic, 600, 2, 20)

    reported = lag_of(group)

    assert 600 <= reported["lag_seconds"] < 690
    assert reported["partitions"][0]["is_lag_lower_bound"]


def test_lag_is_returned_during_a_rebalance_and_without_members(client: Client, group: Group, topic: str) -> None:
    member = group.stable(topic)
    member.commit(position(5, topic=topic, log_end_offset=9))
    parked = client.later(group, "join", join_body(member_id=group.handshake()))
    poll_until(lambda: group.describe()["state"] != "Stable")
    assert lag_of(group)["lag"] == 4
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    new_member = parked.result().json["member_id"]
    group.post("leave", {"members": [{"member_id": new_member}]})
    assert group.describe()["state"] == "Empty"

    reported = lag_of(group)

    assert reported["lag"] == 4
    assert [each["member_id"] for each in reported["partitions"]] == [None]


def test_unreported_values_are_not_invented(group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(5)]})

    reported = lag_of(group)

    assert (reported["lag"], reported["lag_seconds"]) == (None, None)
    assert reported["partitions"][0]["log_end_offset"] is None


def test_expiry_time_follows_the_effective_retention(group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(5)]})
    (reported,) = lag_of(group)["partitions"]
    assert seconds(reported["expires_at"]) - seconds(reported["committed_at"]) == 10_080 * 60

    group.client.ok("PUT", f"{group.path}/config", {"values": {"offsets_retention_minutes": -1}, "reason": "keep"})
    assert lag_of(group)["partitions"][0]["expires_at"] is None


def test_subscribed_offset_has_no_expiry(group: Group) -> None:
    group.stable().commit(position(5))
    assert lag_of(group)["partitions"][0]["expires_at"] is None


def test_never_seen_group_has_no_lag_and_idle_group_has_none_yet(client: Client, group: Group) -> None:
    group.handshake()
    assert lag_of(group)["partitions"] == []
    assert curve(group)["points"][-1]["lag"] is None
    for path in ("lag", "lag/history"):
        assert client.call("GET", f"/v1/groups/unheard-of/{path}").code == "GROUP_ID_NOT_FOUND"


# -- over time --------------------------------------------------------------------------------------------


def test_last_hour_is_shown_by_minute(group: Group, rows: PsycopgConnection, topic: str) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(30, topic=topic, log_end_offset=30)]})
    was(rows, group, topic, 2_400, 10, 10)
    was(rows, group, topic, 1_200, 10, 30)

    reported = curve(group)

    assert (reported["group_id"], reported["step_ms"], len(reported["points"])) == (group.group_id, 60_000, 61)
    lags = {round(60 - number): (each["lag"], each["lag_seconds"]) for number, each in enumerate(reported["points"])}
    assert lags[59] == (None, None)
    assert [lags[minute][0] for minute in (39, 30, 21, 19, 1)] == [1, 10, 19, 20, 20]
    assert 590 <= lags[30][1] <= 610
    assert 2_330 <= lags[1][1] <= 2_350


def test_first_point_uses_earlier_reports(group: Group, rows: PsycopgConnection, topic: str) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(10, topic=topic, log_end_offset=30)]})
    was(rows, group, topic, 5_400, 10, 10)
    was(rows, group, topic, 4_200, 10, 30)

    first = curve(group)["points"][0]

    assert first["lag"] == 20
    assert 1_790 <= first["lag_seconds"] <= 1_810


def test_lags_are_summed_and_time_lag_is_the_maximum(group: Group, topic: str) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(5, topic=topic, log_end_offset=9)]})
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(5, partition=1, topic=topic, log_end_offset=6)]})
    first, second = (datetime.fromisoformat(each["committed_at"]) for each in lag_of(group)["partitions"])

    (point,) = curve(group, f"?from={quote(second.isoformat())}&to={quote(second.isoformat())}")["points"]

    assert (point["lag"], point["lag_seconds"]) == (5, (second - first).total_seconds())
    assert datetime.fromisoformat(point["at"]) == second


def test_lag_history_ends_now(group: Group, topic: str) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(30, topic=topic, log_end_offset=30)]})

    later = datetime.now(UTC) + timedelta(minutes=30)
    points = curve(group, f"?to={later:%Y-%m-%dT%H:%M:%SZ}")["points"]

    assert points[-1]["lag"] == 0
    assert datetime.fromisoformat(points[-1]["at"]) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("?from=yesterday", "from must be an RFC 3339 time"),
        ("?from=0001-01-01T00:00:00%2B14:00", "from must be within the years"),
        ("?to=9999-12-31T23:59:59-14:00", "to must be within the years"),
        ("?to=0001-01-01T00:00:00Z", "to must be at least an hour after the start of the year 1"),
        ("?to=2026-11-21", "to must be an RFC 3339 time"),
        ("?from=2026-11-21T03:00:00Z&to=2026-11-21T02:00:00Z", "from must not be after to"),
        ("?from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z&step_ms=1000", "more than 1000 points"),
        ("?step_ms=0", "step_ms"),
        ("?from=9000-01-01T00:00:00Z&to=9000-01-02T00:00:00Z", "or in the future"),
    ],
)
def test_unreportable_history_is_rejected_in_one_sentence(group: Group, query: str, why: str) -> None:
    answer = group.client.call("GET", f"{group.path}/lag/history{query}")
    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert why in answer.json["detail"]
