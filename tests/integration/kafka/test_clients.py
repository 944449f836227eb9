"""Kafka's client libraries are members of groups at Muster."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from api.kafka.apis import ApiKey
from tests.support.databases import Databases
from tests.support.go_members import GO_LIBRARIES
from tests.support.http_client import Client, Group
from tests.support.kafka_listener import PARTITIONS, TOPIC, put_topic, wait_until_ready
from tests.support.kafka_members import kafka_members
from tests.support.kafka_wire import KafkaWire
from tests.support.nodes import Node, running_kafka_node
from tests.support.peers import LIBRARIES, PYTHON_LIBRARIES, skip_without
from tests.support.waiting import PATIENCE_S, poll_until

IN_EVERY_RUN = [*PYTHON_LIBRARIES, pytest.param("kafka-clients", marks=[pytest.mark.slow, pytest.mark.jvm])]
ALL = {(TOPIC, partition) for partition in range(PARTITIONS)}
PATIENT_MS = 45_000
"""A session timeout that no member misses on a busy machine."""


@pytest.mark.parametrize("library", [*IN_EVERY_RUN, *LIBRARIES[len(IN_EVERY_RUN) :]])
def test_members_share_partitions_and_commit(library: str, kafka_node: Node, group_id: str, tmp_path: Path) -> None:
    skip_without(library, tmp_path)
    with kafka_members(tmp_path, kafka_node.settings.kafka_address) as members:
        first = members.join(library, group_id, TOPIC, client_id="first", session_timeout_ms=PATIENT_MS)
        first.wait_until(lambda member: member.owned() == ALL)
        second = members.join(library, group_id, TOPIC, client_id="second", session_timeout_ms=PATIENT_MS)
        second.wait_until(lambda member: len(member.owned()) == PARTITIONS // 2)
        first.wait_until(lambda member: len(member.owned()) == PARTITIONS // 2)
        assert first.owned() | second.owned() == ALL
        first.commit(7, "a-note")
        committed = first.owned()
        if library not in GO_LIBRARIES:
            assert first.read_offsets() == dict.fromkeys(committed, 7)
        second.leave()
        first.wait_until(lambda member: member.owned() == ALL)

    client = Client(kafka_node.url)
    offsets = client.ok("GET", f"/v1/groups/{group_id}/offsets")["offsets"]
    client.close()
    assert {(each["topic"], each["partition"]) for each in offsets} >= committed
    note = "" if library == "kafka-go" else "a-note"  # kafka-go commits no metadata
    noted = {(each["topic"], each["partition"]) for each in offsets if (each["offset"], each["metadata"]) == (7, note)}
    assert noted == committed


def test_confluent_kafka_reads_the_metadata_that_it_has_committed(kafka_node: Node, group_id: str) -> None:
    """It reads C strings: what has no end of its own is read with whatever is behind it in memory, now and then."""
    consumer = Consumer({"bootstrap.servers": kafka_node.settings.kafka_address, "group.id": group_id})
    try:
        for offset in range(50):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset, "note")], asynchronous=False)
            (found,) = consumer.committed([TopicPartition(TOPIC, 0)], PATIENCE_S)
            assert (found.offset, found.metadata) == (offset, "note")
    finally:
        consumer.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_member_that_is_killed_is_evicted(library: str, kafka_node: Node, group_id: str, tmp_path: Path) -> None:
    skip_without(library, tmp_path)
    with kafka_members(tmp_path, kafka_node.settings.kafka_address) as members:
        options = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
        first = members.join(library, group_id, TOPIC, client_id="first", **options)
        first.wait_until(lambda member: member.owned() == ALL)
        second = members.join(library, group_id, TOPIC, client_id="second", **options)
        second.wait_until(lambda member: len(member.owned()) == PARTITIONS // 2)
        second.kill()
        first.wait_until(lambda member: member.owned() == ALL)


@pytest.mark.parametrize("library", PYTHON_LIBRARIES)
def test_members_go_on_at_another_node(library: str, databases: Databases, group_id: str, tmp_path: Path) -> None:
    """A node that stops hands its groups over, and its members find their new owner, and remain members."""
    url = databases.create()
    with ExitStack() as others:
        nodes: dict[str, tuple[Node, ExitStack]] = {}
        for _ in range(2):
            stack = others.enter_context(ExitStack())
            node = stack.enter_context(running_kafka_node(url, group_initial_rebalance_delay_ms=0))
            nodes[node.settings.kafka_address] = node, stack
        first, _ = next(iter(nodes.values()))
        put_topic(first)
        wait_until_ready(first)
        poll_until(lambda: _brokers(first) == nodes.keys())
        with kafka_members(tmp_path, ",".join(nodes)) as members:
            member = members.join(library, group_id, TOPIC, client_id="one", session_timeout_ms=PATIENT_MS)
            member.wait_until(lambda member: member.owned() == ALL)
            member.commit(7, "before")
            before = _members(first, group_id)
            _, stack = nodes.pop(_owner(first, group_id))
            stack.close()
            member.commit(8, "after")
            ((remaining, _),) = nodes.values()
            after = _members(remaining, group_id)
            client = Client(remaining.url)
            offsets = client.ok("GET", f"/v1/groups/{group_id}/offsets")["offsets"]
            client.close()
    databases.drop(url)

    assert len(before) == 1
    assert after == before
    assert {each["offset"] for each in offsets} == {8}


def _members(node: Node, group_id: str) -> list[str]:
    client = Client(node.url)
    described = Group(client, group_id).describe()
    client.close()
    return [each["member_id"] for each in described["members"]]


def _brokers(node: Node) -> set[str]:
    with KafkaWire(node.settings.kafka_address) as wire:
        return {f"{each.host}:{each.port}" for each in wire.call(ApiKey.METADATA, 1, topics=None).brokers}


def _owner(node: Node, group_id: str) -> str:
    with KafkaWire(node.settings.kafka_address) as wire:
        found = wire.call(ApiKey.FIND_COORDINATOR, 2, key=group_id, key_type=0)
        return f"{found.host}:{found.port}"
