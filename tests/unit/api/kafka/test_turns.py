"""Joins and syncs of many members begin a few at a time, so that other requests come in between."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from api.kafka import connection, groups, hot_responses, request
from api.kafka.apis import ApiKey
from api.kafka.messages import decode, load_all
from api.kafka.request import KafkaRequest
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from api.shared.turns import CONVERTED_AT_ONCE, LONG_POLLS_AT_ONCE
from coordinator_core.protocol.errors import CoordinatorNotAvailable, UnknownMemberId
from coordinator_core.state_store.rows import FetchedOffset
from tests.support.kafka_wire import read_response
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.waiting import turns
from tests.unit.api.kafka.wire import Fields, Wire
from tests.unit.coordinator_core.runtime.nodes import commit_simple, running, until

pytestmark = pytest.mark.anyio

LARGE_BYTES = 2**30
TIMEOUT = timedelta(seconds=10)
MEMBER: Fields = {"group_id": "g", "member_id": "unknown"}
JOIN: Fields = {**MEMBER, "session_timeout": TIMEOUT, "rebalance_timeout": TIMEOUT, "protocol_type": "consumer"}


LONG_POLLS = pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.JOIN_GROUP, 5, {**JOIN, "protocols": [{"name": "range", "metadata": b""}]}),
        (ApiKey.SYNC_GROUP, 3, {**MEMBER, "generation_id": 1, "assignments": []}),
    ],
)


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    load_all()


@LONG_POLLS
async def test_few_are_decoded_when_many_arrive_together(
    key: ApiKey, version: int, fields: Fields, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def counted(*args: Any) -> Any:  # noqa: ANN401  # as it is
        decoded.append(len(wires))
        return decode(*args)

    monkeypatch.setattr(connection, "decode", counted)
    wires: list[Wire] = []
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits())
        with ExitStack() as closing:
            for _ in range(3 * LONG_POLLS_AT_ONCE):
                wires.append(Wire(node))
                closing.callback(wires[-1].close)
                wires[-1].send(key, version, fields)
            assert len(decoded) == LONG_POLLS_AT_ONCE
            gone, aborted = Wire(node), Wire(node)
            for wire in (gone, aborted):
                wire.send(key, version, fields)
            gone.close()
            aborted.abort()
            closing.callback(aborted.close)
            while not all(wire.is_answered for wire in wires):  # noqa: ASYNC110 - as the event loop turns
                await asyncio.sleep(0)
            assert node.long_poll_turns.begin() is None, "none waits"
    assert len(decoded) == len(wires), "a client that is gone is not answered"


async def test_what_follows_a_join_that_waits_is_answered_after_it() -> None:
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits())
        wire = Wire(node)
        while node.long_poll_turns.begin() is None:
            pass
        wire.send(ApiKey.SYNC_GROUP, 3, {**MEMBER, "generation_id": 1, "assignments": []})
        wire.send(ApiKey.HEARTBEAT, 3, {**MEMBER, "generation_id": 1})
        assert not wire.is_answered
        await until(lambda: len(wire.frames()) == 2, "both responses")
        synced, beaten = wire.frames()
        wire.close()
    assert read_response(ApiKey.SYNC_GROUP, 3, synced).error_code == UnknownMemberId.kafka_code
    assert read_response(ApiKey.HEARTBEAT, 3, beaten).error_code == UnknownMemberId.kafka_code


class ReadStore(MemoryStore):
    """A store that counts how often all offsets of a group are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[str] | None = None,
        after: tuple[str, int] | None = None,
        limit: int | None = None,
    ) -> list[FetchedOffset]:
        """Count it."""
        self.reads += 1
        return super().fetch_offsets(group_id, topics, after, limit)


async def test_all_offsets_are_read_when_large_requests_of_others_have_ended() -> None:
    store = ReadStore()
    async with running(store) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits())
        await commit_simple(coordinator, "g", 1)
        await node.large_request_turns.begin("another", LARGE_BYTES)
        wire = Wire(node)
        wire.send(ApiKey.OFFSET_FETCH, 7, {"group_id": "g", "topics": None, "require_stable": False})
        await coordinator.fetch_offsets("g", None)
        assert store.reads == 1, "the other read had begun before"
        node.large_request_turns.end(LARGE_BYTES, 0)
        await until(lambda: wire.is_answered, "the offsets")
        wire.close()
    assert store.reads == 2


MANY = [str(number) for number in range(10 * CONVERTED_AT_ONCE)]
ALL: Fields = {"topics": None, "allow_auto_topic_creation": False}


