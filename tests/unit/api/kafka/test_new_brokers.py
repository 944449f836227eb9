"""A consumer that waits for records learns that a broker is new, or it would know none when the others are gone.

One that asks for what cannot be fetched does not wait, and one that waits keeps no others waiting, nor its decoded
request in memory.
"""

import asyncio
import gc
from datetime import timedelta
from typing import Final

import pytest

from api.kafka.apis import ApiKey
from api.kafka.errors import NOT_LEADER_OR_FOLLOWER
from api.kafka.messages import load_all
from api.shared import turns as shared_turns
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from api.shared.turns import SMALL_REQUEST_MAX_BYTES
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.waiting import PATIENCE_S, turns
from tests.unit.api.kafka.wire import Fields, Wire
from tests.unit.coordinator_core.runtime.nodes import running, until

pytestmark = pytest.mark.anyio

ONE = {"a": "127.0.0.1:9092"}
TWO = {**ONE, "b": "127.0.0.1:9093"}
MOVED = {"a": "127.0.0.1:9094"}
PARTITIONS: Final = 150
"""A request with so many is a large one."""
FETCH: Fields = {
    "replica_id": -1,
    "max_wait": timedelta(milliseconds=1),
    "min_bytes": 1,
    "isolation_level": 0,
    "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}],
    "forgotten_topics_data": (),
}


async def test_fetch_waits_unless_a_part_of_it_has_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    load_all()
    store = MemoryStore()
    store.observe_topics({"t": 1})
    unknown = [{"topic": "unknown", "partitions": FETCH["topics"][0]["partitions"]}]
    answered = []
    async with running(store) as node:
        await until(lambda: "t" in node.metadata_cache.topic_metadata, "the topic")
        monkeypatch.setattr(node, "addresses", lambda _: ONE)
        for topics in (FETCH["topics"], [*FETCH["topics"], *unknown]):
            wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
            wire.send(ApiKey.FETCH, 11, {**FETCH, "max_wait": timedelta(seconds=30), "topics": topics})
            await turns()
            answered.append(wire.is_answered)
            wire.close()
    assert answered == [False, True]


async def test_large_fetch_that_waits_has_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    load_all()
    monkeypatch.setattr(shared_turns, "LARGE_REQUESTS_IN_PROGRESS_BYTES", 2 * SMALL_REQUEST_MAX_BYTES)
    store = MemoryStore()
    store.observe_topics({"t": PARTITIONS})
    part = FETCH["topics"][0]["partitions"][0]
    topics = [{"topic": "t", "partitions": [{**part, "partition": number} for number in range(PARTITIONS)]}]
    async with running(store) as node:
        await until(lambda: "t" in node.metadata_cache.topic_metadata, "the topic")
        monkeypatch.setattr(node, "addresses", lambda _: ONE)
        context = NodeContext(node, NO_QUERIES, ListenerLimits())
        waiting, wire = Wire(context), Wire(context)
        waiting.send(ApiKey.FETCH, 11, {**FETCH, "max_wait": timedelta(seconds=30), "topics": topics})
        await turns()
        answer = await asyncio.wait_for(wire.call(ApiKey.FETCH, 11, {**FETCH, "topics": topics}), PATIENCE_S)
        assert [each.error_code for each in answer.responses[0].partitions] == [0] * PARTITIONS
        assert not waiting.is_answered
        for each in (waiting, wire):
            each.close()


async def test_fetch_that_waits_keeps_no_decoded_request(monkeypatch: pytest.MonkeyPatch) -> None:
    load_all()
    store = MemoryStore()
    store.observe_topics({"t": 1})
    async with running(store) as node:
        await until(lambda: "t" in node.metadata_cache.topic_metadata, "the topic")
        monkeypatch.setattr(node, "addresses", lambda _: ONE)
        wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
        wire.send(ApiKey.FETCH, 11, {**FETCH, "max_wait": timedelta(seconds=30)})
        await turns()
        assert not wire.is_answered
        assert [each for each in gc.get_objects() if type(each).__name__ == "FetchPartition"] == []
        wire.close()


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [(ONE, TWO, NOT_LEADER_OR_FOLLOWER), (ONE, MOVED, NOT_LEADER_OR_FOLLOWER), (TWO, ONE, 0), (TWO, TWO, 0)],
)
async def test_fetch_is_refused_once_when_a_broker_is_new(
    before: dict[str, str], after: dict[str, str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_all()
    store = MemoryStore()
    store.observe_topics({"t": 1})
    async with running(store) as node:
        await until(lambda: "t" in node.metadata_cache.topic_metadata, "the topic")
        brokers = iter([before, after])
        monkeypatch.setattr(node, "addresses", lambda _: next(brokers, after))
        wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
        codes = [
            [each.partitions[0].error_code for each in (await wire.call(ApiKey.FETCH, 11, FETCH)).responses]
            for _ in range(2)
        ]
        wire.close()
    assert codes == [[code], [0]]
