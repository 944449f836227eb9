"""Operator requests for groups: list, describe, delete, rebalance, remove a member."""

from datetime import datetime
from urllib.parse import quote
from uuid import uuid4

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.http_client import AS_JSON, Client, Group, fresh_id, gives, join_body, position
from tests.support.nodes import Node
from tests.support.waiting import PATIENCE_S, poll_until

SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}

# -- list -----------------------------------------------------------------------------------------------


def test_list_has_one_entry_per_group(client: Client, group: Group) -> None:
    group.stable()

    answer = client.ok("GET", f"/v1/groups?prefix={group.group_id}")

    assert answer == {
        "groups": [
            {
                "group_id": group.group_id,
                "state": "Stable",
                "protocol_type": "consumer",
                "generation": 1,
                "member_count": 1,
                "rebalances_last_hour": 1,
                "coordinator": {"node_id": client.address},
            }
        ],
        "next_cursor": None,
    }


def test_a_list_comes_in_pages(client: Client) -> None:
    prefix = fresh_id("pages")
    ids = [f"{prefix}-{name}" for name in ("a", "b/é", "c", "d", "e")]
    for group_id in ids:
        client.group(group_id).handshake()

    first = client.ok("GET", f"/v1/groups?prefix={prefix}&limit=2")
    second = client.ok("GET", f"/v1/groups?prefix={prefix}&limit=2&cursor={quote(first['next_cursor'])}")
    last = client.ok("GET", f"/v1/groups?prefix={prefix}&limit=2&cursor={quote(second['next_cursor'])}")

    pages = [[each["group_id"] for each in page["groups"]] for page in (first, second, last)]
    assert pages == [ids[:2], ids[2:4], ids[4:]]
    assert last["next_cursor"] is None


def test_a_full_last_page_is_the_last(client: Client) -> None:
    prefix = fresh_id("pages")
    for name in "ab":
        client.group(f"{prefix}-{name}").handshake()

    assert client.ok("GET", f"/v1/groups?prefix={prefix}&limit=2")["next_cursor"] is None


def test_a_list_can_be_narrowed_by_state_and_type(client: Client) -> None:
    prefix = fresh_id("narrow")
    client.group(f"{prefix}-stable").stable()
    client.group(f"{prefix}-other").join(protocol_type="connect", protocols=[{"name": "v1"}])
    client.group(f"{prefix}-simple").post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})

    def listed(query: str) -> list[str]:
        answer = client.ok("GET", f"/v1/groups?prefix={prefix}&{query}")
        return [each["group_id"].removeprefix(prefix) for each in answer["groups"]]

    assert listed("state=stable") == ["-stable"]
    assert listed("state=Empty&state=CompletingRebalance") == ["-other", "-simple"]
    assert listed("protocol_type=connect") == ["-other"]
    assert listed("state=nonsense") == []
    assert listed("state=&protocol_type=&cursor=") == ["-other", "-simple", "-stable"]