@pytest.mark.parametrize(
    ("key", "version", "fields", "count"),
    [
        (ApiKey.METADATA, 8, ALL, lambda answer: len(answer.topics[0].partitions)),
        (ApiKey.METADATA, 8, {**ALL, "topics": [{"name": each} for each in MANY]}, lambda answer: len(answer.topics)),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": MANY}, lambda answer: len(answer.results)),
    ],
    ids=["a large topic", "many unknown topics", "many groups"],
)
async def test_other_requests_are_answered_while_a_large_response_is_encoded(
    monkeypatch: pytest.MonkeyPatch, key: ApiKey, version: int, fields: Fields, count: Callable[[Any], int]
) -> None:
    encoding: list[threading.Thread] = []

    def noting(encoded: Callable[..., bytes]) -> Callable[..., bytes]:
        def note(*values: Any, **named: Any) -> bytes:  # noqa: ANN401  # whatever it encodes
            encoding.append(threading.current_thread())
            return encoded(*values, **named)

        return note

    for module, name in ((groups, "encode"), (request, "encode"), (hot_responses, "metadata")):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    store = MemoryStore()
    store.observe_topics({"t": len(MANY)})
    async with running(store) as coordinator:
        await until(lambda: "t" in coordinator.metadata_cache.topic_metadata, "the topic")
        monkeypatch.setattr(coordinator, "addresses", lambda _: {"a": "127.0.0.1:9092"})
        wire = Wire(NodeContext(coordinator, NO_QUERIES, ListenerLimits()))
        answer = await wire.call(key, version, fields)
        wire.close()
    (thread,) = encoding
    assert thread is not threading.current_thread()
    assert count(answer) == len(MANY)


async def test_groups_are_described_when_large_requests_of_others_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the descriptions for all clients that wait would be in memory at once."""
    described: list[str] = []
    few_bytes = MANY[:500]

    def counted(request: KafkaRequest, group_id: str) -> Mapping[str, Any]:
        described.append(group_id)
        return of_group(request, group_id)

    of_group = groups._described  # as it is
    monkeypatch.setattr(groups, "_described", counted)
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits())
        await node.large_request_turns.begin("another", LARGE_BYTES)
        wire = Wire(node)
        wire.send(ApiKey.DESCRIBE_GROUPS, 5, {"groups": few_bytes})
        await turns()
        assert not described
        node.large_request_turns.end(LARGE_BYTES, 0)
        await until(lambda: wire.is_answered, "the groups")
        wire.close()
    assert described == few_bytes


async def test_groups_that_cannot_be_described_in_time_have_an_error_each() -> None:
    """Clients would take a closed connection for a failed broker."""
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits(request_timeout_ms=1))
        await node.large_request_turns.begin("another", LARGE_BYTES)
        wire = Wire(node)
        answer = await wire.call(ApiKey.DESCRIBE_GROUPS, 5, {"groups": MANY[:500]})
        wire.close()
    assert [each.group_id for each in answer.groups] == MANY[:500]
    assert {each.error_code for each in answer.groups} == {CoordinatorNotAvailable.kafka_code}


@LONG_POLLS
async def test_few_are_answered_in_one_turn(key: ApiKey, version: int, fields: Fields) -> None:
    count = 3 * LONG_POLLS_AT_ONCE
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits())
        with ExitStack() as closing:
            wires = [Wire(node) for _ in range(count)]
            for wire in wires:
                closing.callback(wire.close)
                wire.send(key, version, fields)
            in_turns = []
            while (before := sum(wire.is_answered for wire in wires)) < count:
                await asyncio.sleep(0)
                in_turns.append(sum(wire.is_answered for wire in wires) - before)
    assert max(in_turns) <= LONG_POLLS_AT_ONCE


RESOURCES = [{"resource_type": 2, "resource_name": each, "configuration_keys": None} for each in MANY]


@pytest.mark.parametrize(
    ("key", "version", "fields", "parts"),
    [
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": [*MANY, *MANY]}, "groups"),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": MANY}, "coordinators"),
        (ApiKey.DESCRIBE_CONFIGS, 1, {"resources": RESOURCES}, "results"),
    ],
)
async def test_other_requests_come_in_between_the_parts_of_a_large_one(
    key: ApiKey, version: int, fields: Fields, parts: str
) -> None:
    async with running(MemoryStore()) as coordinator:
        wire = Wire(NodeContext(coordinator, NO_QUERIES, ListenerLimits()))
        wire.send(key, version, fields)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not wire.is_answered
        await until(lambda: wire.is_answered, "the response")
        (frame,) = wire.frames()
        wire.close()
    assert len(getattr(read_response(key, version, frame), parts)) == len(MANY)
