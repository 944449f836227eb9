"""Requests that name topics by their ids."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from api.kafka.apis import ApiKey
from api.kafka.messages import load_all
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from api.shared.topic_ids import topic_id_of
from coordinator_core.protocol.settings import TopicMetadata
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.unit.api.kafka.wire import Fields, Wire
from tests.unit.coordinator_core.runtime.nodes import config, running

pytestmark = pytest.mark.anyio

A_LEASE_MS = 600_000
"""No renewal replaces the topics of a test."""
UNKNOWN_TOPIC_ID = 100


class CountedTopics(dict[str, TopicMetadata]):
    """Counts how often all topics were walked."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


@pytest.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Coordinator]:
    load_all()
    async with running(MemoryStore(), config(lease_ttl_ms=A_LEASE_MS)) as coordinator:
        monkeypatch.setattr(coordinator, "addresses", lambda _: {"a": "127.0.0.1:9092"})
        yield coordinator


@pytest.fixture
async def wire(node: Coordinator) -> AsyncIterator[Wire]:
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    yield wire
    wire.close()


def set_topics(node: Coordinator, *names: str) -> CountedTopics:
    """Replace the topic metadata of a node."""
    topics = CountedTopics({name: TopicMetadata(1, 1) for name in names})
    node.metadata_cache._common = replace(node.metadata_cache._common, topic_metadata=topics)
    return topics


def described(topic: str) -> Fields:
    """Return a request for a topic's metadata."""
    return {"topics": [{"name": None, "topic_id": topic_id_of(topic)}], "allow_auto_topic_creation": False}


def fetched(topic: str) -> Fields:
    """Return a request for the records of a topic."""
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    topics = [{"topic_id": topic_id_of(topic), "partitions": partitions}]
    return {"max_wait": timedelta(0), "min_bytes": 0, "session_id": 0, "session_epoch": 0, "topics": topics}


@pytest.mark.parametrize(
    ("key", "version", "request_of"), [(ApiKey.METADATA, 12, described), (ApiKey.FETCH, 13, fetched)]
)
async def test_topics_are_walked_only_when_they_have_changed(
    node: Coordinator, wire: Wire, key: ApiKey, version: int, request_of: Callable[[str], Fields]
) -> None:
    topics = set_topics(node, "a", "b")
    await wire.call(key, version, request_of("a"))
    first = topics.walks
    await wire.call(key, version, request_of("b"))
    assert topics.walks == first


async def test_topics_are_found_by_the_ids_that_there_are_now(node: Coordinator, wire: Wire) -> None:
    set_topics(node, "a", "b")
    assert await named(wire, "a", "b", "c") == ["a", "b", UNKNOWN_TOPIC_ID]
    set_topics(node, "b", "c")
    assert await named(wire, "a", "b", "c") == [UNKNOWN_TOPIC_ID, "b", "c"]


async def named(wire: Wire, *topics: str) -> list[str | int]:
    """Return what Metadata says of topics by their ids: the name, or the error."""
    answers = [await wire.call(ApiKey.METADATA, 12, described(topic)) for topic in topics]
    return [int(each.error_code) or each.name for (each,) in (answer.topics for answer in answers)]