def test_dead_groups_are_listed_only_when_asked_for(client: Client, group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    client.call("DELETE", f"{group.path}?reason=tidy")

    assert client.ok("GET", f"/v1/groups?prefix={group.group_id}")["groups"] == []
    (dead,) = client.ok("GET", f"/v1/groups?prefix={group.group_id}&state=Dead")["groups"]
    assert (dead["group_id"], dead["state"]) == (group.group_id, "Dead")


# -- describe -------------------------------------------------------------------------------------------


def test_description_has_exactly_the_documented_fields(client: Client, group: Group) -> None:
    member = group.stable(group_instance_id=None)
    member.post("heartbeat")

    described = group.describe()

    (shown,) = described.pop("members")
    assert datetime.fromisoformat(described.pop("state_since")).tzinfo is not None
    shard_id = described.pop("shard_id")
    assert described.pop("coordinator") == {"node_id": client.address, "url": client.url, "epoch": 1}
    assert 0 <= shard_id < 50
    assert described.pop("config") == {
        "session_timeout_ms": None,
        "heartbeat_interval_ms": None,
        "rebalance_timeout_ms": None,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
        "group_initial_rebalance_delay_ms": 0,
        "group_max_size": 10_000,
        "group_max_pending_members": 10_000,
        "group_max_offsets": 1_000_000,
        "group_metadata_max_bytes": 16_777_216,
        "member_metadata_max_bytes": 262_144,
        "member_assignment_max_bytes": 1_048_576,
        "group_new_member_join_timeout_ms": 300_000,
        "group_sync_timeout_scope": "all",
        "offsets_retention_minutes": 10_080,
        "offset_metadata_max_bytes": 4_096,
    }
    assert described == {
        "group_id": group.group_id,
        "state": "Stable",
        "generation": 1,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": member.member_id,
        "next_cursor": None,
        "pending_members": 0,
        "waiting_for": [],
        "waiting_until": None,
    }
    assert datetime.fromisoformat(shown.pop("last_heartbeat_at")).tzinfo is not None
    assert shown == {
        "member_id": member.member_id,
        "group_instance_id": None,
        "client_id": "agent-1",
        "client_host": "127.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "assignment": {"partitions": [{"topic": "orders", "partitions": [0]}], "user_data": None},
        "owned_partitions": [{"topic": "orders", "partitions": [0]}],
        "parked_request": None,
        "missing_request": None,
    }


def test_description_lists_awaited_members(client: Client, group: Group) -> None:
    old = group.stable()
    new_member = client.later(group, "join", join_body(group_instance_id="i-1"))
    while (described := group.describe())["waiting_until"] is None:
        old.post("heartbeat")

    assert described["state"] == "PreparingRebalance"
    assert described["waiting_for"] == [old.member_id]
    assert datetime.fromisoformat(described["waiting_until"]) > datetime.fromisoformat(described["state_since"])
    parked_request = {each["group_instance_id"]: each["parked_request"] for each in described["members"]}
    assert parked_request == {None: None, "i-1": "join"}
    assert {each["group_instance_id"]: each["missing_request"] for each in described["members"]} == {
        None: "join",
        "i-1": None,
    }
    assert [each["assignment"] for each in described["members"]] == [None, None]
    owned = {each["group_instance_id"]: each["owned_partitions"] for each in described["members"]}
    assert owned == {None: [{"topic": "orders", "partitions": [0]}], "i-1": []}

    group.post("join", join_body(member_id=old.member_id))
    assert new_member.result(PATIENCE_S).status == 200


def test_sync_phase_awaits_its_leader_first_and_shows_previous_ownership(client: Client, group: Group) -> None:
    old = group.stable()
    new_member = client.later(group, "join", join_body(group_instance_id="i-1"))
    poll_until(lambda: old.post("heartbeat").status != 200)
    leader = group.member(group.post("join", join_body(member_id=old.member_id)))
    follower = group.member(new_member.result(PATIENCE_S))

    described = group.describe()
    by_id = {each["member_id"]: each for each in described["members"]}
    assert described["waiting_for"] == [described["leader"], follower.member_id]
    assert {each["missing_request"] for each in described["members"]} == {"sync"}
    assert by_id[leader.member_id]["owned_partitions"] == [{"topic": "orders", "partitions": [0]}]
    parked = client.later(group, "sync", {"generation": 2, "member_id": follower.member_id, "assignments": []})
    poll_until(lambda: group.describe()["waiting_for"] == [leader.member_id])
    by_id = {each["member_id"]: each for each in group.describe()["members"]}
    assert [
        (each["missing_request"], each["parked_request"])
        for each in (by_id[leader.member_id], by_id[follower.member_id])
    ] == [
        ("sync", None),
        (None, "sync"),
    ]

    assert leader.sync(gives(leader.member_id), gives(follower.member_id, 0)).status == 200
    assert parked.result(PATIENCE_S).status == 200
    by_id = {each["member_id"]: each["owned_partitions"] for each in group.describe()["members"]}
    assert by_id == {leader.member_id: [], follower.member_id: [{"topic": "orders", "partitions": [0]}]}


def test_pending_member_ids_are_counted_and_not_shown(group: Group) -> None:
    group.handshake()

    described = group.describe()

    assert (described["pending_members"], described["members"]) == (1, [])


def test_never_seen_group_is_not_found(group: Group) -> None:
    answer = group.client.call("GET", group.path)

    assert (answer.status, answer.code, answer.json["kafka_code"]) == (404, "GROUP_ID_NOT_FOUND", 69)


def test_deleted_group_is_dead_while_history_has_it(client: Client, group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    client.call("DELETE", f"{group.path}?reason=tidy")

    described = group.describe()

    assert (described["state"], described["generation"], described["members"]) == ("Dead", 0, [])
    assert described["config"]["group_max_size"] == 10_000


def test_a_group_has_a_coordinator_before_it_exists(client: Client, group: Group) -> None:
    answer = client.call("GET", f"{group.path}/coordinator")

    assert answer.json.keys() == {"shard_id", "node_id", "url", "epoch"}
    assert answer.json["url"] == answer.headers["x-muster-coordinator"] == client.url


# -- changes --------------------------------------------------------------------------------------------


def test_an_empty_group_is_deleted_with_its_offsets(client: Client, group: Group, rows: PsycopgConnection) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})

    answer = client.call("DELETE", f"{group.path}?reason=tidy")

    assert (answer.status, answer.body) == (204, b"")
    with rows.cursor() as cursor:
        cursor.execute(
            "SELECT cause FROM archived_offsets WHERE change_id = %s", (answer.headers["x-muster-change-id"],)
        )
        assert cursor.fetchall() == [("group_deleted",)]


