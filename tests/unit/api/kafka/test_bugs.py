"""A bug in an API, or a version that is not offered, ends the connection that met it, with one log event."""

import asyncio
import struct
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.kafka.apis import ApiKey
from api.kafka.handlers import HANDLERS, SUBMITTED, SubmittedApi
from api.kafka.messages import load_all
from api.kafka.request import KafkaRequest
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.responses import Answer
from coordinator_core.runtime.waiting_requests import completed_future
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.unit.api.kafka.wire import Wire
from tests.unit.coordinator_core.runtime.nodes import running

pytestmark = pytest.mark.anyio

VERSION = 4
HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
LIST_OFFSETS = {"replica_id": -1, "isolation_level": 0, "topics": (), "timeout": timedelta(0)}
UNKNOWN_MEMBER_ID = 25


class Bug(Exception):
    """An error that no code expects."""


def fail(*_: object) -> bytes:
    raise Bug


def submit_bug(_: KafkaRequest) -> asyncio.Future[Answer]:
    raise Bug


def submit_to_fail(_: KafkaRequest) -> asyncio.Future[Answer]:
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    answer.set_exception(Bug())
    return answer


def submit_to_fail_later(_: KafkaRequest) -> asyncio.Future[Answer]:
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(answer.set_exception, Bug())
    return answer


def submit_answer(_: KafkaRequest) -> asyncio.Future[Answer]:
    return completed_future(None)  # type: ignore[arg-type]  # no matter which


def respond(_: KafkaRequest, answer: Answer | CoordinatorError) -> bytes:
    raise AssertionError(f"{answer!r} is answered")


async def handle_bug(_: KafkaRequest) -> bytes:
    raise Bug


@pytest.fixture
async def node() -> AsyncIterator[NodeContext]:
    load_all()
    async with running(MemoryStore()) as coordinator:
        yield NodeContext(coordinator, NO_QUERIES, ListenerLimits())


@pytest.mark.parametrize(
    "api",
    [
        SubmittedApi(submit_bug, respond),
        SubmittedApi(submit_to_fail, respond),
        SubmittedApi(submit_to_fail_later, respond),
        SubmittedApi(submit_answer, fail),
    ],
    ids=["submits", "fails", "fails later", "responds"],
)
async def test_a_bug_in_a_submitted_request(
    node: NodeContext, monkeypatch: pytest.MonkeyPatch, api: SubmittedApi
) -> None:
    await meets_bug(node, monkeypatch, SUBMITTED, api)


async def test_a_bug_in_a_handler(node: NodeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SUBMITTED, ApiKey.HEARTBEAT)
    await meets_bug(node, monkeypatch, HANDLERS, handle_bug)


async def meets_bug(node: NodeContext, monkeypatch: pytest.MonkeyPatch, apis: dict[int, Any], broken: object) -> None:
    """Break the API of heartbeats for one connection, and repair it for the next."""
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setitem(apis, ApiKey.HEARTBEAT, broken)
        wire = Wire(node)
        assert await wire.is_closed_by(ApiKey.HEARTBEAT, VERSION, HEARTBEAT)
        wire.close()
    events = [(each["event"], each["group"], type(each["exc_info"])) for each in logs if each["log_level"] == "error"]
    assert events == [("kafka_request_failed", "g", Bug)]
    wire = Wire(node)
    answer = await wire.call(ApiKey.HEARTBEAT, VERSION, HEARTBEAT)
    wire.close()
    assert answer.error_code == UNKNOWN_MEMBER_ID


async def test_log_names_the_api_whose_version_is_not_offered(node: NodeContext) -> None:
    wire = Wire(node)
    with capture_logs() as logs:
        assert await wire.is_closed_by(ApiKey.LIST_OFFSETS, 11, LIST_OFFSETS)
    wire.close()
    (event,) = (each for each in logs if each["event"] == "kafka_connection_closed")
    assert event["reason"] == "version 11 of ListOffsets is not offered"


@pytest.mark.parametrize(("key", "name"), [(19, "CreateTopics"), (32_767, "API 32767")])
async def test_log_names_an_api_that_is_not_offered(key: int, name: str, node: NodeContext) -> None:
    wire = Wire(node)
    with capture_logs() as logs:
        wire.send_bytes(struct.pack(">ihhih", 10, key, 7, 1, -1))
    assert wire.is_closed
    wire.close()
    (event,) = (each for each in logs if each["event"] == "kafka_connection_closed")
    assert event["reason"] == f"{name} is not offered"
