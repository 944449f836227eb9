"""Requests for offsets, and for groups as a whole, in the versions in which they differ."""

from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg2
import pytest

from api.kafka.apis import ApiKey
from api.kafka.groups import DELETED_AT_ONCE
from muster.settings import psql_url
from tests.support.http_client import Client, fresh_id
from tests.support.kafka_listener import (
    ASSIGNMENT,
    PATIENT,
    SUBSCRIPTION,
    TOPIC,
    commit,
    committed,
    join_alone,
    versions,
)
from tests.support.kafka_wire import KafkaWire
from tests.support.nodes import Node
from tests.support.stored_history import DAY, insert
from tests.support.waiting import poll_until

UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST = 3, 42
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP = 25, 22, 69, 68


# -- offsets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_commit_in_every_version_is_fetched(wire: KafkaWire, group_id: str, version: int) -> None:
    member_id = join_alone(wire, group_id)
    partitions = [
        {"partition_index": number, "committed_offset": 10 + number, "committed_metadata": text}
        for number, text in ((0, "note"), (1, None))
    ]
    answer = wire.call(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=group_id,
        generation_id_or_member_epoch=1,
        member_id=member_id,
        retention_time=timedelta(milliseconds=-1),
        topics=[{"name": TOPIC, "partitions": partitions}],
    )
    assert [(each.partition_index, each.error_code) for each in answer.topics[0].partitions] == [(0, 0), (1, 0)]

    (topic,) = committed(wire, group_id, 8, None).topics
    found = [(each.partition_index, each.committed_offset, each.metadata) for each in topic.partitions]
    assert found == [(0, 10, "note"), (1, 11, "")]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_fetch_in_every_version_has_partitions_without_offset(wire: KafkaWire, group_id: str, version: int) -> None:
    commit(wire, group_id, 0, 7)
    (topic,) = committed(wire, group_id, version, [{"name": TOPIC, "partition_indexes": (0, 5)}]).topics
    found = [(each.partition_index, each.committed_offset, each.error_code) for each in topic.partitions]
    assert found == [(0, 7, 0), (5, -1, 0)]


def test_leader_epoch_below_none_is_refused_without_harm_to_others(wire: KafkaWire, group_id: str) -> None:
    assert commit(wire, group_id, 0, 7, leader_epoch=-2) == INVALID_REQUEST
    assert commit(wire, group_id, 0, 7) == 0


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_what_cannot_be_stored_is_refused_without_the_rest_of_the_commit(
    wire: KafkaWire, group_id: str, version: int
) -> None:
    def partition(number: int, offset: int, metadata: str = "") -> dict[str, Any]:
        return {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata}

    partitions = [partition(-1, 7), partition(0, 7), partition(1, -1), partition(2, 8, "a\0b"), partition(3, 9)]
    topics = [
        {"name": TOPIC, "partitions": partitions},
        {"name": "t\0", "partitions": [partition(0, 1)]},
        {"name": "others", "partitions": [partition(4, 10)]},
    ]
    answer = wire.call(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time=timedelta(milliseconds=-1),
        topics=topics,
    )
    codes = [[int(one.error_code) for one in each.partitions] for each in answer.topics]
    assert codes == [
        [UNKNOWN_TOPIC_OR_PARTITION, 0, INVALID_REQUEST, INVALID_REQUEST, 0],
        [INVALID_REQUEST],
        [0],
    ]
    found = committed(wire, group_id, 8, None).topics
    offsets = {(each.name, one.partition_index): one.committed_offset for each in found for one in each.partitions}
    assert offsets == {(TOPIC, 0): 7, (TOPIC, 3): 9, ("others", 4): 10}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_member_of_a_group_that_is_gone_has_to_join_again(wire: KafkaWire, group_id: str, version: int) -> None:
    """Consumers do not know GROUP_ID_NOT_FOUND of a commit: Java's raises what ends an application."""
    code = commit(wire, group_id, 0, 7, version=version, member_id="evicted", generation_id_or_member_epoch=1)
    assert code == ILLEGAL_GENERATION


