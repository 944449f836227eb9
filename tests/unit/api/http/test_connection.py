"""What is read from a connection, and when: bodies as they are taken, and few joins and syncs in one turn."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
import uvicorn
from litestar.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from api.http.app import FAST_PATH_HANDLERS
from api.http.connection import LARGE_READ_BYTES, LONG_POLL_ENDINGS, PARSED_AT_ONCE_BYTES, HttpConnection
from api.http.fast_path import fast_path_endpoints
from api.http.kept_heads import RepeatedBatch
from api.http.limits import HttpLimits
from api.shared.connection_gate import ConnectionCounts, ConnectionGate
from api.shared.turns import LONG_POLLS_AT_ONCE, LongPollTurns
from api.shared.write_batch import LARGE_WRITE_BYTES, WriteBatch
from tests.support.waiting import turns
from tests.unit.api.http.wire import serving

pytestmark = pytest.mark.anyio

PART = b"x" * (4 * LARGE_READ_BYTES)
PARTS = 20
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (PARTS * len(PART))


class FakeTransport(asyncio.Transport):
    """Knows whether the connection reads."""

    def __init__(self) -> None:
        self.is_reading_on = True
        self.is_closed = False

    def pause_reading(self) -> None:
        """Note it."""
        self.is_reading_on = False

    def resume_reading(self) -> None:
        """Note it."""
        self.is_reading_on = True

    def write(self, data: bytes) -> None:  # type: ignore[override]  # what the connection writes
        """Forget it."""

    def close(self) -> None:
        """Do nothing."""

    def is_closing(self) -> bool:
        """Return whether it is closed."""
        return self.is_closed

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return nothing."""
        del name
        return default


class LateApp:
    """An application that takes the body only when `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.taken = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the body, and answer."""
        del scope
        await self.go.wait()
        while True:
            message = await receive()
            assert message["type"] == "http.request"
            self.taken += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.fixture
async def app() -> LateApp:
    return LateApp()


@pytest.fixture
async def transport() -> FakeTransport:
    return FakeTransport()


def connected(app: ASGIApp, transport: FakeTransport, read_turns: LongPollTurns) -> HttpConnection:
    """Return a new connection."""
    connection = HttpConnection(
        config=uvicorn.Config(app, lifespan="off", log_config=None, access_log=False),
        server_state=ServerState(),
        app_state={},
        gate=ConnectionGate(1, 1, ConnectionCounts(())),
        limits=HttpLimits(),
        batch=WriteBatch(),
        read_turns=read_turns,
        repeated=RepeatedBatch(),
    )
    connection.connection_made(transport)
    return connection


@pytest.fixture
async def connection(app: LateApp, transport: FakeTransport) -> AsyncIterator[HttpConnection]:
    connection = connected(app, transport, LongPollTurns())
    connection.data_received(HEAD)
    yield connection
    connection.connection_lost(None)


async def test_body_is_read_as_the_application_takes_it(
    connection: HttpConnection, transport: FakeTransport, app: LateApp
) -> None:
    sent = 0
    for _ in range(10 * PARTS):
        if transport.is_reading_on:
            connection.data_received(PART)
            sent += 1
        await asyncio.sleep(0)
    assert sent == 1, "a part is held for the application, and the rest is not read"

    app.go.set()
    while sent < PARTS:
        if transport.is_reading_on:
            connection.data_received(PART)
            sent += 1
        await asyncio.sleep(0)
    while app.taken < PARTS * len(PART):  # noqa: ASYNC110 - as the event loop turns
        await asyncio.sleep(0)


# -- pipelined requests --------------------------------------------------------------------------------------


async def test_pipelined_requests_are_parsed_and_read_as_they_are_answered() -> None:
    app, transport = PathApp(), FakeTransport()
    connection = connected(app, transport, LongPollTurns())
    sent = longest = 0
    for _ in range(100):
        if transport.is_reading_on:
            connection.data_received(b"".join(post(f"/{sent + number}") for number in range(1_000)))
            sent += 1_000
        longest = max(longest, len(connection.pipeline))
        await asyncio.sleep(0)
    assert sent == 1_000, "nothing is read while a request waits for an earlier one"
    assert longest * len(post("/1")) <= PARSED_AT_ONCE_BYTES

    while len(app.paths) < sent:  # noqa: ASYNC110 - as the event loop turns
        await asyncio.sleep(0)
    assert app.paths == [f"/{number}" for number in range(sent)]
    await asyncio.sleep(0)
    assert transport.is_reading_on
    connection.connection_lost(None)


