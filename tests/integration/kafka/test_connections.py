"""Connections of Kafka clients: the order of responses, limits, malformed frames, tokens, and nodes that stop."""

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from api.kafka import connection
from api.kafka.apis import APIS, ApiKey
from api.kafka.errors import INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID
from api.shared.client_request import MAX_THROTTLE_S
from api.shared.topic_ids import topic_id_of
from tests.support.databases import Databases, offset_log_locked
from tests.support.http_client import Client, Group, Json, fresh_id, join_body
from tests.support.kafka_listener import (
    PATIENT,
    SUBSCRIPTION,
    join_alone,
    put_topic,
    wait_until_ready,
    wait_until_serving,
)
from tests.support.kafka_wire import KafkaWire, frame, read_response
from tests.support.nodes import CLUSTER_SECRET, Node, running_kafka_node
from tests.support.tokens_file import ADA, BOB, TokensFile
from tests.support.waiting import poll_until

COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
GROUP_AUTHORIZATION_FAILED, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM = 30, 58, 33
UNSUPPORTED_VERSION = 35


# -- frames -----------------------------------------------------------------------------------------


def test_responses_come_in_the_order_of_the_requests(wire: KafkaWire, group_id: str) -> None:
    """A member that waits for another one holds back what it sends after its join."""
    join_alone(wire, group_id)
    with KafkaWire(_address(wire)) as second:
        join = {
            "group_id": group_id,
            "session_timeout": PATIENT,
            "rebalance_timeout": PATIENT,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        }
        member_id = second.call(ApiKey.JOIN_GROUP, 9, **join, member_id="").member_id
        second.send(frame(ApiKey.JOIN_GROUP, 9, "wire", 7, **join, member_id=member_id))
        second.send(frame(ApiKey.API_VERSIONS, 0, "wire", 8))
        _wait_for_state(wire, group_id, "PreparingRebalance")
        leader = wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,)).groups[0].members[0].member_id
        wire.call(ApiKey.LEAVE_GROUP, 3, group_id=group_id, members=[{"member_id": leader, "group_instance_id": None}])

        answers = [second.receive() for _ in range(2)]

    assert [struct.unpack(">i", answer[:4])[0] for answer in answers] == [7, 8]
    assert read_response(ApiKey.JOIN_GROUP, 9, answers[0]).error_code == 0


def test_requests_that_arrive_byte_by_byte_are_answered(wire: KafkaWire) -> None:
    data = frame(ApiKey.API_VERSIONS, 0) * 2
    for place in range(len(data)):
        wire.send(data[place : place + 1])
    assert [len(read_response(ApiKey.API_VERSIONS, 0, wire.receive()).api_keys) for _ in range(2)] == [len(APIS)] * 2


def test_newer_version_of_api_versions_is_answered_with_those_that_there_are(wire: KafkaWire) -> None:
    newest = frame(ApiKey.API_VERSIONS, 4, client_software_name="t", client_software_version="1")
    wire.send(newest[:6] + struct.pack(">h", 5) + newest[8:])
    answer = read_response(ApiKey.API_VERSIONS, 0, wire.receive())
    assert (answer.error_code, len(answer.api_keys)) == (UNSUPPORTED_VERSION, len(APIS))


