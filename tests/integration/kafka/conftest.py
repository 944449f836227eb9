"""Fixtures: one node with a Kafka listener per test file; each test has a group of its own."""

from collections.abc import Iterator

import pytest

from tests.support.databases import Databases
from tests.support.http_client import fresh_id
from tests.support.kafka_listener import put_topic, wait_until_serving
from tests.support.kafka_wire import KafkaWire
from tests.support.nodes import Node, running_kafka_node


@pytest.fixture(scope="module")
def kafka_node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    with running_kafka_node(url, group_initial_rebalance_delay_ms=0) as node:
        put_topic(node)
        wait_until_serving(node)
        yield node
    databases.drop(url)


@pytest.fixture
def wire(kafka_node: Node) -> Iterator[KafkaWire]:
    with KafkaWire(kafka_node.settings.kafka_address) as wire:
        yield wire


@pytest.fixture
def group_id() -> str:
    """Give a group that does not exist yet."""
    return fresh_id()
