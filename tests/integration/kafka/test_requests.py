"""Requests of members, and for brokers and records, in the versions in which they differ."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from api.kafka.apis import APIS, ApiKey
from api.kafka.brokers import broker_id_of
from api.shared.limits import CLIENT_ID_MAX_CHARS
from api.shared.topic_ids import topic_id_of
from api.shared.turns import CONVERTED_AT_ONCE
from tests.support.http_client import fresh_id
from tests.support.kafka_listener import (
    ASSIGNMENT,
    PARTITIONS,
    PATIENT,
    SUBSCRIPTION,
    TOPIC,
    commit,
    join_alone,
    put_topic,
    versions,
)
from tests.support.kafka_wire import KafkaWire, frame, read_response
from tests.support.nodes import Node
from tests.support.waiting import poll_until

UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, INVALID_GROUP_ID, TOPIC_AUTHORIZATION_FAILED = 25, 22, 24, 29
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_REQUEST, OFFSET_OUT_OF_RANGE, INVALID_TOPIC = 3, 100, 42, 1, 17
UNSUPPORTED_VERSION = 35
INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED = 23, 79


# -- brokers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
def test_api_versions_are_those_of_the_table(wire: KafkaWire, version: int) -> None:
    answer = wire.call(ApiKey.API_VERSIONS, version, client_software_name="t", client_software_version="1")
    offered = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert (answer.error_code, offered) == (0, {key: (api.first, api.last) for key, api in APIS.items()})


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_metadata_has_the_node_and_its_topics(wire: KafkaWire, kafka_node: Node, version: int) -> None:
    answer = wire.call(ApiKey.METADATA, version, topics=() if version == 0 else None)

    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == kafka_node.settings.kafka_address
    (topic,) = (each for each in answer.topics if each.name == TOPIC)
    assert [each.partition_index for each in topic.partitions] == list(range(PARTITIONS))
    assert {each.leader_id for each in topic.partitions} == {broker.node_id}
    if version >= 2:
        assert len(answer.cluster_id) == 22


def test_metadata_of_unknown_topics_is_an_error(wire: KafkaWire) -> None:
    answer = wire.call(ApiKey.METADATA, 12, topics=[{"name": "nowhere", "topic_id": None}])
    assert [(each.name, each.error_code) for each in answer.topics] == [("nowhere", UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "t" * 250])
def test_metadata_of_a_topic_that_cannot_be_is_an_error_that_is_not_retried(wire: KafkaWire, name: str) -> None:
    answer = wire.call(ApiKey.METADATA, 9, topics=[{"name": name}])
    assert [(each.name, each.error_code) for each in answer.topics] == [(name, INVALID_TOPIC)]


@pytest.mark.parametrize(("kind", "code"), [(1, 0), (2, 114), (0, 115), (3, 115)])
def test_cluster_has_no_controllers(wire: KafkaWire, kind: int, code: int) -> None:
    answer = wire.call(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False, endpoint_type=kind)
    assert (answer.error_code, len(answer.brokers)) == (code, 0 if code else 1)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_there_are_no_settings_and_an_error_for_what_does_not_exist(wire: KafkaWire, version: int) -> None:
    (broker,) = wire.call(ApiKey.METADATA, 9, topics=()).brokers
    node_id = str(broker.node_id)
    wanted = {
        (2, TOPIC): 0,
        (2, "nowhere"): UNKNOWN_TOPIC_OR_PARTITION,
        (2, ""): INVALID_TOPIC,
        (4, node_id): 0,
        (4, ""): 0,
        (4, "7"): INVALID_REQUEST,
        (8, node_id): 0,
        (32, "billing"): 0,
        (32, ""): INVALID_REQUEST,
        (99, "billing"): INVALID_REQUEST,
    }
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ("retention.ms", "cleanup.policy")}
        for kind, name in wanted
    ]
    answer = wire.call(ApiKey.DESCRIBE_CONFIGS, version, resources=resources)
    assert {(each.resource_type, each.resource_name): each.error_code for each in answer.results} == wanted
    assert {each.configs for each in answer.results} == {()}


@pytest.mark.parametrize("version", [10, 12])
def test_metadata_of_a_topic_without_name_is_an_error(wire: KafkaWire, version: int) -> None:
    answer = wire.call(ApiKey.METADATA, version, topics=[{"name": None, "topic_id": UUID(int=7)}])
    assert [each.error_code for each in answer.topics] == [UNKNOWN_TOPIC_ID]


def test_metadata_of_a_topic_is_returned_once(wire: KafkaWire) -> None:
    """A frame of a few bytes for each topic could otherwise ask for any amount of memory."""
    answer = wire.call(ApiKey.METADATA, 9, topics=[{"name": TOPIC}] * 3)
    assert [each.name for each in answer.topics] == [TOPIC]


def test_metadata_of_a_topic_with_many_partitions_has_them_all(wire: KafkaWire, kafka_node: Node) -> None:
    topic = fresh_id("large-")
    put_topic(kafka_node, topic, 3 * CONVERTED_AT_ONCE)
    answer = wire.call(ApiKey.METADATA, 12, topics=[{"name": topic}, {"name": TOPIC}, {"name": "nowhere"}])
    found = [(each.name, [one.partition_index for one in each.partitions]) for each in answer.topics]
    assert found == [
        (topic, list(range(3 * CONVERTED_AT_ONCE))),
        (TOPIC, list(range(PARTITIONS))),
        ("nowhere", []),
    ]


def test_topics_are_found_by_their_ids(wire: KafkaWire) -> None:
    answer = wire.call(ApiKey.METADATA, 12, topics=[{"name": None, "topic_id": topic_id_of(TOPIC)}])
    assert [(each.name, each.error_code, len(each.partitions)) for each in answer.topics] == [(TOPIC, 0, PARTITIONS)]


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_coordinator_of_a_group_is_its_owner(wire: KafkaWire, kafka_node: Node, group_id: str, version: int) -> None:
    answer = wire.call(ApiKey.FIND_COORDINATOR, version, key=group_id, key_type=0, coordinator_keys=(group_id,))

    found = answer.coordinators[0] if version >= 4 else answer
    node_id = kafka_node.settings.node_url.removeprefix("http://")
    assert (found.error_code, found.node_id) == (0, broker_id_of(node_id))
    assert f"{found.host}:{found.port}" == kafka_node.settings.kafka_address


def test_there_is_no_coordinator_of_transactions(wire: KafkaWire) -> None:
    answer = wire.call(ApiKey.FIND_COORDINATOR, 5, key_type=1, coordinator_keys=("a transaction",))
    assert answer.coordinators[0].error_message == "there are no transactions here, only groups"


# -- membership -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_member_joins_in_every_version(wire: KafkaWire, group_id: str, version: int) -> None:
    member_id = join_alone(wire, group_id, version)
    assert member_id.startswith("wire-")


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_only_newer_clients_have_to_join_again_with_their_member_id(
    wire: KafkaWire, group_id: str, version: int
) -> None:
    answer = wire.call(
        ApiKey.JOIN_GROUP,
        version,
        group_id=group_id,
        session_timeout=PATIENT,
        rebalance_timeout=PATIENT,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
    )
    assert answer.member_id.startswith("wire-")
    assert (answer.error_code, answer.generation_id) == ((MEMBER_ID_REQUIRED, -1) if version >= 4 else (0, 1))


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_heartbeat_of_known_and_unknown_members(wire: KafkaWire, group_id: str, version: int) -> None:
    member_id = join_alone(wire, group_id)

    def beat(member_id: str, generation: int) -> int:
        answer = wire.call(ApiKey.HEARTBEAT, version, group_id=group_id, generation_id=generation, member_id=member_id)
        return int(answer.error_code)

    assert (beat(member_id, 1), beat("unknown", 1), beat(member_id, 7)) == (0, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION)


def test_heartbeat_that_repeats_is_decided_again_under_its_own_correlation_id(wire: KafkaWire, group_id: str) -> None:
    member_id = join_alone(wire, group_id)

    def beat(correlation_id: int, version: int = 4, generation: int = 1) -> tuple[int, int]:
        fields = {"group_id": group_id, "generation_id": generation, "member_id": member_id}
        wire.send(frame(ApiKey.HEARTBEAT, version, "wire", correlation_id, **fields))
        data = wire.receive()
        return int.from_bytes(data[:4]), read_response(ApiKey.HEARTBEAT, version, data).error_code

    assert [beat(7), beat(8), beat(9)] == [(7, 0), (8, 0), (9, 0)]
    assert [beat(10, version=0), beat(11, version=1)] == [(10, 0), (11, 0)], "the bodies are equal, the responses not"
    assert [beat(12), beat(13, generation=7), beat(14)] == [(12, 0), (13, ILLEGAL_GENERATION), (14, 0)]
    wire.call(ApiKey.LEAVE_GROUP, 1, group_id=group_id, member_id=member_id)
    assert beat(15) == (15, UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_sync_in_every_version(wire: KafkaWire, group_id: str, version: int) -> None:
    member_id = join_alone(wire, group_id)
    again = wire.call(
        ApiKey.SYNC_GROUP,
        version,
        group_id=group_id,
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(),
    )
    assert (again.error_code, again.assignment) == (0, ASSIGNMENT)


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [("connect", "range"), ("consumer", "roundrobin")])
def test_sync_with_another_protocol_is_refused(
    wire: KafkaWire, group_id: str, protocol_type: str, protocol_name: str
) -> None:
    member_id = join_alone(wire, group_id)
    answer = wire.call(
        ApiKey.SYNC_GROUP,
        5,
        group_id=group_id,
        generation_id=1,
        member_id=member_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=(),
    )
    assert (answer.error_code, answer.assignment) == (INCONSISTENT_GROUP_PROTOCOL, b"")


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_leave_in_every_version(wire: KafkaWire, group_id: str, version: int) -> None:
    member_id = join_alone(wire, group_id)
    leaving = [{"member_id": each, "group_instance_id": None, "reason": None} for each in (member_id, "unknown")]

    first = wire.call(ApiKey.LEAVE_GROUP, version, group_id=group_id, member_id=member_id, members=leaving)
    second = wire.call(ApiKey.LEAVE_GROUP, version, group_id=group_id, member_id=member_id, members=leaving[:1])

    if version >= 3:
        assert [each.error_code for each in first.members] == [0, UNKNOWN_MEMBER_ID]
        assert (first.error_code, second.members[0].error_code) == (0, UNKNOWN_MEMBER_ID)
    else:
        assert (first.error_code, second.error_code) == (0, UNKNOWN_MEMBER_ID)


def test_any_reason_for_leaving_is_stored(wire: KafkaWire, group_id: str) -> None:
    member_id = join_alone(wire, group_id)
    leaving = [{"member_id": member_id, "group_instance_id": None, "reason": "\x00" + "r" * 20_000}]

    answer = wire.call(ApiKey.LEAVE_GROUP, 5, group_id=group_id, members=leaving)

    assert (answer.error_code, [each.error_code for each in answer.members]) == (0, [0])


def test_empty_instance_id_is_that_of_no_member(wire: KafkaWire, group_id: str) -> None:
    member_id = join_alone(wire, group_id)
    members = [{"member_id": member_id, "group_instance_id": ""}, {"member_id": member_id, "group_instance_id": None}]
    answer = wire.call(ApiKey.LEAVE_GROUP, 3, group_id=group_id, members=members)
    assert (answer.error_code, [each.error_code for each in answer.members]) == (0, [UNKNOWN_MEMBER_ID, 0])


@pytest.mark.parametrize("client_id", ["c" * 300, "c\0c", ""])
def test_any_client_id_may_join(kafka_node: Node, group_id: str, client_id: str) -> None:
    with KafkaWire(kafka_node.settings.kafka_address, client_id) as wire:
        member_id = join_alone(wire, group_id)
        (group,) = wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,)).groups
    kept = client_id.replace("\0", "")[:CLIENT_ID_MAX_CHARS]
    assert [(each.member_id, each.client_id) for each in group.members] == [(member_id, kept)]


@pytest.mark.parametrize("instance_id", ["billing-1", "i" * 249], ids=["short", "Kafka's longest"])
def test_static_member_keeps_its_id_to_the_second_join(wire: KafkaWire, group_id: str, instance_id: str) -> None:
    member_id = join_alone(wire, group_id, group_instance_id=instance_id)
    assert member_id.startswith(f"{instance_id}-")
    answer = wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,))
    assert [each.group_instance_id for each in answer.groups[0].members] == [instance_id]
    values = {"group_id": group_id, "member_id": member_id, "group_instance_id": instance_id}
    partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    commit = wire.call(ApiKey.OFFSET_COMMIT, 9, **values, generation_id_or_member_epoch=1, topics=topics)
    assert commit.topics[0].partitions[0].error_code == 0


def test_session_timeout_out_of_bounds_echoes_the_member_id(wire: KafkaWire, group_id: str) -> None:
    answer = wire.call(
        ApiKey.JOIN_GROUP,
        9,
        group_id=group_id,
        session_timeout=timedelta(milliseconds=1),
        rebalance_timeout=PATIENT,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
    )
    assert (answer.error_code, answer.member_id, answer.protocol_name) == (26, "", None)


def test_negative_rebalance_timeout_is_none(wire: KafkaWire, group_id: str) -> None:
    answer = wire.call(
        ApiKey.JOIN_GROUP,
        1,
        group_id=group_id,
        session_timeout=PATIENT,
        rebalance_timeout=timedelta(milliseconds=-1),
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
    )
    assert (answer.error_code, answer.generation_id) == (0, 1)


def test_empty_group_id_is_invalid(wire: KafkaWire) -> None:
    answer = wire.call(ApiKey.HEARTBEAT, 4, group_id="", generation_id=1, member_id="m")
    assert answer.error_code == INVALID_GROUP_ID


# -- records ----------------------------------------------------------------------------------------


def log_end(wire: KafkaWire, timestamp: int, partition: int = 0, version: int = 9) -> tuple[int, int]:
    """Return the error code and the offset of ListOffsets."""
    partitions = [{"partition_index": partition, "timestamp": timestamp}]
    topics = [{"name": TOPIC, "partitions": partitions}]
    answer = wire.call(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=topics)
    (found,) = answer.topics[0].partitions
    return int(found.error_code), int(found.offset)


def test_log_without_reports_ends_at_the_highest_commit(wire: KafkaWire, group_id: str) -> None:
    commit(wire, group_id, 3, 1_000)
    commit(wire, fresh_id(), 3, 40)
    poll_until(lambda: log_end(wire, -1, 3) == (0, 1_000))
    assert log_end(wire, -2, 3) == (0, 0)
    for partition in (PARTITIONS, -1):
        assert log_end(wire, -1, partition) == (UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_log_starts_in_every_version(wire: KafkaWire, version: int) -> None:
    assert log_end(wire, -2, version=version) == (0, 0)


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(-3, 7, -1), (-4, 8, 0), (-5, 9, -1)],
    ids=["highest timestamp: none, as of a log without records", "local start", "end of the tiered part: none"],
)
def test_place_in_a_log_is_unsupported_in_versions_before_the_one_that_brought_it(
    wire: KafkaWire, timestamp: int, since: int, offset: int
) -> None:
    assert log_end(wire, timestamp, version=since) == (0, offset)
    assert log_end(wire, timestamp, version=since - 1) == (UNSUPPORTED_VERSION, -1)
    assert log_end(wire, timestamp, PARTITIONS, version=since - 1) == (UNSUPPORTED_VERSION, -1)


def test_place_in_a_log_that_no_version_knows_is_unsupported(wire: KafkaWire) -> None:
    assert log_end(wire, -6) == (UNSUPPORTED_VERSION, -1)


def test_partition_that_is_named_twice_has_no_log_end(wire: KafkaWire) -> None:
    """The two may have different times, and a client that reads the answer by partition would mix them up."""
    wanted = [(TOPIC, 0, -1), (TOPIC, 1, -2), (TOPIC, 0, -2), ("unknown", 0, -1), ("unknown", 0, -1)]
    topics = [
        {"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}
        for topic, partition, timestamp in wanted
    ]
    answer = wire.call(ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=topics)
    codes = [int(one.error_code) for each in answer.topics for one in each.partitions]
    assert codes == [INVALID_REQUEST, 0, INVALID_REQUEST, INVALID_REQUEST, INVALID_REQUEST]


def fetch(wire: KafkaWire, version: int, topic: str, partition: int = 0, offset: int = 7) -> Any:  # noqa: ANN401
    """Fetch from a partition, by the name of its topic or, in newer versions, by its id; return the topic's part."""
    topics = [
        {
            "topic": topic,
            "topic_id": topic_id_of(topic),
            "partitions": [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1_000}],
        }
    ]
    answer = wire.call(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=timedelta(milliseconds=1),
        min_bytes=1,
        isolation_level=0,
        topics=topics,
        forgotten_topics_data=(),
    )
    (found,) = answer.responses
    assert getattr(found, "topic", topic) == topic
    assert getattr(found, "topic_id", topic_id_of(topic)) == topic_id_of(topic)
    return found


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_fetch_returns_no_records(wire: KafkaWire, version: int) -> None:
    (partition,) = fetch(wire, version, TOPIC).partitions
    assert (partition.error_code, partition.records) == (0, b"")
    # kafka-go reports a broken response if the log goes on.
    assert (partition.high_watermark, partition.last_stable_offset) == (7, 7)


