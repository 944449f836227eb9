"""Resets, the list of changes, undo, and deleted topics."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from uuid import uuid4

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.integration.http.openapi import answer_fits
from tests.support.databases import Databases
from tests.support.http_client import AS_JSON, OPERATOR, Client, Group, Json, fresh_id, position
from tests.support.nodes import running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import poll_until

SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}


def commit(group: Group, *offsets: Json) -> None:
    group.client.ok("POST", f"{group.path}/offsets", {**SIMPLE_CONSUMER, "offsets": list(offsets)})


def reset(group: Group, to: str, **more: Json) -> Json:
    body = {"to": to, "dry_run": False, "reason": "a test", **more}
    return group.client.ok("POST", f"{group.path}/offsets/reset", body)


def offsets_of(group: Group) -> dict[tuple[str, int], int]:
    found = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    return {(one["topic"], one["partition"]): one["offset"] for one in found}


# -- reset --------------------------------------------------------------------------------------------------


def test_reset_is_a_dry_run_by_default(group: Group, topic: str) -> None:
    commit(group, position(5, topic=topic, log_end_offset=50))

    answer = group.post("offsets/reset", {"to": "latest", "topics": [{"topic": topic}]})

    assert "x-muster-change-id" not in answer.headers
    assert answer.json == {
        "group_id": group.group_id,
        "dry_run": True,
        "change_id": None,
        "offsets": [{"topic": topic, "partition": 0, "old_offset": 5, "new_offset": 50, "note": None}],
    }
    assert offsets_of(group) == {(topic, 0): 5}


def test_reset_commits_new_offsets_and_archives_the_old_ones(group: Group, rows: PsycopgConnection, topic: str) -> None:
    commit(group, position(5, topic=topic, log_end_offset=50), position(6, partition=1, topic=topic, log_end_offset=7))

    answer = group.post("offsets/reset", {"to": "shift", "shift_by": 3, "dry_run": False, "reason": "a test"})

    assert [(one["new_offset"], one["note"]) for one in answer.json["offsets"]] == [
        (8, None),
        (7, "9 is outside of the log"),
    ]
    assert answer.headers["x-muster-change-id"] == answer.json["change_id"]
    assert offsets_of(group) == {(topic, 0): 8, (topic, 1): 7}
    with rows.cursor() as cursor:
        query = "SELECT partition, committed_offset, cause FROM archived_offsets WHERE change_id = %s ORDER BY 1"
        cursor.execute(query, (answer.json["change_id"],))
        assert cursor.fetchall() == [(0, 5, "reset"), (1, 6, "reset")]


def test_reset_to_datetime_restores_the_offset_of_that_time(group: Group) -> None:
    commit(group, position(5, topic="visits"))
    (committed,) = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    then = datetime.fromisoformat(committed["committed_at"])
    while datetime.now(UTC) < then + timedelta(milliseconds=2):
        pass
    reset(group, "offset", offset=90)

    moved = reset(group, "datetime", datetime=committed["committed_at"])

    assert [(one["old_offset"], one["new_offset"]) for one in moved["offsets"]] == [(90, 5)]


def test_reset_accepts_an_offset_for_each_partition(client: Client, group: Group, topic: str) -> None:
    commit(group, position(5, topic=topic, log_end_offset=50), position(6, partition=1, topic=topic, log_end_offset=7))
    given = [position(offset, topic=topic, partition=number) for number, offset in enumerate((40, 99, 3))]

    tried = group.post("offsets/reset", {"to": "given", "offsets": given}).json
    done = reset(group, "given", offsets=given)

    moves = [(one["old_offset"], one["new_offset"], one["note"]) for one in done["offsets"]]
    assert moves == [(5, 40, None), (6, 7, "99 is outside of the log"), (None, 3, None)]
    assert tried["offsets"] == done["offsets"]
    assert offsets_of(group) == {(topic, 0): 40, (topic, 1): 7, (topic, 2): 3}
    undo(client, done["change_id"])
    assert offsets_of(group) == {(topic, 0): 5, (topic, 1): 6}


def test_unknown_group_gets_its_first_offsets(client: Client, group: Group) -> None:
    topic = fresh_id("topic")
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 2, "log_start_offset": 4})

    reset(group, "earliest", topics=[{"topic": topic}])

    assert offsets_of(group) == {(topic, 0): 4, (topic, 1): 4}
    assert group.describe()["state"] == "Empty"


def test_reset_without_topics_is_of_the_partitions_with_committed_offsets(
    client: Client, group: Group, topic: str
) -> None:
    """As in Kafka's tool with --all-topics, but for those that the topic no longer has."""
    commit(group, *(position(5, topic=topic, partition=partition) for partition in (1, 3)))
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 3})

    reset(group, "shift", shift_by=-1)

    assert offsets_of(group) == {(topic, 1): 4, (topic, 3): 5}