MALFORMED = {
    "no size": b"GET / HTTP/1.1\r\n\r\n",
    "negative size": struct.pack(">i", -1),
    "empty frame": struct.pack(">i", 0),
    "too large": struct.pack(">i", 2**31 - 1),
    "cut-off header": struct.pack(">ihh", 4, 18, 0),
    "client id beyond the frame": struct.pack(">ihhih", 10, 18, 0, 1, 500),
    "unknown API": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "version that is not offered": struct.pack(">ihhih", 10, 12, 77, 1, -1),
    "cut-off body": struct.pack(">ihhih", 10, 12, 0, 1, -1),
    "endless varint": struct.pack(">ihhih", 30, 12, 4, 1, -1) + b"\xff" * 20,
    "varint of megabytes": struct.pack(">ihhih", 10 + 2**22, 12, 4, 1, -1) + b"\xff" * 2**22,
    "null list": struct.pack(">ihhihi", 14, ApiKey.DESCRIBE_GROUPS, 0, 1, -1, -1),
    "more parts than allowed": frame(ApiKey.FIND_COORDINATOR, 5, key_type=0, coordinator_keys=["g"] * 20_001),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_frame_closes_its_connection_only(wire: KafkaWire, name: str) -> None:
    with KafkaWire(_address(wire)) as broken:
        broken.send(MALFORMED[name])
        assert broken.is_closed()
    assert wire.call(ApiKey.API_VERSIONS, 0).error_code == 0


def test_client_whose_id_is_no_text_is_answered(wire: KafkaWire) -> None:
    wire.send(struct.pack(">ihhih", 12, ApiKey.API_VERSIONS, 0, 1, 2) + b"\xff\xff")
    assert read_response(ApiKey.API_VERSIONS, 0, wire.receive()).error_code == 0


def test_client_that_disappears_during_a_join_leaves_the_group_to_its_timers(wire: KafkaWire, group_id: str) -> None:
    member_id = join_alone(wire, group_id)
    with KafkaWire(_address(wire)) as second:
        second.send(
            frame(
                ApiKey.JOIN_GROUP,
                3,
                group_id=group_id,
                session_timeout=timedelta(seconds=6),
                rebalance_timeout=PATIENT,
                member_id="",
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
            )
        )
        _wait_for_state(wire, group_id, "PreparingRebalance")
    assert wire.call(ApiKey.HEARTBEAT, 4, group_id=group_id, generation_id=1, member_id=member_id).error_code == 27


# -- limits -----------------------------------------------------------------------------------------


def test_limits_close_connections(databases: Databases) -> None:
    url = databases.create()
    limits = {"max_connections": 20, "max_connections_per_ip": 2, "max_body_bytes": 1_024, "body_timeout_ms": 100}
    with running_kafka_node(url, **limits) as node:
        address = node.settings.kafka_address
        with KafkaWire(address) as silent:
            assert silent.is_closed(), "nothing was sent in time"
        with KafkaWire(address) as slow:
            slow.send(struct.pack(">i", 1_000))
            assert any(_is_closed_within_a_moment(slow) for _ in range(900)), "each byte got time of its own"
        with KafkaWire(address) as large:
            large.send(struct.pack(">i", 1_025))
            assert large.is_closed()
        with KafkaWire(address) as first, KafkaWire(address) as second, KafkaWire(address) as third:
            assert first.call(ApiKey.API_VERSIONS, 0).error_code == 0
            assert second.call(ApiKey.API_VERSIONS, 0).error_code == 0
            assert third.is_closed(), "a third connection of one address"
    databases.drop(url)


def test_refusal_of_a_large_commit_is_delayed(databases: Databases) -> None:
    url = databases.create()
    partitions = [{"partition_index": at, "committed_offset": 1, "committed_metadata": "m" * 3_000} for at in range(50)]
    values = {"generation_id_or_member_epoch": -1, "member_id": "", "topics": [{"name": "t", "partitions": partitions}]}
    with running_kafka_node(url, request_timeout_ms=100) as node, KafkaWire(node.settings.kafka_address) as wire:
        wait_until_serving(node)
        with offset_log_locked(url):
            began_s = time.monotonic()
            answer = wire.call(ApiKey.OFFSET_COMMIT, 9, group_id="g", **values)
            took_s = time.monotonic() - began_s
    assert {each.error_code for each in answer.topics[0].partitions} == {COORDINATOR_NOT_AVAILABLE}
    assert took_s >= MAX_THROTTLE_S
    databases.drop(url)


def _is_closed_within_a_moment(wire: KafkaWire) -> bool:
    """Send one byte; return whether the node closes the connection soon."""
    wire.socket.settimeout(0.01)
    try:
        wire.send(b"x")
        return wire.is_closed()
    except TimeoutError:
        return False
    except ConnectionError:
        return True


# -- tokens -----------------------------------------------------------------------------------------


DAN: Final = {"sha256": sha256(b"dan's").hexdigest(), "actor": "dan", "role": "agent", "prefixes": ["dan"]}
CARL: Final = {
    "sha256": sha256(b"carl's").hexdigest(),
    "actor": "carl",
    "acls": [
        {"permission": "ALLOW", "operations": ["READ"], "resource": "TOPIC", "pattern": "PREFIXED", "name": "bill"}
    ],
}
TOPICS_OF_CARL: Final = {"bills": 0, "secrets": TOPIC_AUTHORIZATION_FAILED, "unheard": TOPIC_AUTHORIZATION_FAILED}
"""Topic → the error code that carl gets."""


@pytest.fixture(scope="module")
def guarded(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Serve a node with tokens of an operator, ada, a viewer, bob, and an agent, dan; carl's may read some topics."""
    tokens = TokensFile(tmp_path_factory.mktemp("tokens") / "tokens.json")
    tokens.write(ADA, BOB, CARL, DAN)
    url = databases.create()
    with running_kafka_node(url, tokens_file=str(tokens.path), cluster_secret=CLUSTER_SECRET) as node:
        yield node
    databases.drop(url)


def _plain(password: str) -> bytes:
    return b"\x00anybody\x00" + password.encode()


def _bearer(token: str) -> bytes:
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


def _log_in(wire: KafkaWire, mechanism: str, auth_bytes: bytes) -> int:
    assert wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code == 0
    return int(wire.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=auth_bytes).error_code)


@pytest.mark.parametrize(("mechanism", "auth"), [("PLAIN", _plain("ada's")), ("OAUTHBEARER", _bearer("ada's"))])
def test_token_opens_the_connection(guarded: Node, mechanism: str, auth: bytes) -> None:
    with KafkaWire(guarded.settings.kafka_address) as wire:
        assert wire.call(ApiKey.API_VERSIONS, 3, client_software_name="t", client_software_version="1").error_code == 0
        assert _log_in(wire, mechanism, auth) == 0
        assert wire.call(ApiKey.LIST_GROUPS, 4, states_filter=()).error_code == 0


@pytest.mark.parametrize("auth", [_plain("wrong"), b"", b"\x00\x00", b"\x00" * 9, _plain("")])
def test_wrong_token_is_refused_and_the_connection_closed(
    guarded: Node, monkeypatch: pytest.MonkeyPatch, auth: bytes
) -> None:
    monkeypatch.setattr(connection, "FAILED_AUTHENTICATION_DELAY_S", 0)
    with KafkaWire(guarded.settings.kafka_address) as wire:
        assert _log_in(wire, "PLAIN", auth) == SASL_AUTHENTICATION_FAILED
        assert wire.is_closed()


def _send_bare_token(wire: KafkaWire, auth_bytes: bytes) -> None:
    """Send a token as after version 0 of SaslHandshake: without a header."""
    assert wire.call(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN").error_code == 0
    wire.send(len(auth_bytes).to_bytes(4) + auth_bytes)


def test_token_without_a_header_opens_the_connection(guarded: Node) -> None:
    """kafka-python 2.0 and aiokafka 0.12 send it so, and librdkafka 2.8 wants that version to be offered."""
    with KafkaWire(guarded.settings.kafka_address) as wire:
        _send_bare_token(wire, _plain("ada's"))
        assert wire.receive() == b""
        assert wire.call(ApiKey.LIST_GROUPS, 4, states_filter=()).error_code == 0


@pytest.mark.parametrize("auth", [_plain("wrong"), b"\x00" * 9, frame(ApiKey.LIST_GROUPS, 0)[4:]])
def test_wrong_token_without_a_header_closes_the_connection(
    guarded: Node, monkeypatch: pytest.MonkeyPatch, auth: bytes
) -> None:
    monkeypatch.setattr(connection, "FAILED_AUTHENTICATION_DELAY_S", 0)
    with KafkaWire(guarded.settings.kafka_address) as wire:
        _send_bare_token(wire, auth)
        assert wire.is_closed()


def test_other_mechanisms_are_refused_with_those_that_there_are(guarded: Node) -> None:
    with KafkaWire(guarded.settings.kafka_address) as wire:
        answer = wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        assert (answer.error_code, answer.mechanisms) == (UNSUPPORTED_SASL_MECHANISM, ("PLAIN", "OAUTHBEARER"))


def test_request_without_token_closes_the_connection(guarded: Node) -> None:
    with KafkaWire(guarded.settings.kafka_address) as wire:
        wire.send(frame(ApiKey.LIST_GROUPS, 0))
        assert wire.is_closed()


@pytest.mark.parametrize("key", [ApiKey.LIST_GROUPS, ApiKey.HEARTBEAT], ids=["request", "repeated heartbeat"])
def test_revoked_token_ends_its_connections(databases: Databases, tmp_path: Path, key: ApiKey) -> None:
    tokens = TokensFile(tmp_path / "tokens.json")
    tokens.write(ADA, BOB)
    url = databases.create()
    options = {"tokens_file": str(tokens.path), "cluster_secret": CLUSTER_SECRET}
    with running_kafka_node(url, **options) as node, KafkaWire(node.settings.kafka_address) as wire:
        assert _log_in(wire, "PLAIN", _plain("ada's")) == 0
        fields: dict[ApiKey, dict[str, Any]] = {
            ApiKey.LIST_GROUPS: {"states_filter": ()},
            ApiKey.HEARTBEAT: {"group_id": "orders", "generation_id": 1, "member_id": "m"},
        }
        wire.call(key, 4, **fields[key])
        tokens.write(BOB)

        def is_refused() -> bool:
            try:
                wire.call(key, 4, **fields[key])
            except ConnectionError:
                return True
            return False

        poll_until(is_refused)
    databases.drop(url)


def test_role_and_prefixes_hold_over_the_wire(guarded: Node) -> None:
    with KafkaWire(guarded.settings.kafka_address) as wire:
        assert _log_in(wire, "PLAIN", _plain("bob's")) == 0
        fields = {"generation_id": 1, "member_id": "m"}
        denied = wire.call(ApiKey.HEARTBEAT, 4, group_id="billing-1", **fields).error_code
        elsewhere = wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=("orders", "billing-1")).groups
    assert denied == GROUP_AUTHORIZATION_FAILED
    assert [each.error_code for each in elsewhere] == [GROUP_AUTHORIZATION_FAILED, 0]


def test_only_topics_that_the_token_may_read_are_shown(guarded: Node) -> None:
    client = Client(guarded.url)
    poll_until(lambda: client.call("GET", "/readyz").status == 200)
    operator = {"Authorization": "Bearer ada's"}
    for topic in ("bills", "secrets"):
        assert client.call("PUT", f"/v1/topics/{topic}", {"partitions": 1}, operator).status == 200
    client.close()
    with KafkaWire(guarded.settings.kafka_address) as wire:
        assert _log_in(wire, "PLAIN", _plain("carl's")) == 0

        def listed(*topics: Mapping[str, object]) -> list[tuple[str | None, int]]:
            answer = wire.call(ApiKey.METADATA, 12, topics=topics or None)
            return [(each.name, each.error_code) for each in answer.topics]

        partitions = [{"partition_index": 0, "timestamp": -1}]
        ends = [{"name": topic, "partitions": partitions} for topic in TOPICS_OF_CARL]
        offsets = wire.call(ApiKey.LIST_OFFSETS, 9, replica_id=-1, isolation_level=0, topics=ends)
        assert listed() == [("bills", 0)]
        assert listed(*({"name": topic, "topic_id": None} for topic in TOPICS_OF_CARL)) == list(TOPICS_OF_CARL.items())
        assert listed({"name": None, "topic_id": topic_id_of("secrets")}) == [(None, UNKNOWN_TOPIC_ID)]
        resources = [{"resource_type": 2, "resource_name": each, "configuration_keys": None} for each in TOPICS_OF_CARL]
        configs = wire.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results
        assert {each.resource_name: each.error_code for each in configs} == TOPICS_OF_CARL
        asked = {"max_wait": timedelta(0), "min_bytes": 0, "max_bytes": 1, "isolation_level": 0}
        records = [{"partition": 0, "fetch_offset": 0, "log_start_offset": 0, "partition_max_bytes": 1}]
        by_id = [{"topic_id": topic_id_of(topic), "partitions": records} for topic in TOPICS_OF_CARL]
        fetched = wire.call(ApiKey.FETCH, 13, **asked, topics=by_id, session_id=0, session_epoch=0)
    assert {each.name: each.partitions[0].error_code for each in offsets.topics} == TOPICS_OF_CARL
    found = [each.partitions[0].error_code for each in fetched.responses]
    assert found == [0, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_ID]


def test_all_offsets_of_a_very_large_group_are_not_read(databases: Databases) -> None:
    url = databases.create()
    with running_kafka_node(url, max_partitions_per_request=2) as node, closing(Client(node.url)) as client:

        def fetched(count: int, groups: int) -> list[int]:
            for partition in range(count):
                offsets = [{"topic": "orders", "partition": partition, "offset": 7}]
                client.ok("POST", "/v1/groups/a/offsets", {"generation": -1, "member_id": "", "offsets": offsets})
            with KafkaWire(node.settings.kafka_address) as wire:
                asked = [{"group_id": "a", "topics": None}] * groups
                answer = wire.call(ApiKey.OFFSET_FETCH, 8, groups=asked, require_stable=False)
            return [each.error_code for each in answer.groups]

        assert fetched(2, groups=3) == [0, 0, INVALID_REQUEST], "a response has four offsets in all"
        assert [fetched(4, groups=1), fetched(5, groups=1)] == [[0], [INVALID_REQUEST]]
    databases.drop(url)


def test_end_of_a_log_is_not_what_any_token_has_committed(guarded: Node) -> None:
    topic = {"topic": fresh_id("ends")}
    client = Client(guarded.url)

    def send(token: str, method: str, path: str, body: Json) -> int:
        return client.call_when_served(method, path, body, {"Authorization": f"Bearer {token}"}).status

    assert send("ada's", "PUT", f"/v1/topics/{topic['topic']}", {"partitions": 2}) == 200
    too_high = [{**topic, "partition": partition, "offset": 2**62} for partition in (0, 1)]
    own = [{**topic, "partition": 1, "offset": 7}]
    reported = [{**topic, "partition": 0, "offset": 30, "log_end_offset": 40}]
    commits = (("dan's", "dan", too_high), ("ada's", "billing-ends", own), ("ada's", "a", reported))
    for token, group_id, offsets in commits:
        body = {"generation": -1, "member_id": "", "offsets": offsets}
        assert send(token, "POST", f"/v1/groups/{group_id}/offsets", body) == 200

    def ends(token: str) -> list[int]:
        partitions = [{"partition_index": partition, "timestamp": -1} for partition in (0, 1)]
        with KafkaWire(guarded.settings.kafka_address) as wire:
            assert _log_in(wire, "PLAIN", _plain(token)) == 0
            topics = [{"name": topic["topic"], "partitions": partitions}]
            answer = wire.call(ApiKey.LIST_OFFSETS, 9, replica_id=-1, isolation_level=0, topics=topics)
        return [each.offset for each in answer.topics[0].partitions]

    poll_until(lambda: ends("dan's") == [40, 2**62])
    poll_until(lambda: ends("bob's") == [40, 7])
    client.close()


def test_connections_requests_and_bytes_are_in_the_metrics(kafka_node: Node, wire: KafkaWire) -> None:
    def value(name: str) -> float:
        client = Client(kafka_node.url)
        text = client.call("GET", "/metrics?detail=node").body.decode()
        client.close()
        return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)

    heartbeats = 'muster_listener_requests_total{error="UNKNOWN_MEMBER_ID",listener="kafka",request="Heartbeat"}'
    sizes = [f'muster_listener_bytes_total{{direction="{way}",listener="kafka"}}' for way in ("received", "sent")]
    before = [value(heartbeats), *map(value, sizes)]
    join_alone(wire, group_id := fresh_id())
    wire.call(ApiKey.HEARTBEAT, 4, group_id=group_id, generation_id=1, member_id="m")
    after = [value(heartbeats), *map(value, sizes)]
    assert after[0] == before[0] + 1
    assert all(now > then for now, then in zip(after, before, strict=True))
    assert value('muster_listener_connections{listener="kafka"}') >= 1
    assert value('muster_listener_max_connections{listener="kafka"}') > 1


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.HEARTBEAT, 4, {"group_id": "orders", "generation_id": 1, "member_id": "m"}),
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "orders", "topics": None}], "require_stable": False}),
    ],
)
def test_repeated_requests_count_against_quotas_of_their_group(
    databases: Databases, key: ApiKey, version: int, fields: dict[str, object]
) -> None:
    url = databases.create()
    with (
        running_kafka_node(url, group_quota_requests_per_s=1, quota_window_s=1) as node,
        KafkaWire(node.settings.kafka_address) as wire,
    ):
        for _ in range(8):
            wire.call(key, version, **fields)
        client = Client(node.url)
        metrics = client.call("GET", "/metrics").body.decode()
        client.close()
    databases.drop(url)
    assert 'muster_requests_throttled_total{limit="group_quota_requests_per_s"}' in metrics
    assert 'muster_requests_throttled_total{limit="group_quota_requests_per_s"} 0.0' not in metrics


