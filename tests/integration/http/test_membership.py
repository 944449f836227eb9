"""Join, sync, heartbeat and leave without the agent."""

from base64 import b64decode, b64encode
from concurrent.futures import wait

import pytest

from coordinator_core.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from tests.support.http_client import Client, Group, Json, Member, gives, join_body
from tests.support.waiting import PATIENCE_S

SUBSCRIBED = b64encode(write_subscription(Subscription(("orders",)))).decode()
OPAQUE_JOIN = {"protocols": [{"name": "range", "metadata": SUBSCRIBED}]}
ONE_PARTITION = write_assignment(Assignment((TopicPartitions("orders", (0,)),)))

# -- the cycle ------------------------------------------------------------------------------------------


def test_first_join_returns_a_member_id(group: Group) -> None:
    answer = group.post("join", join_body())

    assert answer.status == 409
    assert answer.json["code"] == "MEMBER_ID_REQUIRED"
    assert answer.json["action"] == "rejoin"
    assert answer.json["member_id"].startswith("agent-1-")


def test_the_only_member_leads_its_generation(group: Group) -> None:
    member = group.join()

    assert member.joined == {
        "generation": 1,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": member.member_id,
        "member_id": member.member_id,
        "skip_assignment": False,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": None,
                "metadata": {"topics": ["orders"], "owned_partitions": [], "user_data": None},
            }
        ],
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3_000,
        "rebalance_timeout_ms": 10_000,
    }


def test_client_without_require_known_member_id_joins_at_once(group: Group) -> None:
    answer = group.post("join", join_body(require_known_member_id=False))

    assert group.member(answer).generation == 1