def test_a_group_with_members_is_not_reset(group: Group) -> None:
    group.stable()

    answer = group.post("offsets/reset", {"to": "earliest", "topics": [{"topic": "orders"}]})

    assert (answer.status, answer.code) == (409, "NON_EMPTY_GROUP")


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        ({"to": "latest", "topics": [{"topic": "orders", "partitions": [3]}]}, "INVALID_REQUEST", "orders 3"),
        ({"to": "latest", "topics": [{"topic": "orders", "partitions": []}]}, "INVALID_REQUEST", "partitions"),
        ({"to": "earliest", "topics": [{"topic": "unheard"}]}, "UNKNOWN_TOPIC_OR_PARTITION", "unheard"),
        ({"to": "offset"}, "INVALID_REQUEST", "offset"),
        ({"to": "shift", "shift_by": 1, "offset": 3}, "INVALID_REQUEST", "offset"),
        ({"to": "shift", "shift_by": 2**63}, "INVALID_REQUEST", "shift_by"),
        ({"to": "datetime", "datetime": "2026-01-02T03:04:05"}, "INVALID_REQUEST", "datetime"),
        ({"to": "datetime", "datetime": "yesterday"}, "INVALID_REQUEST", "datetime"),
        ({"to": "datetime", "datetime": "0001-01-01T00:00:00+14:00"}, "INVALID_REQUEST", "datetime"),
        ({"to": "datetime", "datetime": "9999-12-31T23:59:59-14:00"}, "INVALID_REQUEST", "datetime"),
        ({"to": "somewhere"}, "INVALID_REQUEST", "to"),
        ({"to": "given"}, "INVALID_REQUEST", "offsets"),
        ({"to": "given", "offsets": []}, "INVALID_REQUEST", "offsets"),
        ({"to": "given", "offsets": [position(1), position(2)]}, "INVALID_REQUEST", "orders 0 occurs more than once"),
        ({"to": "given", "offsets": [position(1)], "topics": [{"topic": "orders"}]}, "INVALID_REQUEST", "topics"),
        ({"to": "given", "offsets": [position(-1)]}, "INVALID_REQUEST", "offset"),
        ({"to": "earliest", "offsets": [position(1)]}, "INVALID_REQUEST", "offsets"),
        ({"to": "given", "offsets": [position(1, partition=p) for p in range(10_001)]}, "INVALID_REQUEST", "10001"),
        ({"to": "earliest", "dry_run": False}, "INVALID_REQUEST", "reason"),
        (
            {"to": "earliest", "topics": [{"topic": "t", "partitions": list(range(10_001))}]},
            "INVALID_REQUEST",
            "topics",
        ),
    ],
)
def test_invalid_reset_is_refused_with_the_reason(group: Group, body: Json, code: str, named: str) -> None:
    commit(group, position(5))

    answer = group.post("offsets/reset", body)

    assert answer.code == code
    assert named in answer.json["detail"]
    assert offsets_of(group) == {("orders", 0): 5}


def test_reset_reads_no_more_offsets_than_it_may_have(databases: Databases) -> None:
    url = databases.create()
    with running_node(url, max_partitions_per_request=2) as node, closing(Client(node.url)) as client:
        group = client.group(fresh_id())
        for topic, partition in (("orders", 0), ("orders", 1), ("views", 0), ("views", 1), ("views", 2)):
            commit(group, position(5, topic=topic, partition=partition))

        def new_offsets(**named: Json) -> list[Json]:
            found = client.ok("POST", f"{group.path}/offsets/reset", {"to": "shift", "shift_by": 1, **named})["offsets"]
            return [(one["topic"], one["partition"], one["new_offset"]) for one in found]

        def refused(**named: Json) -> str:
            answer = group.post("offsets/reset", {"to": "earliest", **named})
            assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
            return str(answer.json["detail"])

        assert new_offsets(topics=[{"topic": "orders"}]) == [("orders", 0, 6), ("orders", 1, 6)]
        assert new_offsets(topics=[{"topic": "views", "partitions": [2]}]) == [("views", 2, 6)]
        for topics in ([], [{"topic": "views"}], [{"topic": "orders"}, {"topic": "views", "partitions": [0]}]):
            assert "partitions" in refused(topics=topics)
        assert refused() == "the reset has more than 2 partitions: name topics or partitions"
    databases.drop(url)