def test_commit_of_an_unknown_member_has_an_error_for_each_partition(wire: KafkaWire, group_id: str) -> None:
    join_alone(wire, group_id)
    assert commit(wire, group_id, 0, 7, member_id="unknown", generation_id_or_member_epoch=1) == UNKNOWN_MEMBER_ID


def test_several_groups_are_fetched_at_once(wire: KafkaWire, group_id: str) -> None:
    commit(wire, group_id, 0, 7)
    topics = [{"name": TOPIC, "partition_indexes": (0,)}]
    groups = [{"group_id": each, "topics": topics} for each in (group_id, fresh_id())]
    answer = wire.call(ApiKey.OFFSET_FETCH, 9, groups=groups)
    assert [each.topics[0].partitions[0].committed_offset for each in answer.groups] == [7, -1]


def test_deleted_offsets_are_gone_and_recorded(wire: KafkaWire, kafka_node: Node, group_id: str) -> None:
    commit(wire, group_id, 0, 7)
    commit(wire, group_id, 2, 8)
    topics = [{"name": TOPIC, "partitions": [{"partition_index": number} for number in (0, 1, 2, 99, 0, -1)]}]
    answer = wire.call(ApiKey.OFFSET_DELETE, 0, group_id=group_id, topics=topics)
    codes = [int(one.error_code) for one in answer.topics[0].partitions]
    unknown = UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.error_code, codes) == (0, [0, 0, 0, unknown, 0, unknown])
    assert committed(wire, group_id, 8, None).topics == ()
    client = Client(kafka_node.url)
    (change,) = client.ok("GET", f"/v1/changes?group_id={group_id}")["changes"]
    client.close()
    assert (change["action"], change["actor"]) == ("delete_offsets", "wire")
    assert change["before"]["offset_count"] == 2
    assert (change["after"]["topic"], change["after"]["partition"]) == (TOPIC, None)


def test_deleted_offsets_of_several_topics_are_one_change_that_is_undone(
    wire: KafkaWire, kafka_node: Node, group_id: str
) -> None:
    commit(wire, group_id, 1, 7)
    commit(wire, group_id, 2, 8, topic="others")
    topics = [
        {"name": each, "partitions": [{"partition_index": 1}, {"partition_index": 2}]} for each in (TOPIC, "others")
    ]
    assert wire.call(ApiKey.OFFSET_DELETE, 0, group_id=group_id, topics=topics).error_code == 0
    assert committed(wire, group_id, 8, None).topics == ()
    with closing(Client(kafka_node.url)) as client:
        (change,) = client.ok("GET", f"/v1/changes?group_id={group_id}")["changes"]
        assert change["after"]["topic"] is None
        client.ok("POST", f"/v1/changes/{change['change_id']}/undo", {"reason": "a test"})
    found = committed(wire, group_id, 8, None).topics
    restored = {(each.name, one.partition_index): one.committed_offset for each in found for one in each.partitions}
    assert restored == {(TOPIC, 1): 7, ("others", 2): 8}


# -- groups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_group_is_described_in_every_version(wire: KafkaWire, group_id: str, version: int) -> None:
    member_id = join_alone(wire, group_id)
    (group,) = wire.call(ApiKey.DESCRIBE_GROUPS, version, groups=(group_id,)).groups
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "wire", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, ASSIGNMENT)


