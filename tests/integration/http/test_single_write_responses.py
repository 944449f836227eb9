"""Responses in one write: ordinary responses are sent in a single write, all others by uvicorn."""

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from litestar.types import Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.http.asgi import SINGLE_WRITE_EXTENSION, AsgiApp, Headers
from api.http.connection import send_in_one_write
from api.http.limits import HttpLimits
from api.http.server import HttpServer
from api.shared.connection_gate import ConnectionCounts
from muster.node.serve import bound_listener
from tests.support.http_client import Client
from tests.support.waiting import limited

HEADERS = [(b"x-request-id", b"7"), (b"content-type", b"application/json"), (b"content-length", b"2")]
ATTEMPTS = 5


class FakeTransport(asyncio.Transport):
    """Remembers what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False


class Request:
    """A request without a response yet, in uvicorn's representation."""

    def __init__(self, method: str = "POST") -> None:
        self.transport = FakeTransport()
        self.ended = 0
        log = logging.getLogger("uvicorn.error")
        self.cycle = RequestResponseCycle(
            scope={"type": "http", "method": method},  # type: ignore[typeddict-item]  # what is looked at
            transport=self.transport,
            flow=FlowControl(self.transport),
            logger=log,
            access_logger=log,
            access_log=False,
            default_headers=[(b"date", b"now")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self._end,
        )

    def _end(self) -> None:
        self.ended += 1

    def send_in_one_write(self, headers: Headers) -> bool:
        """Send a response, and return whether it was sent."""
        return send_in_one_write(cast("Send", self.cycle.send), 200, headers, b"{}")

    def is_answered(self) -> bool:
        """Return whether a response was sent and the request has ended; both must be equal."""
        parts = {bool(self.transport.written), self.ended == 1, self.cycle.response_complete}
        assert len(parts) == 1
        return parts.pop()


def test_head_and_body_are_sent_in_one_write() -> None:
    request = Request()
    assert request.send_in_one_write(HEADERS)
    assert request.is_answered()
    (written,) = request.transport.written
    assert written == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\nx-request-id: 7\r\ncontent-type: application/json\r\n"
        b"content-length: 2\r\n\r\n{}"
    )


def test_response_to_head_is_sent_by_uvicorn() -> None:
    request = Request("HEAD")
    assert not request.send_in_one_write(HEADERS)
    assert not request.is_answered()


@pytest.mark.parametrize("what", ["last", "gone", "full"])
def test_response_on_a_closing_or_paused_connection_is_sent_by_uvicorn(what: str) -> None:
    request = Request()
    if what == "last":
        request.cycle.keep_alive = False
    elif what == "gone":
        request.cycle.disconnected = True
    else:
        request.cycle.flow.pause_writing()
    assert not request.send_in_one_write(HEADERS)
    assert not request.is_answered()


@pytest.mark.parametrize("value", [b"1\r\nset-cookie: a=b", b"1\n", b"\r1"])
def test_header_with_a_line_break_is_rejected_by_uvicorn(value: bytes) -> None:
    request = Request()
    assert not request.send_in_one_write([*HEADERS, (b"x-muster-coordinator", value)])
    assert not request.is_answered()


def test_expect_and_close_requests_are_answered(client: Client) -> None:
    for headers in ({"connection": "close"}, {"expect": "100-continue"}, {}):
        answer = client.send("GET", "/healthz", headers=headers)
        assert answer.status == 200
        assert "x-request-id" in answer.headers


def test_response_without_a_body_has_its_headers(client: Client) -> None:
    answer = client.send("HEAD", "/healthz")
    assert answer.body == b""
    assert "x-request-id" in answer.headers


class WholeAnswers:
    """An application that responds as the ASGI edge does."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
        await receive()
        assert scope["extensions"][SINGLE_WRITE_EXTENSION](send, 200, HEADERS, b"{}")

    async def close(self) -> None:
        """Do nothing."""


class LateAnswers(WholeAnswers):
    """The same, whose second response takes longer than the keep-alive time."""

    def __init__(self, wait_s: float) -> None:
        self._waits_s = iter((0.0, wait_s))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
        await asyncio.sleep(next(self._waits_s))
        await super().__call__(scope, receive, send)


async def _garbage_of(requests: int) -> int:
    """Return how many objects a number of requests leave to the garbage collector."""
    with bound_listener("127.0.0.1", 0) as listener:
        server = HttpServer(cast("AsgiApp", WholeAnswers()), listener, HttpLimits(), ConnectionCounts())
        await server.start()
        reader, writer = await asyncio.open_connection(*listener.getsockname())

        async def send_requests(times: int) -> None:
            for _ in range(times):
                writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
                assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200")

        await send_requests(1)
        gc.collect()
        gc.disable()
        try:
            await send_requests(requests)
            return gc.collect()
        finally:
            gc.enable()
            writer.close()
            await writer.wait_closed()
            await server.stop()


async def _idle_time_s(keep_alive_s: int, app: WholeAnswers) -> float:
    """Send two requests half of the keep-alive time apart; return when the node closes the connection after that."""
    with bound_listener("127.0.0.1", 0) as listener:
        server = HttpServer(cast("AsgiApp", app), listener, HttpLimits(keep_alive_s=keep_alive_s), ConnectionCounts())
        await server.start()
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        try:
            for pause_s in (0, keep_alive_s / 2):
                await asyncio.sleep(pause_s)
                writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
                await reader.readuntil(b"{}")
            answered_s = time.monotonic()
            async with limited("the node closes the connection"):
                assert await reader.read() == b""
            return time.monotonic() - answered_s
        finally:
            writer.close()
            await writer.wait_closed()
            await server.stop()


def _is_idle_for_the_keep_alive_time(app: Callable[[], WholeAnswers]) -> bool:
    """Return whether one of some attempts finds it: a client that is late itself finds a time that is too short."""
    for _ in range(ATTEMPTS):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if asyncio.run(_idle_time_s(1, app())) > 0.9:
                return True
    return False


def test_connection_is_closed_when_it_was_idle_for_the_keep_alive_time() -> None:
    assert _is_idle_for_the_keep_alive_time(WholeAnswers)


def test_request_that_takes_longer_than_the_keep_alive_time_is_answered() -> None:
    assert _is_idle_for_the_keep_alive_time(lambda: LateAnswers(1.2))


def test_answered_request_leaves_no_reference_cycle() -> None:
    assert asyncio.run(_garbage_of(requests=100)) < 100
