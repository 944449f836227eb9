"""A client that reads, sends or waits for nothing, or sends much, takes little memory, and little time of others."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from api.kafka.apis import ApiKey
from api.kafka.connection import ANSWERED_AT_ONCE, HELD_BACK_MAX_BYTES
from api.kafka.handlers import SUBMITTED, SubmittedApi
from api.kafka.limits import KafkaLimits
from api.kafka.messages import load_all
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from coordinator_core.protocol.responses import Answer
from tests.support.kafka_wire import frame
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.unit.api.kafka.wire import Wire
from tests.unit.coordinator_core.runtime.nodes import running, until

pytestmark = pytest.mark.anyio

REQUEST = frame(ApiKey.API_VERSIONS, 0)
MANY = REQUEST * (HELD_BACK_MAX_BYTES // len(REQUEST) + 1)


@pytest.fixture
async def node() -> AsyncIterator[NodeContext]:
    load_all()
    async with running(MemoryStore()) as coordinator:
        yield NodeContext(coordinator, NO_QUERIES, ListenerLimits())


@pytest.fixture
async def wire(node: NodeContext) -> AsyncIterator[Wire]:
    wire = Wire(node)
    yield wire
    wire.close()


async def test_requests_of_a_client_that_reads_nothing_wait(wire: Wire) -> None:
    wire.stop_receiving()
    wire.send_bytes(REQUEST)
    wire.send_bytes(REQUEST)
    await asyncio.sleep(0)
    assert not wire.is_answered
    assert wire.is_read()
    wire.receive_again()
    await until(lambda: len(wire.frames()) == 2, "both responses")


async def test_client_that_reads_nothing_is_not_read_on(wire: Wire) -> None:
    wire.stop_receiving()
    wire.send_bytes(MANY)
    assert not wire.is_read()
    wire.receive_again()
    assert wire.is_read()
    await until(lambda: wire.is_answered, "the first response")


async def test_little_is_read_behind_a_request_that_waits(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    monkeypatch.setitem(SUBMITTED, ApiKey.HEARTBEAT, SubmittedApi(lambda _: answer, lambda *_: b""))
    wire.send_bytes(frame(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m"))
    wire.send_bytes(MANY)
    assert not wire.is_read()
    answer.set_result(None)  # type: ignore[arg-type]  # no matter which
    await asyncio.sleep(0)
    assert wire.is_read()


async def test_others_come_in_between_many_requests_of_a_connection(wire: Wire) -> None:
    request = frame(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m")
    count = 2 * HELD_BACK_MAX_BYTES // len(request)
    wire.send_bytes(request * count)
    assert not wire.is_read()
    turns = 0
    while len(wire.frames()) < count:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= count // ANSWERED_AT_ONCE
    assert wire.is_read()


async def test_connection_whose_last_request_gets_no_response_is_idle_behind_it(node: NodeContext) -> None:
    wire = Wire(node, KafkaLimits(keep_alive_s=0))
    without_acks = {"transactional_id": None, "acks": 0, "timeout": timedelta(seconds=1), "topic_data": ()}
    assert await wire.is_closed_by(ApiKey.PRODUCE, 9, without_acks)
    wire.close()
