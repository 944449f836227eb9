"""A body that the application does not take is not read from the connection."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn
from litestar.types import Receive, Scope, Send
from uvicorn.server import ServerState

from api.http.connection import LARGE_READ_BYTES, HttpConnection
from api.http.limits import HttpLimits
from api.shared.connection_gate import ConnectionCounts, ConnectionGate
from api.shared.write_batch import WriteBatch

pytestmark = pytest.mark.anyio

PART = b"x" * (4 * LARGE_READ_BYTES)
PARTS = 20
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (PARTS * len(PART))


class FakeTransport(asyncio.Transport):
    """Knows whether the connection reads."""

    def __init__(self) -> None:
        self.is_reading_on = True

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
        """Return that it is open."""
        return False

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


@pytest.fixture
async def connection(app: LateApp, transport: FakeTransport) -> AsyncIterator[HttpConnection]:
    counts = ConnectionCounts(())
    connection = HttpConnection(
        config=uvicorn.Config(app, lifespan="off", log_config=None, access_log=False),
        server_state=ServerState(),
        app_state={},
        gate=ConnectionGate(1, 1, counts),
        limits=HttpLimits(),
        batch=WriteBatch(),
    )
    connection.connection_made(transport)
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
