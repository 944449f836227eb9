"""An answer leaves in one write where that is all there is to it; whatever is out of the ordinary is uvicorn's."""

import asyncio
import logging

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.http.server import send_whole
from tests.api.client import Client

HEADERS = [(b"x-request-id", b"7"), (b"content-type", b"application/json"), (b"content-length", b"2")]


class FakeTransport(asyncio.Transport):
    """Remembers what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


class Request:
    """A request that waits for its answer, as uvicorn keeps it."""

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

    def is_answered(self) -> bool:
        """Tell whether an answer was sent and the request is over; it is both or neither."""
        parts = {bool(self.transport.written), self.ended == 1, self.cycle.response_complete}
        assert len(parts) == 1
        return parts.pop()


def test_head_and_body_leave_in_one_write() -> None:
    request = Request()
    assert send_whole(request.cycle, 200, HEADERS, b"{}")
    assert request.is_answered()
    (written,) = request.transport.written
    assert written == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\nx-request-id: 7\r\ncontent-type: application/json\r\n"
        b"content-length: 2\r\n\r\n{}"
    )


def test_the_answer_to_a_head_is_left_to_uvicorn() -> None:
    request = Request("HEAD")
    assert not send_whole(request.cycle, 200, HEADERS, b"{}")
    assert not request.is_answered()


@pytest.mark.parametrize("what", ["last", "gone", "full"])
def test_a_connection_that_ends_or_takes_no_more_is_left_to_uvicorn(what: str) -> None:
    request = Request()
    if what == "last":
        request.cycle.keep_alive = False
    elif what == "gone":
        request.cycle.disconnected = True
    else:
        request.cycle.flow.pause_writing()
    assert not send_whole(request.cycle, 200, HEADERS, b"{}")
    assert not request.is_answered()


@pytest.mark.parametrize("value", [b"1\r\nset-cookie: a=b", b"1\n", b"\r1"])
def test_a_header_that_would_end_early_is_left_to_uvicorn_which_refuses(value: bytes) -> None:
    request = Request()
    assert not send_whole(request.cycle, 200, [*HEADERS, (b"x-muster-coordinator", value)], b"{}")
    assert not request.is_answered()


def test_whoever_asks_with_expect_or_for_the_last_time_is_answered_too(client: Client) -> None:
    for headers in ({"connection": "close"}, {"expect": "100-continue"}, {}):
        answer = client.send("GET", "/healthz", headers=headers)
        assert answer.status == 200
        assert "x-request-id" in answer.headers


def test_an_answer_without_a_body_is_whole_too(client: Client) -> None:
    answer = client.send("HEAD", "/healthz")
    assert answer.body == b""
    assert "x-request-id" in answer.headers