def test_group_that_rebalances_is_described_with_its_last_assignment(
    wire: KafkaWire, kafka_node: Node, group_id: str
) -> None:
    member_id = join_alone(wire, group_id)
    with KafkaWire(kafka_node.settings.kafka_address) as another:
        another.ask(
            ApiKey.JOIN_GROUP,
            3,
            group_id=group_id,
            session_timeout=PATIENT,
            rebalance_timeout=PATIENT,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
        )

        def described() -> Any:  # noqa: ANN401  # of a class for each version
            (group,) = wire.call(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,)).groups
            return group if group.group_state == "PreparingRebalance" else None

        group = poll_until(described)
    members = {each.member_id: (each.member_metadata, each.member_assignment) for each in group.members}
    assert members.pop(member_id) == (b"", ASSIGNMENT)
    assert list(members.values()) == [(b"", b"")]


@pytest.mark.parametrize(("version", "expected"), [(5, (0, "Dead")), (6, (GROUP_ID_NOT_FOUND, "Dead"))])
def test_unknown_group_is_dead_or_not_found(wire: KafkaWire, version: int, expected: tuple[int, str]) -> None:
    (group,) = wire.call(ApiKey.DESCRIBE_GROUPS, version, groups=(fresh_id(),)).groups
    assert (group.error_code, group.group_state) == expected


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_group_is_listed_in_every_version(wire: KafkaWire, group_id: str, version: int) -> None:
    join_alone(wire, group_id)
    answer = wire.call(ApiKey.LIST_GROUPS, version, states_filter=(), types_filter=())
    assert [each.protocol_type for each in answer.groups if each.group_id == group_id] == ["consumer"]


@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [
        (("stable",), ("Classic",), True),
        (("Empty", "Stable"), (), True),
        (("Empty",), ("Classic",), False),
        (("Stable",), ("consumer",), False),
        ((), ("consumer", "classic"), True),
    ],
)
def test_list_is_filtered_by_states_and_types(
    wire: KafkaWire, group_id: str, states: tuple[str, ...], types: tuple[str, ...], is_listed: bool
) -> None:
    join_alone(wire, group_id)
    answer = wire.call(ApiKey.LIST_GROUPS, 5, states_filter=states, types_filter=types)
    assert (group_id in {each.group_id for each in answer.groups}) is is_listed


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_empty_group_is_deleted_and_others_are_not(wire: KafkaWire, group_id: str, version: int) -> None:
    commit(wire, group_id, 0, 7)
    busy, unknown = fresh_id(), fresh_id()
    join_alone(wire, busy)
    answer = wire.call(ApiKey.DELETE_GROUPS, version, groups_names=(group_id, busy, group_id, unknown))
    assert [each.error_code for each in answer.results] == [0, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND]


def test_many_groups_are_deleted_each_with_its_own_result(wire: KafkaWire) -> None:
    known, unknown = ([fresh_id() for _ in range(DELETED_AT_ONCE)] for _ in range(2))
    for each in known:
        commit(wire, each, 0, 7)
    names = [name for pair in zip(known, unknown, strict=True) for name in pair]
    answer = wire.call(ApiKey.DELETE_GROUPS, 2, groups_names=tuple(names))
    assert [each.group_id for each in answer.results] == names
    assert [each.error_code for each in answer.results] == [0, GROUP_ID_NOT_FOUND] * DELETED_AT_ONCE
    assert {tuple(committed(wire, each, 8, None).topics) for each in known} == {()}


def test_group_that_is_nothing_but_offsets_is_deleted(wire: KafkaWire, kafka_node: Node, group_id: str) -> None:
    client, url = Client(kafka_node.url), kafka_node.settings.database_url
    assert url is not None
    shard_id = client.ok("GET", f"/v1/groups/{group_id}/coordinator")["shard_id"]
    client.close()
    of_partition = {"group_id": group_id, "shard_id": shard_id, "topic": TOPIC, "partition": 0}
    with closing(psycopg2.connect(psql_url(url.get_secret_value()))) as connection:
        insert(connection, "offsets", {**of_partition, "committed_offset": 5, "committed_at": DAY})
    (found,) = wire.call(ApiKey.DELETE_GROUPS, 2, groups_names=(group_id,)).results
    assert found.error_code == 0
    assert committed(wire, group_id, 8, None).topics == ()