@pytest.mark.parametrize(("version", "code"), [(12, UNKNOWN_TOPIC_OR_PARTITION), (13, UNKNOWN_TOPIC_ID)])
def test_fetch_from_an_unknown_topic_fails(wire: KafkaWire, version: int, code: int) -> None:
    assert fetch(wire, version, fresh_id()).partitions[0].error_code == code


@pytest.mark.parametrize(
    ("partition", "offset", "code"),
    [(-1, 7, UNKNOWN_TOPIC_OR_PARTITION), (PARTITIONS, 7, UNKNOWN_TOPIC_OR_PARTITION), (0, -1, OFFSET_OUT_OF_RANGE)],
)
def test_fetch_of_what_cannot_be_fails(wire: KafkaWire, partition: int, offset: int, code: int) -> None:
    assert fetch(wire, 12, TOPIC, partition, offset).partitions[0].error_code == code


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_records_are_refused(wire: KafkaWire, version: int) -> None:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": b""}]}]
    answer = wire.call(
        ApiKey.PRODUCE, version, transactional_id=None, acks=1, timeout=timedelta(seconds=1), topic_data=data
    )
    (refused,) = answer.responses[0].partition_responses
    assert refused.error_code == TOPIC_AUTHORIZATION_FAILED
    assert getattr(refused, "record_errors", ()) == (), "librdkafka ends its process if the list is null"


