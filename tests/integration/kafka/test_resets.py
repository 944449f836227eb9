"""Resets by admin clients over the wire: they are changes, which can be undone; commits of consumers are not."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from api.kafka.apis import ApiKey
from muster.settings import psql_url
from tests.support.http_client import Client, fresh_id
from tests.support.kafka_listener import PARTITIONS, TOPIC, join_alone, put_topic
from tests.support.kafka_wire import KafkaWire
from tests.support.nodes import Node
from tests.support.stored_history import DAY, at, insert
from tests.support.waiting import poll_until

UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_MEMBER_ID, INVALID_TIMESTAMP = 3, 25, 32
LATEST = -1


@pytest.fixture
def admin(kafka_node: Node) -> Iterator[KafkaWire]:
    """Give a connection with the client id of Java's admin clients."""
    with KafkaWire(kafka_node.settings.kafka_address, "adminclient-1") as admin:
        yield admin


@pytest.fixture
def client(kafka_node: Node) -> Iterator[Client]:
    client = Client(kafka_node.url)
    yield client
    client.close()


def commit(
    wire: KafkaWire, group_id: str, *offsets: tuple[int, int], topic: str = TOPIC, metadata: str = ""
) -> list[int]:
    """Commit partitions' offsets without a member; return their error codes."""
    partitions = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        for partition, offset in offsets
    ]
    answer = wire.call(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": partitions}],
    )
    return [int(each.error_code) for each in answer.topics[0].partitions]


def changes_of(client: Client, group_id: str) -> list[Any]:
    found: list[Any] = client.ok("GET", f"/v1/changes?group_id={group_id}")["changes"]
    return found


def offsets_of(client: Client, group_id: str) -> dict[int, tuple[int, str]]:
    found = client.ok("GET", f"/v1/groups/{group_id}/offsets")["offsets"]
    return {each["partition"]: (each["offset"], each["metadata"]) for each in found}


def left_by_its_member(wire: KafkaWire, group_id: str, *offsets: int) -> None:
    """Make an Empty group that a member has used, with these offsets of the partitions from 0 on."""
    member_id = join_alone(wire, group_id)
    partitions = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": "a member's"}
        for partition, offset in enumerate(offsets)
    ]
    wire.call(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=group_id,
        generation_id_or_member_epoch=1,
        member_id=member_id,
        topics=[{"name": TOPIC, "partitions": partitions}],
    )
    leaving = [{"member_id": member_id, "group_instance_id": None, "reason": None}]
    wire.call(ApiKey.LEAVE_GROUP, 5, group_id=group_id, members=leaving)


def test_reset_of_an_admin_client_is_a_change_and_is_undone(
    wire: KafkaWire, admin: KafkaWire, client: Client, group_id: str
) -> None:
    left_by_its_member(wire, group_id, 40, 50)

    assert commit(admin, group_id, (0, 30), (2, 7)) == [0, 0]

    (change,) = changes_of(client, group_id)
    assert (change["action"], change["actor"]) == ("reset_offsets", "adminclient-1")
    assert change["before"] == {"offsets": [{"topic": TOPIC, "partition": 0, "offset": 40}]}
    assert {each["partition"]: each["offset"] for each in change["after"]["offsets"]} == {0: 30, 2: 7}
    assert offsets_of(client, group_id) == {0: (30, ""), 1: (50, "a member's"), 2: (7, "")}
    client.ok("POST", f"/v1/changes/{change['change_id']}/undo", {"reason": "a test"})
    assert offsets_of(client, group_id) == {0: (40, "a member's"), 1: (50, "a member's")}


def test_reset_of_an_unknown_group_creates_it_and_is_undone(admin: KafkaWire, client: Client, group_id: str) -> None:
    assert commit(admin, group_id, (0, 30)) == [0]
    (change,) = changes_of(client, group_id)
    client.ok("POST", f"/v1/changes/{change['change_id']}/undo", {"reason": "a test"})
    assert offsets_of(client, group_id) == {}


def test_what_an_admin_client_commits_is_stored_as_it_is(admin: KafkaWire, client: Client, group_id: str) -> None:
    """Kafka's coordinator does not compare offsets with the log either: the tool has."""
    commit(admin, group_id, (0, 10), metadata="before")
    commit(admin, group_id, (0, 2**60), metadata="a note")
    assert offsets_of(client, group_id) == {0: (2**60, "a note")}


def test_refused_partitions_are_no_part_of_the_change(admin: KafkaWire, client: Client, group_id: str) -> None:
    assert commit(admin, group_id, (PARTITIONS, 1)) == [UNKNOWN_TOPIC_OR_PARTITION]
    assert changes_of(client, group_id) == []

    assert commit(admin, group_id, (PARTITIONS, 1), (0, 1)) == [UNKNOWN_TOPIC_OR_PARTITION, 0]
    (change,) = changes_of(client, group_id)
    assert [each["partition"] for each in change["after"]["offsets"]] == [0]


