"""Generate HTTP load: persistent connections that send prepared requests back to back.

Requests are prepared bytes, and of responses only the length is parsed, so the load costs far less than the server.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final, cast
from urllib.parse import urlsplit

import uvloop

HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = b"content-length: "
WARM_UP: Final = 0.15
"""Warm-up before responses are counted, as a share of the counted time."""


@dataclass(frozen=True, slots=True)
class Load:
    """Results of a load: responses a second, and latencies."""

    per_s: float
    p50_ms: float
    p99_ms: float


def post(path: str, body: bytes) -> bytes:
    """Return the bytes of a POST request with a JSON body."""
    kind = f"content-type: application/json\r\ncontent-length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{kind}\r\n\r\n".encode() + body


def get(path: str) -> bytes:
    """Return the bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def put_load(requests: Sequence[tuple[str, Iterable[bytes]]], duration_s: float) -> Load:
    """Send requests on one connection per entry for some seconds, and return the results.

    Args:
        requests: for each connection, the URL of a server and the requests to send in turn.
        duration_s: how long responses are counted, in seconds, after the warm-up.

    Raises:
        AssertionError: a response had another status than 200.
    """
    return uvloop.run(_load(requests, duration_s))


async def _load(requests: Sequence[tuple[str, Iterable[bytes]]], duration_s: float) -> Load:
    askers = [await _connected(url, each) for url, each in requests]
    for asker in askers:
        asker.ask()
    await asyncio.sleep(duration_s * WARM_UP)
    for asker in askers:
        asker.took_s.clear()
    began_s = time.perf_counter()
    await asyncio.sleep(duration_s)
    lasted_s = time.perf_counter() - began_s
    took_s = sorted(each for asker in askers for each in asker.took_s)
    for asker in askers:
        asker.stop()
    failures = [asker.failure for asker in askers if asker.failure]
    assert not failures, failures[0]
    assert took_s, "no response arrived"
    return Load(len(took_s) / lasted_s, _at(took_s, 0.5), _at(took_s, 0.99))


async def _connected(url: str, requests: Iterable[bytes]) -> "_LoadConnection":
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    _, asker = await asyncio.get_running_loop().create_connection(
        lambda: _LoadConnection(requests), place.hostname, place.port
    )
    return asker


def _at(took_s: Sequence[float], share: float) -> float:
    return took_s[int(len(took_s) * share)] * 1000


class _LoadConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, requests: Iterable[bytes]) -> None:
        self.took_s: list[float] = []
        self.failure: bytes | None = None
        self._requests = cycle(requests)
        self._transport: asyncio.Transport
        self._asked_at_s = 0.0
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self) -> None:
        self._asked_at_s = time.perf_counter()
        self._transport.write(next(self._requests))

    def stop(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._is_whole():
            return
        if not self._received.startswith(b"HTTP/1.1 200"):
            self.failure = self._received
            return
        self._received = b""
        self.took_s.append(time.perf_counter() - self._asked_at_s)
        self.ask()

    def _is_whole(self) -> bool:
        head_end = self._received.find(HEAD_END)
        if head_end < 0:
            return False
        at = self._received.find(LENGTH) + len(LENGTH)
        length = int(self._received[at : self._received.index(b"\r", at)])
        return len(self._received) >= head_end + len(HEAD_END) + length