def test_topic_with_a_nul_is_refused(wire: KafkaWire, group_id: str) -> None:
    """Postgres does not store it, and would not compare it; what else a request has is answered."""
    commit(wire, group_id, 0, 7)
    topics = [{"name": name, "partition_indexes": (0,)} for name in ("t\x00", "", TOPIC)]
    fetched = wire.call(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=topics)
    offsets = [(each.name, each.partitions[0].committed_offset) for each in fetched.topics]
    assert (fetched.error_code, offsets) == (0, [("t\x00", -1), ("", -1), (TOPIC, 7)])
    deleted = wire.call(
        ApiKey.OFFSET_DELETE,
        0,
        group_id=group_id,
        topics=[{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t\x00", "", TOPIC)],
    )
    codes = [each.partitions[0].error_code for each in deleted.topics]
    assert (deleted.error_code, codes) == (0, [UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION, 0])
    listed = [{"name": "t\x00", "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}]
    ends = wire.call(ApiKey.LIST_OFFSETS, 6, replica_id=-1, isolation_level=0, topics=listed)
    assert ends.topics[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("is_asked", [True, False])
def test_authorized_operations_are_for_clients_that_ask(wire: KafkaWire, group_id: str, *, is_asked: bool) -> None:
    asked = {"include_cluster_authorized_operations": is_asked, "include_topic_authorized_operations": is_asked}
    read, delete, describe, unknown = 1 << 3, 1 << 6, 1 << 8, -(2**31)

    cluster = wire.call(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=is_asked)
    metadata = wire.call(ApiKey.METADATA, 8, topics=None, allow_auto_topic_creation=False, **asked)
    described = wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[group_id], include_authorized_operations=is_asked)

    of_cluster = describe if is_asked else unknown
    assert cluster.cluster_authorized_operations == metadata.cluster_authorized_operations == of_cluster
    topics = {each.topic_authorized_operations for each in metadata.topics}
    assert topics == {read | describe if is_asked else unknown}
    assert described.groups[0].authorized_operations == (read | delete | describe if is_asked else unknown)