def test_reset_needs_an_actor(group: Group) -> None:
    commit(group, position(5))
    body = b'{"to": "earliest", "dry_run": false, "reason": "a test"}'

    answer = group.client.send("POST", f"{group.path}/offsets/reset", body, AS_JSON)

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert "X-Muster-Actor" in answer.json["detail"]


# -- changes ------------------------------------------------------------------------------------------------


def test_every_change_of_a_group_is_listed(client: Client, group: Group) -> None:
    member = group.stable()
    reason = {"reason": "a test"}
    client.ok("POST", f"{group.path}/rebalance", reason)
    client.ok("DELETE", f"{group.path}/members/{member.member_id}?reason=hangs")
    client.ok("PUT", f"{group.path}/config", {"values": {"group_max_size": 3}, **reason})
    commit(group, position(5))
    client.ok("DELETE", f"{group.path}/offsets?topic=orders&reason=tidy")
    client.ok("DELETE", f"{group.path}?reason=done")

    found = client.ok("GET", f"/v1/changes?group_id={group.group_id}")

    assert [(one["action"], one["actor"], one["reason"]) for one in found["changes"]] == [
        ("delete_group", "ada", "done"),
        ("delete_offsets", "ada", "tidy"),
        ("put_settings", "ada", "a test"),
        ("remove_member", "ada", "hangs"),
        ("force_rebalance", "ada", "a test"),
    ]
    assert found["next_cursor"] is None
    one = found["changes"][1]
    assert one["before"]["offsets"] == [{"topic": "orders", "partition": 0, "offset": 5}]
    assert client.ok("GET", f"/v1/changes/{one['change_id']}") == one


def test_changes_come_in_pages(client: Client, group: Group) -> None:
    for size in range(3, 8):
        client.ok("PUT", f"{group.path}/config", {"values": {"group_max_size": size}, "reason": "a test"})
    everything = client.ok("GET", f"/v1/changes?group_id={group.group_id}")["changes"]

    pages: list[Json] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.ok("GET", f"/v1/changes?group_id={group.group_id}&limit=2&cursor={cursor}")
        pages.append(page["changes"])
        cursor = page["next_cursor"]

    assert [len(page) for page in pages] == [2, 2, 1]
    assert [one for page in pages for one in page] == everything


def test_changes_are_filtered(client: Client, group: Group) -> None:
    made: dict[str, str] = {}
    for actor in ("Grace", "dag:tidy"):
        body = {"values": {"group_max_size": 3 + len(made)}, "reason": "a test"}
        answer = client.call("PUT", f"{group.path}/config", body, {"X-Muster-Actor": actor})
        made[actor] = answer.headers["x-muster-change-id"]
    path = f"/v1/changes?group_id={group.group_id}"

    def ids(query: str) -> list[str]:
        return [each["change_id"] for each in client.ok("GET", path + query)["changes"]]

    assert ids("&actor=gRA&action=undo&action=put_settings") == [made["Grace"]]
    assert ids("&action=undo") == []
    assert ids("&empty_runs=false") == [made["dag:tidy"], made["Grace"]]


@pytest.mark.parametrize("actor", ["İdil", "ΟΔΟΣ", "Ädä"])
def test_changes_of_an_actor_with_letters_beyond_ascii_are_found(client: Client, group: Group, actor: str) -> None:
    body = b'{"values": {"group_max_size": 3}, "reason": "a test"}'
    headers = {**AS_JSON, "X-Muster-Actor": actor.encode()}
    client.send("PUT", f"{group.path}/config", body, headers)  # type: ignore[arg-type]  # bytes are sent as they are

    found = client.ok("GET", f"/v1/changes?group_id={group.group_id}&actor={quote(actor)}")["changes"]
    assert [each["actor"] for each in found] == [actor]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("action=tidied", "action must be one of delete_offsets, delete_group, "),
        (f"actor={'x' * 201}", "actor: expected str of length <= 200"),
    ],
)
def test_unknown_change_filters_are_refused(client: Client, query: str, said: str) -> None:
    answer = client.call("GET", f"/v1/changes?{query}")

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert answer.json["detail"].startswith(said)