# -- several nodes ----------------------------------------------------------------------------------


def test_clients_find_the_owner_of_a_group_at_every_node(databases: Databases) -> None:
    url = databases.create()
    options = {"group_initial_rebalance_delay_ms": 0}
    with running_kafka_node(url, **options) as first, running_kafka_node(url, **options) as second:
        put_topic(first)
        wait_until_ready(first)
        addresses = {node.settings.kafka_address for node in (first, second)}
        with KafkaWire(first.settings.kafka_address) as one, KafkaWire(second.settings.kafka_address) as two:

            def is_shared() -> bool:
                return {_owner(wire, f"group-{number}") for wire in (one, two) for number in range(40)} == addresses

            poll_until(is_shared)
            by_address = {first.settings.kafka_address: (one, two), second.settings.kafka_address: (two, one)}
            groups = [fresh_id() for _ in range(10)]
            for group_id in groups:
                poll_until(lambda: _owner(one, group_id) == _owner(two, group_id))  # noqa: B023
                owner, other = by_address[_owner(one, group_id)]
                join_alone(owner, group_id)
                beat = {"group_id": group_id, "generation_id": 1, "member_id": "m"}
                assert other.call(ApiKey.HEARTBEAT, 4, **beat).error_code == NOT_COORDINATOR
            listed = [_listed(wire) & set(groups) for wire in (one, two)]
    databases.drop(url)

    assert sorted(map(len, listed)) == sorted(len(each - other) for each, other in (listed, listed[::-1]))
    assert listed[0] | listed[1] == set(groups)


