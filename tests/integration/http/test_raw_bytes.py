"""Bytes that are no requests: they are refused, or the connection is closed; no error of the node, which serves on."""

import re
import socket
from typing import Final

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.http_client import Client
from tests.support.waiting import PATIENCE_S

STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) ")
BODY: Final = b'{"generation": 1, "member_id": "m"}'

LINES: Final = st.sampled_from(
    [
        b"POST /v1/groups/g/heartbeat HTTP/1.1",
        b"GET /v1/groups HTTP/1.1",
        b"GET /v1/groups/%00%ff HTTP/1.1",
        b"GET http://localhost:99999/healthz HTTP/1.1",
        b"GET //[::1/healthz HTTP/1.1",
        b"GET /healthz HTTP/1.0",
        b"GET /healthz HTTP/99999999999999999999.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT localhost:1 HTTP/1.1",
        b"\0 / HTTP/1.1",
        b"GET /\0 HTTP/1.1",
    ]
)
HEADERS: Final = st.sampled_from(
    [
        b"Host: localhost",
        b"Host: localhost\r\nHost: other",
        b"Host: \0",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(BODY),
        b"Content-Length: 0",
        b"Content-Length: 4294967295",
        b"Content-Length: 99999999999999999999999999",
        b"Content-Length: -1",
        b"Content-Length: 1, 1",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Connection: close",
        b"Connection: upgrade\r\nUpgrade: websocket",
        b"Expect: 100-continue",
        b"X-Request-Id: \xff\0",
        b"X-Muster-Forwarded-For: \xff",
        b"Authorization: Bearer \xff",
        b"Idempotency-Key: \xff",
        b"Content-Encoding: \xff",
        b": no name",
        b"folded: a\r\n b",
    ]
)
BODIES: Final = st.sampled_from(
    [
        b"",
        BODY,
        BODY[:-3],
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
        b"ffffffffffffffffffff\r\n",
        b"-1\r\n\r\n",
        b"1;ext=\0\r\nx\r\n0\r\n\r\n",
        b"0\r\nTrailer: \0\r\n\r\n",
        b"\0" * 100,
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw something like a request, in which some bytes may be changed or missing."""
    lines = [draw(LINES), *draw(st.lists(HEADERS, max_size=4)), b"", draw(BODIES)]
    drawn = bytearray(draw(st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\r"])).join(lines))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(drawn)))
        drawn[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(drawn)


@settings(max_examples=400, derandomize=True, database=None)
@given(sent=st.lists(requests(), min_size=1, max_size=3).map(b"".join) | st.binary(max_size=100))
def test_bytes_are_answered_or_refused(client: Client, sent: bytes) -> None:
    check_answered_or_refused(client, sent)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n" * 50_000,
        b"GET /" + b"x" * 100_000,
        b"GET /healthz HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        b"POST /v1/groups/g/leave HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"e" * 70_000 + b"\r\nx\r\n",
        b"POST /v1/groups/g/leave HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500,
        b"POST /v1/groups/g/leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"0" * 5_000 + b"2\r\n\r\n{}",
    ],
    ids=["nothing", "empty lines", "path", "headers", "chunk extension", "chunks", "pipeline", "zeros"],
)
def test_many_bytes_are_answered_or_refused(client: Client, sent: bytes) -> None:
    check_answered_or_refused(client, sent)


def test_malformed_request_is_logged_once(client: Client) -> None:
    with structlog.testing.capture_logs() as events:
        exchange(client, b"HELLO muster\r\n\r\n")
    (event,) = [each for each in events if each["event"] == "malformed_request_refused"]
    assert (event["status"], event["code"], event["client"]) == (400, "INVALID_REQUEST", "127.0.0.1")


def check_answered_or_refused(client: Client, sent: bytes) -> None:
    with structlog.testing.capture_logs() as events:
        received = exchange(client, sent)
        assert not received or received.startswith(b"HTTP/1.1 "), received
        assert all(int(status) < 500 for status in STATUS.findall(received)), received
        assert client.send("GET", "/healthz").status == 200
    assert [event for event in events if event["log_level"] == "error"] == []


def exchange(client: Client, sent: bytes) -> bytes:
    """Send bytes on a new connection and end it; return what is received until the node closes it."""
    host, _, port = client.address.partition(":")
    received = bytearray()
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65_536):
                received += part
        except (BrokenPipeError, ConnectionResetError):
            pass  # the node has refused the first part, and closed the connection before the rest
    return bytes(received)