def test_a_group_with_members_is_not_deleted(client: Client, group: Group) -> None:
    group.stable()

    answer = client.call("DELETE", f"{group.path}?reason=tidy")

    assert (answer.status, answer.code) == (409, "NON_EMPTY_GROUP")


def test_an_operator_can_force_a_rebalance(client: Client, group: Group, rows: PsycopgConnection) -> None:
    member = group.stable()

    answer = client.call("POST", f"{group.path}/rebalance", {"reason": "stuck"})

    assert answer.status == 204
    assert member.post("heartbeat").code == "REBALANCE_IN_PROGRESS"
    with rows.cursor() as cursor:
        cursor.execute("SELECT rebalance_trigger FROM groups WHERE group_id = %s", (group.group_id,))
        assert cursor.fetchall() == [("admin",)]


def test_operator_can_remove_a_member(client: Client, group: Group) -> None:
    member = group.stable(client_id="a/b c")

    answer = client.call("DELETE", f"{group.path}/members/{quote(member.member_id, safe='')}?reason=stuck")

    assert answer.status == 204
    assert member.post("heartbeat").code == "UNKNOWN_MEMBER_ID"


def test_change_records_actor_and_reason(client: Client, group: Group) -> None:
    group.stable()
    body = b'{"reason": "stuck"}'

    rejected = client.send("POST", f"{group.path}/rebalance", body, AS_JSON)
    no_reason = client.call("POST", f"{group.path}/rebalance", {})
    empty_reason = client.call("DELETE", f"{group.path}?reason=")

    assert rejected.json["detail"] == "the header X-Muster-Actor is required and names who makes the change"
    assert "reason" in no_reason.json["detail"]
    assert "reason" in empty_reason.json["detail"]
    assert [rejected.code, no_reason.code, empty_reason.code] == ["INVALID_REQUEST"] * 3
    assert group.describe()["state"] == "Stable"


def test_repeated_change_gets_the_same_response(client: Client, group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})
    key = {"Idempotency-Key": str(uuid4())}

    answers = [client.call("DELETE", f"{group.path}?reason=tidy", headers=key) for _ in range(2)]

    assert [answer.status for answer in answers] == [204, 204]
    assert {answer.headers["x-muster-change-id"] for answer in answers} == {key["Idempotency-Key"]}
    assert client.call("DELETE", f"{group.path}?reason=tidy").code == "GROUP_ID_NOT_FOUND"


def test_a_refused_change_can_be_made_later_under_the_same_key(client: Client, group: Group) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    refused = client.call("DELETE", f"{group.path}?reason=tidy", headers=key)
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(1)]})

    assert refused.code == "GROUP_ID_NOT_FOUND"
    assert client.call("DELETE", f"{group.path}?reason=tidy", headers=key).status == 204


def test_an_idempotency_key_must_be_a_uuid(client: Client, group: Group) -> None:
    answer = client.call("DELETE", f"{group.path}?reason=x", headers={"Idempotency-Key": "again"})

    assert answer.json["detail"] == "the header Idempotency-Key must be a UUID"
    assert "x-muster-change-id" not in answer.headers


def test_node_url_is_its_address(node: Node, client: Client) -> None:
    assert node.url == client.url