def test_member_of_kafka_and_member_of_http_share_a_group(wire: KafkaWire, kafka_node: Node, group_id: str) -> None:
    join_alone(wire, group_id)
    client = Client(kafka_node.url)
    group = Group(client, group_id)
    joining = client.later(group, "join", join_body(member_id=group.handshake()))
    _wait_for_state(wire, group_id, "PreparingRebalance")
    members = wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,)).groups[0].members
    assert len(members) == 2
    leader = next(each.member_id for each in members if each.client_id == "wire")
    wire.call(ApiKey.LEAVE_GROUP, 3, group_id=group_id, members=[{"member_id": leader, "group_instance_id": None}])
    assert joining.result(60).status == 200
    client.close()


def _owner(wire: KafkaWire, group_id: str) -> str:
    found = wire.call(ApiKey.FIND_COORDINATOR, 2, key=group_id, key_type=0)
    return f"{found.host}:{found.port}"


def _listed(wire: KafkaWire) -> set[str]:
    return {each.group_id for each in wire.call(ApiKey.LIST_GROUPS, 4, states_filter=()).groups}


def _wait_for_state(wire: KafkaWire, group_id: str, state: str) -> None:
    poll_until(lambda: wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,)).groups[0].group_state == state)


def _address(wire: KafkaWire) -> str:
    host, port = wire.socket.getpeername()
    return f"{host}:{port}"