def test_members_get_the_assignment_of_their_leader(client: Client, group: Group) -> None:
    leader, follower = two_members(client, group)

    waiting = client.later(group, "sync", sync_of(follower))
    led = leader.sync(gives(leader.member_id, 0, 1), gives(follower.member_id, 2))

    assert led.json["assignment"]["partitions"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert waiting.result(PATIENCE_S).json == {
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignment": {"partitions": [{"topic": "orders", "partitions": [2]}], "user_data": None},
    }


def test_only_the_leader_is_shown_the_members(client: Client, group: Group) -> None:
    leader, follower = two_members(client, group)

    assert {each["member_id"] for each in leader.joined["members"]} == {leader.member_id, follower.member_id}
    assert follower.joined["members"] == []


def test_heartbeat_returns_effective_timeouts(group: Group) -> None:
    answer = group.stable().post("heartbeat")

    assert (answer.status, answer.json) == (200, {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 3_000})


def test_leaving_member_is_removed_and_unknown_member_cannot_leave(group: Group) -> None:
    member = group.stable()

    answer = group.post("leave", {"members": [{"member_id": member.member_id}, {"member_id": "nobody", "reason": "x"}]})

    assert answer.json == {
        "members": [
            {"member_id": member.member_id, "group_instance_id": None, "code": "NONE"},
            {"member_id": "nobody", "group_instance_id": None, "code": "UNKNOWN_MEMBER_ID"},
        ]
    }
    assert member.post("heartbeat").code == "UNKNOWN_MEMBER_ID"


def test_static_member_rejoins_with_its_assignment(group: Group) -> None:
    first = group.member(group.post("join", join_body(group_instance_id="i-1")))
    first.sync(gives(first.member_id, 0))

    second = group.member(group.post("join", join_body(group_instance_id="i-1")))

    assert second.member_id.startswith("i-1-")
    assert second.generation == first.generation
    assert second.joined["skip_assignment"] is True
    assert first.post("heartbeat", group_instance_id="i-1").code == "FENCED_INSTANCE_ID"


# -- long polls -----------------------------------------------------------------------------------------


def test_join_beyond_max_wait_is_answered_with_retry(group: Group) -> None:
    group.stable()
    new_member = group.handshake()

    answer = group.post("join", join_body(member_id=new_member, max_wait_ms=50))

    assert answer.status == 409
    assert answer.json["code"] == "REBALANCE_IN_PROGRESS"
    assert answer.json["action"] == "retry"
    assert answer.json["member_id"] == new_member


def test_static_join_that_waits_too_long_returns_its_new_id(client: Client, group: Group) -> None:
    leader = group.stable()

    answer = group.post("join", join_body(group_instance_id="i-1", max_wait_ms=50))

    assert answer.json["member_id"].startswith("i-1-")
    new_member = client.later(
        group, "join", join_body(member_id=answer.json["member_id"], group_instance_id="i-1", max_wait_ms=20_000)
    )
    group.post("join", join_body(member_id=leader.member_id))
    assert new_member.result(PATIENCE_S).json["member_id"] == answer.json["member_id"]


def test_sync_beyond_max_wait_is_answered_with_retry(client: Client, group: Group) -> None:
    leader, follower = two_members(client, group)

    answer = follower.post("sync", assignments=[], max_wait_ms=50)

    assert (answer.json["code"], answer.json["action"]) == ("REBALANCE_IN_PROGRESS", "retry")
    assert answer.json["member_id"] == follower.member_id
    leader.sync(gives(follower.member_id, 1))
    assert follower.sync().json["assignment"]["partitions"] == [{"topic": "orders", "partitions": [1]}]


def test_rejected_join_is_answered_at_once(group: Group) -> None:
    answer = group.post("join", join_body(member_id="nobody", max_wait_ms=20_000))

    assert (answer.status, answer.code, answer.json["action"]) == (404, "UNKNOWN_MEMBER_ID", "rejoin")


# -- JSON and Kafka's bytes --------------------------------------------------------------------------------


def test_member_that_sends_base64_gets_base64(group: Group) -> None:
    member = group.join(**OPAQUE_JOIN)
    given = {"member_id": member.member_id, "assignment": b64encode(ONE_PARTITION).decode()}

    assert member.joined["members"][0]["metadata"] == SUBSCRIBED
    assert b64decode(member.sync(given).json["assignment"]) == ONE_PARTITION


def test_leader_reads_metadata_in_its_own_form(client: Client, group: Group) -> None:
    owned = [{"topic": "orders", "partitions": [0]}]
    in_json = {"topics": ["orders"], "owned_partitions": owned, "user_data": "aGk=", "generation": 4, "rack": "r1"}
    leader, follower = two_members(client, group, OPAQUE_JOIN, {"protocols": [{"name": "range", "metadata": in_json}]})
    shown = {each["member_id"]: each["metadata"] for each in leader.joined["members"]}
    assert b64decode(shown[follower.member_id]) == write_subscription(
        Subscription(("orders",), (TopicPartitions("orders", (0,)),), b"hi", 4, "r1")
    )

    waiting = client.later(group, "sync", sync_of(follower))
    leader.sync({"member_id": follower.member_id, "assignment": b64encode(ONE_PARTITION).decode()})

    assert waiting.result(PATIENCE_S).json["assignment"]["partitions"] == [{"topic": "orders", "partitions": [0]}]


def test_a_follower_that_joined_with_base64_syncs_in_base64(client: Client, group: Group) -> None:
    leader, follower = two_members(client, group, {}, OPAQUE_JOIN)

    waiting = client.later(group, "sync", sync_of(follower))
    leader.sync(gives(leader.member_id, 0))

    assert waiting.result(PATIENCE_S).json["assignment"] == ""


def test_bytes_that_cannot_be_decoded_are_returned_as_base64(client: Client, group: Group) -> None:
    unreadable = {"protocols": [{"name": "range", "metadata": "AAE="}]}
    leader, follower = two_members(client, group, {}, unreadable)

    shown = {each["member_id"]: each["metadata"] for each in leader.joined["members"]}

    assert shown[follower.member_id] == "AAE="
    assert shown[leader.member_id]["topics"] == ["orders"]


def test_metadata_of_another_protocol_type_is_base64(group: Group) -> None:
    member = group.join(protocol_type="connect", protocols=[{"name": "v1", "metadata": "AAE="}])

    assert member.joined["members"][0]["metadata"] == "AAE="
    assert member.sync({"member_id": member.member_id, "assignment": "/w=="}).json["assignment"] == "/w=="


@pytest.mark.parametrize("default", [{"name": "range"}, {"name": "range", "metadata": ""}])
def test_empty_metadata_is_accepted(group: Group, default: object) -> None:
    member = group.join(protocols=[default])

    assert member.joined["members"][0]["metadata"] == ""


# -- scenes ----------------------------------------------------------------------------------------------


def two_members(
    client: Client, group: Group, leader_says: Json = None, follower_says: Json = None
) -> tuple[Member, Member]:
    """Return leader and follower of one generation that waits for its assignment."""
    leading, following = join_body(**(leader_says or {})), join_body(**(follower_says or {}))
    leader_id = group.stable(**(leader_says or {})).member_id
    follower_id = group.handshake()
    joining = client.later(group, "join", {**following, "member_id": follower_id})
    rejoining = client.later(group, "join", {**leading, "member_id": leader_id})
    wait([joining, rejoining], PATIENCE_S)
    leader, follower = group.member(rejoining.result(0)), group.member(joining.result(0))
    assert leader.joined["leader"] == leader.member_id
    return leader, follower


def sync_of(member: Member) -> object:
    """Return what a follower sends to sync."""
    return {"generation": member.generation, "member_id": member.member_id, "assignments": []}