@pytest.mark.parametrize("cursor", ["x", "~", "bm90aGluZw", "MSAy"])
def test_cursor_of_another_list_is_refused(client: Client, cursor: str) -> None:
    answer = client.call("GET", f"/v1/changes?cursor={cursor}")

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("unknown", ["nope", "6b0f3d4e-28f0-4a34-9f5e-0a4f1f2f3f4f"])
def test_unknown_change_is_not_found(client: Client, unknown: str) -> None:
    shown = client.call("GET", f"/v1/changes/{unknown}")
    undone = client.call("POST", f"/v1/changes/{unknown}/undo", {"reason": "a test"})

    assert [(one.status, one.code) for one in (shown, undone)] == [(404, "RESOURCE_NOT_FOUND")] * 2


def test_a_key_that_belongs_to_another_change_is_refused(client: Client, group: Group) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    body = {"values": {"group_max_size": 3}, "reason": "a test"}
    client.ok("PUT", f"{group.path}/config", body, key)

    answer = client.call("DELETE", "/v1/groups/another?reason=x", headers=key)

    assert (answer.status, answer.code) == (409, "INVALID_REQUEST")


def test_a_key_of_another_actor_is_refused(client: Client, group: Group) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    body = {"to": "offset", "offset": 1, "topics": [{"topic": "a", "partitions": [0]}], "dry_run": False, "reason": "x"}
    first = client.ok("POST", f"{group.path}/offsets/reset", body, key)

    others = client.call("POST", f"{group.path}/offsets/reset", body, {**key, "X-Muster-Actor": "grace"})
    again = client.ok("POST", f"{group.path}/offsets/reset", body, key)

    assert (others.status, others.json["detail"]) == (409, "the Idempotency-Key belongs to another change")
    assert again == first


def test_the_same_key_for_another_body_is_refused(client: Client, group: Group) -> None:
    commit(group, position(5, topic="a"), position(6, topic="b"))
    key = {"Idempotency-Key": str(uuid4())}
    body = {"to": "earliest", "topics": [{"topic": "a"}], "dry_run": False, "reason": "a test"}
    first = client.call("POST", f"{group.path}/offsets/reset", body, key)

    other = client.call("POST", f"{group.path}/offsets/reset", {**body, "topics": [{"topic": "b"}]}, key)
    dry = client.call("POST", f"{group.path}/offsets/reset", {**body, "dry_run": True}, key)
    garbage = client.send("POST", f"{group.path}/offsets/reset", b"garbage", {**key, **OPERATOR, **AS_JSON})
    again = client.call("POST", f"{group.path}/offsets/reset", body, key)

    assert (other.status, other.code) == (409, "INVALID_REQUEST")
    assert (dry.json["dry_run"], dry.json["change_id"]) == (True, None)
    assert garbage.status == 400
    assert (again.json, again.headers["x-muster-change-id"]) == (first.json, key["Idempotency-Key"])
    assert offsets_of(group) == {("a", 0): 0, ("b", 0): 6}


@pytest.mark.parametrize(
    ("path", "first", "second"),
    [
        ("/v1/groups/{}/config", {"values": {"group_max_size": 3}}, {"values": {"group_max_size": 7}}),
        ("/v1/topics/{}", {"partitions": 3}, {"partitions": 9}),
    ],
)
def test_the_same_key_for_another_value_is_refused(client: Client, path: str, first: Json, second: Json) -> None:
    key, path = {"Idempotency-Key": str(uuid4())}, path.format(fresh_id())
    answer = client.ok("PUT", path, {**first, "reason": "a test"}, key)

    other = client.call("PUT", path, {**second, "reason": "a test"}, key)

    assert (other.status, other.code) == (409, "INVALID_REQUEST")
    assert client.ok("PUT", path, {**first, "reason": "a test"}, key) == answer


# -- offsets without a group ----------------------------------------------------------------------------------


def put_by_hand(rows: PsycopgConnection, group: Group) -> None:
    """Insert an offset by SQL, with the shard of its group."""
    shard_id = group.client.ok("GET", f"{group.path}/coordinator")["shard_id"]
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
            " VALUES (%s, %s, 'orders', 0, 5, now())",
            (group.group_id, shard_id),
        )


def test_offsets_inserted_by_sql_form_a_simple_group(group: Group, rows: PsycopgConnection) -> None:
    put_by_hand(rows, group)

    assert group.describe()["state"] == "Empty"
    assert group.client.call("DELETE", f"{group.path}?reason=tidy").status == 204
    assert group.describe()["state"] == "Dead"
    assert offsets_of(group) == {}