def test_group_with_members_is_not_reset(wire: KafkaWire, admin: KafkaWire, client: Client, group_id: str) -> None:
    join_alone(wire, group_id)
    assert commit(admin, group_id, (0, 30)) == [UNKNOWN_MEMBER_ID]
    assert changes_of(client, group_id) == []


def test_client_of_another_name_resets_by_going_back(wire: KafkaWire, client: Client, group_id: str) -> None:
    """Other libraries' admin clients have the names of their consumers: what goes on may be a consumer's commit."""
    left_by_its_member(wire, group_id, 40, 50)

    assert commit(wire, group_id, (0, 41), (1, 51)) == [0, 0]
    assert changes_of(client, group_id) == []

    assert commit(wire, group_id, (0, 41), (1, 9)) == [0, 0]
    (change,) = changes_of(client, group_id)
    assert {each["partition"]: each["offset"] for each in change["after"]["offsets"]} == {0: 41, 1: 9}


def test_consumer_that_is_no_member_leaves_no_changes(wire: KafkaWire, client: Client, group_id: str) -> None:
    for offset in (1, 2, 3, 1, 2):
        assert commit(wire, group_id, (0, offset)) == [0]
    assert changes_of(client, group_id) == []


def test_log_still_ends_where_a_group_was_before_its_reset(
    admin: KafkaWire, kafka_node: Node, client: Client, group_id: str
) -> None:
    topic = f"rewound-{fresh_id()}"
    put_topic(kafka_node, topic, 1)
    commit(admin, group_id, (0, 40), topic=topic)
    poll_until(lambda: offset_at(admin, topic, LATEST) == (0, 40))
    commit(admin, group_id, (0, 0), topic=topic)
    assert offset_at(admin, topic, LATEST) == (0, 40)

    client.ok("DELETE", f"/v1/topics/{topic}?reason=a+test")
    put_topic(kafka_node, topic, 1)
    poll_until(lambda: offsets_of(client, group_id) == {})
    commit(admin, group_id, (0, 5), topic=topic)
    assert offset_at(admin, topic, LATEST) == (0, 5)


# -- offsets of a time -------------------------------------------------------------------------------


def offset_at(wire: KafkaWire, topic: str, at_ms: int) -> tuple[int, int]:
    """Return the error code and the offset of ListOffsets for a time."""
    found = listed(wire, topic, at_ms)
    return int(found.error_code), int(found.offset)


def listed(wire: KafkaWire, topic: str, at_ms: int) -> Any:  # noqa: ANN401  # a class for each version
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": at_ms}]}]
    answer = wire.call(ApiKey.LIST_OFFSETS, 9, replica_id=-1, isolation_level=0, topics=topics)
    (found,) = answer.topics[0].partitions
    return found


def test_time_is_answered_by_the_last_known_end_before_it(wire: KafkaWire, kafka_node: Node) -> None:
    topic = f"reported-{fresh_id()}"
    put_topic(kafka_node, topic, 2)
    partition = {"topic": topic, "partition": 0}
    url = kafka_node.settings.database_url
    assert url is not None
    with closing(psycopg2.connect(psql_url(url.get_secret_value()))) as connection:
        present = {"log_end_offset": 300, "reported_at": at(3), "first_reported_at": DAY}
        insert(connection, "log_end_offsets", {**partition, **present})
        for hours, end in ((-1, 900), (0, 100), (1, 200)):
            insert(connection, "log_end_history", {**partition, "at": at(hours), "log_end_offset": end})

    def in_ms(hours: float) -> int:
        return round(at(hours).timestamp() * 1000)

    def answer(hours: float) -> tuple[int, int]:
        return offset_at(wire, topic, in_ms(hours))

    found = {hours: answer(hours) for hours in (0, 0.9, 1, 2.9, 3, 99)}
    assert found == {0: (0, 100), 0.9: (0, 100), 1: (0, 200), 2.9: (0, 200), 3: (0, 300), 99: (0, 300)}
    times = [listed(wire, topic, in_ms(hours)).timestamp for hours in (0.9, 3)]
    assert times == [in_ms(0), in_ms(3)], "Java's consumer fails at an offset of a time without one"
    assert answer(-0.5) == (INVALID_TIMESTAMP, -1), "what is older belongs to a deleted log"
    assert offset_at(wire, topic, 2**63 - 1) == (0, 300)
    assert offset_at(wire, topic, -3) == (0, -1), "no record has the highest timestamp"


def test_time_of_a_log_without_reports_is_refused(wire: KafkaWire, kafka_node: Node) -> None:
    topic = f"unreported-{fresh_id()}"
    put_topic(kafka_node, topic, 1)
    assert offset_at(wire, topic, 0) == (INVALID_TIMESTAMP, -1)