async def test_a_body_behind_a_request_that_waits_is_read_after_it(
    connection: HttpConnection, transport: FakeTransport, app: LateApp
) -> None:
    body = PART * PARTS
    connection.data_received(body + HEAD)
    app.go.set()
    sent = 0
    while sent < len(body):
        if transport.is_reading_on:
            connection.data_received(PART)
            sent += len(PART)
        await asyncio.sleep(0)
    while app.taken < 2 * len(body):  # noqa: ASYNC110 - as the event loop turns
        await asyncio.sleep(0)


# -- large responses -----------------------------------------------------------------------------------------


class SlowTransport(FakeTransport):
    """A transport of a client that reads slowly: it is full after each large write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.on_full: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> None:  # type: ignore[override]  # what the connection writes
        """Keep it."""
        self.written.append(data)
        if len(data) >= LARGE_WRITE_BYTES:
            self.on_full()


async def test_a_large_response_is_written_as_the_client_reads_it() -> None:
    transport = SlowTransport()
    async with serving() as node:
        connection = connected(cast("ASGIApp", node.app), transport, LongPollTurns())
        transport.on_full = connection.pause_writing
        connection.data_received(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        writes = 0
        while not (connection.cycle.response_complete and len(transport.written) == writes):
            writes = len(transport.written)
            connection.resume_writing()
            await turns()
        head, _, body = b"".join(transport.written).partition(b"\r\n\r\n")
        connection.connection_lost(None)

    assert json.loads(body)["openapi"]
    assert b"content-length: %d" % len(body) in head
    assert max(map(len, transport.written)) - len(head) <= LARGE_WRITE_BYTES + len(b"\r\n\r\n") < len(body)


async def test_a_stopping_node_ends_a_large_response_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    transport = SlowTransport()
    async with serving() as node:
        connection = connected(cast("ASGIApp", node.app), transport, LongPollTurns())
        transport.on_full = connection.pause_writing
        connection.data_received(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not transport.written:
            await turns()
        node.app.begin_shutdown()
        (answering,) = connection.tasks
        answering.cancel()
        await turns()
        assert answering.done()
        assert not connection.cycle.response_complete
        connection.connection_lost(None)
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


# -- turns -------------------------------------------------------------------------------------------------


class PathApp:
    """An application that notes the paths of its requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        del receive
        self.paths.append(scope["path"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def post(path: str) -> bytes:
    """Return a request without a body."""
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("action", ["join", "sync"])
async def test_a_heartbeat_behind_many_joins_is_read_before_most_of_them(action: str) -> None:
    app, turns, count = PathApp(), LongPollTurns(), 4 * LONG_POLLS_AT_ONCE
    connections = [connected(app, FakeTransport(), turns) for _ in range(count + 1)]
    for number, connection in enumerate(connections[:-1]):
        connection.data_received(post(f"/v1/groups/{number}/{action}"))
    connections[-1].data_received(post("/v1/groups/g/heartbeat"))
    while len(app.paths) < len(connections):  # noqa: ASYNC110 - as the event loop turns
        await asyncio.sleep(0)

    assert app.paths.index("/v1/groups/g/heartbeat") == LONG_POLLS_AT_ONCE
    app.paths.remove("/v1/groups/g/heartbeat")
    assert app.paths == [f"/v1/groups/{number}/{action}" for number in range(count)]
    for connection in connections:
        connection.connection_lost(None)


async def test_what_follows_a_join_that_waits_is_read_after_it() -> None:
    app, turns, transport = PathApp(), LongPollTurns(), FakeTransport()
    connection = connected(app, transport, turns)
    while turns.begin() is None:
        pass
    connection.data_received(post("/v1/groups/g/join"))
    assert not transport.is_reading_on
    connection.data_received(post("/v1/groups/g/heartbeat"))
    while len(app.paths) < 2:  # noqa: ASYNC110 - as the event loop turns
        await asyncio.sleep(0)

    assert app.paths == ["/v1/groups/g/join", "/v1/groups/g/heartbeat"]
    assert not connection.flow.read_paused
    connection.connection_lost(None)


async def test_a_join_that_waits_is_dropped_with_its_connection() -> None:
    app, turns, transport = PathApp(), LongPollTurns(), FakeTransport()
    connection = connected(app, transport, turns)
    while turns.begin() is None:
        pass
    connection.data_received(post("/v1/groups/g/join"))
    transport.is_closed = True
    connection.connection_lost(None)
    another = connected(app, FakeTransport(), turns)
    another.data_received(post("/v1/groups/another/join"))
    while not app.paths:  # noqa: ASYNC110 - as the event loop turns
        await asyncio.sleep(0)

    assert app.paths == ["/v1/groups/another/join"]
    another.connection_lost(None)


def test_the_joins_and_syncs_that_wait_are_the_long_polls_of_the_api() -> None:
    endpoints = fast_path_endpoints(FAST_PATH_HANDLERS)

    assert {b"/" + action for action, each in endpoints.items() if each.is_long_poll} == LONG_POLL_ENDINGS