def test_offset_of_a_simple_group_is_deleted_and_restored(
    client: Client, group: Group, rows: PsycopgConnection
) -> None:
    put_by_hand(rows, group)

    deleted = client.call("DELETE", f"{group.path}/offsets?topic=orders&reason=tidy")
    assert deleted.json == {"offsets": [{"topic": "orders", "partition": 0, "code": "NONE"}]}
    undo(client, deleted.headers["x-muster-change-id"])

    assert offsets_of(group) == {("orders", 0): 5}


# -- undo ---------------------------------------------------------------------------------------------------


def undo(client: Client, change_id: str) -> Json:
    return client.ok("POST", f"/v1/changes/{change_id}/undo", {"reason": "a mistake"})


def test_a_reset_is_undone(client: Client, group: Group, rows: PsycopgConnection) -> None:
    commit(group, position(5, metadata="noted"), position(6, partition=1))
    change_id = reset(group, "offset", offset=1)["change_id"]
    commit(group, position(99, partition=1))

    undone = undo(client, change_id)

    assert undone == {
        "change_id": undone["change_id"],
        "undoes": change_id,
        "action": "reset_offsets",
        "group_id": group.group_id,
        "offsets": [
            {"topic": "orders", "partition": 0, "outcome": "restored", "offset": 5},
            {"topic": "orders", "partition": 1, "outcome": "newer_there", "offset": None},
        ],
        "offset_count": 2,
        "settings": [],
        "topic": None,
        "run_id": None,
        "candidates": 0,
        "unconfirmed_nodes": [],
    }
    assert offsets_of(group) == {("orders", 0): 5, ("orders", 1): 99}
    with rows.cursor() as cursor:
        cursor.execute(
            "SELECT metadata, expires_at - committed_at FROM offsets WHERE group_id = %s AND partition = 0",
            (group.group_id,),
        )
        ((metadata, lives),) = cursor.fetchall()
        assert (metadata, lives.days) == ("noted", 7)
    shown = client.ok("GET", f"/v1/changes/{change_id}")
    assert shown["undone_by_change_id"] == undone["change_id"]
    assert shown["undone_at"] is not None


def test_a_deleted_group_is_undone_and_can_be_described(client: Client, group: Group) -> None:
    commit(group, position(5))
    answer = client.call("DELETE", f"{group.path}?reason=oops")

    undo(client, answer.headers["x-muster-change-id"])

    assert group.describe()["state"] == "Empty"
    assert offsets_of(group) == {("orders", 0): 5}


def test_a_setting_is_undone(client: Client, group: Group) -> None:
    body = {"values": {"group_max_size": 3}, "reason": "a test"}
    answer = client.call("PUT", f"{group.path}/config", body)

    undone = undo(client, answer.headers["x-muster-change-id"])

    assert undone["settings"] == [{"key": "group_max_size", "outcome": "restored", "value": None}]
    assert client.ok("GET", f"{group.path}/config")["values"]["group_max_size"]["source"] == "default"


def test_second_undo_is_reported_and_a_repeat_answered_alike(client: Client, group: Group) -> None:
    commit(group, position(5))
    change_id = reset(group, "offset", offset=1)["change_id"]
    key = {"Idempotency-Key": str(uuid4())}
    path, body = f"/v1/changes/{change_id}/undo", {"reason": "a mistake"}

    first = client.ok("POST", path, body, key)
    again = client.ok("POST", path, body, key)
    other = client.call("POST", path, body)

    assert first == again
    assert (other.status, other.json["action"]) == (409, "fix")
    assert "already" in other.json["detail"]


def test_impossible_undo_is_reported(client: Client, group: Group) -> None:
    group.stable()
    answer = client.call("POST", f"{group.path}/rebalance", {"reason": "a test"})
    change_id = answer.headers["x-muster-change-id"]

    refused = client.call("POST", f"/v1/changes/{change_id}/undo", {"reason": "a mistake"})

    assert refused.status == 409
    assert "force_rebalance cannot be undone" in refused.json["detail"]


def test_an_undo_needs_a_reason(client: Client) -> None:
    answer = client.call("POST", f"/v1/changes/{uuid4()}/undo", {})

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")


# -- topics -------------------------------------------------------------------------------------------------


def applied_run(client: Client, run_id: str) -> Json:
    path = f"/v1/maintenance/runs/{run_id}"
    poll_until(lambda: client.ok("GET", path)["status"] == "applied")
    return client.ok("GET", path)


def test_deleted_topic_and_its_offsets_are_restored_by_undo(client: Client, group: Group) -> None:
    topic = fresh_id("topic")
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 2, "log_start_offset": 4})
    commit(group, position(5, topic=topic), position(6, topic="other"))

    deleted = client.call("DELETE", f"/v1/topics/{topic}?reason=gone")

    assert deleted.status == 202
    assert deleted.json == {"topic": topic, "run_id": deleted.headers["x-muster-change-id"], "candidates": 1}
    run = applied_run(client, deleted.json["run_id"])
    assert (run["kind"], run["counts"]) == ("topic_deletion", {"candidates": 1, "removed": 1})
    assert offsets_of(group) == {("other", 0): 6}
    assert topic not in [one["topic"] for one in client.ok("GET", "/v1/topics")["topics"]]

    undone = undo(client, deleted.json["run_id"])

    assert (undone["topic"], undone["candidates"]) == ({"topic": topic, "outcome": "restored"}, 1)
    assert applied_run(client, undone["run_id"])["counts"] == {"candidates": 1, "restored": 1}
    assert offsets_of(group) == {("other", 0): 6, (topic, 0): 5}
    assert {"topic": topic, "partitions": 2, "log_start_offset": 4} in client.ok("GET", "/v1/topics")["topics"]


def test_subscribers_of_a_deleted_topic_rebalance(client: Client, group: Group) -> None:
    topic = fresh_id("topic")
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1})
    member = group.stable(protocols=[{"name": "range", "metadata": {"topics": [topic]}}])

    client.ok("DELETE", f"/v1/topics/{topic}?reason=gone")

    assert member.post("heartbeat").code == "REBALANCE_IN_PROGRESS"


def test_deletion_of_an_unknown_topic_is_not_found(client: Client) -> None:
    unknown = client.call("DELETE", "/v1/topics/unheard?reason=gone")
    nameless = client.call("DELETE", "/v1/topics/unheard")

    assert (unknown.status, unknown.code) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert (nameless.status, nameless.code) == (400, "INVALID_REQUEST")


# -- an expiry ------------------------------------------------------------------------------------------------


def test_expiry_of_a_run_is_undone(client: Client, group: Group, rows: PsycopgConnection) -> None:
    client.ok("PUT", f"{group.path}/config", {"values": {"offsets_retention_minutes": 1}, "reason": "a test"})
    commit(group, position(7), position(8, partition=1))
    wait_for_checkpoint(rows)
    run_id = str(uuid4())
    with rows.cursor() as cursor:
        cursor.execute(
            "UPDATE offsets SET committed_at = committed_at - interval '1 hour' WHERE group_id = %s", (group.group_id,)
        )
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status)"
            " VALUES (%s, 'offset_retention', now(), 'proposed')",
            (run_id,),
        )
        cursor.execute(
            "INSERT INTO expiry_candidates"
            " (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)"
            " SELECT %s, group_id, shard_id, topic, partition, commit_version, committed_at, 'simple_group'"
            " FROM offsets WHERE group_id = %s",
            (run_id, group.group_id),
        )
    applied = client.call("POST", f"/v1/maintenance/runs/{run_id}/apply", {"reason": "reviewed"})
    assert applied_run(client, run_id)["counts"] == {"expired": 2}

    undone = undo(client, applied.headers["x-muster-change-id"])

    assert (undone["action"], undone["candidates"]) == ("apply_run", 2)
    assert applied_run(client, undone["run_id"])["kind"] == "undo"
    assert offsets_of(group) == {("orders", 0): 7, ("orders", 1): 8}


def test_responses_match_the_openapi_document(client: Client, group: Group) -> None:
    document = client.ok("GET", "/openapi.json")
    commit(group, position(5))
    moved = reset(group, "offset", offset=1)

    answer_fits(document, "post", "/v1/groups/{group_id}/offsets/reset", moved)
    answer_fits(document, "post", "/v1/changes/{change_id}/undo", undo(client, moved["change_id"]))
    answer_fits(document, "get", "/v1/changes", client.ok("GET", "/v1/changes"))
    answer_fits(document, "get", "/v1/changes/{change_id}", client.ok("GET", f"/v1/changes/{moved['change_id']}"))
