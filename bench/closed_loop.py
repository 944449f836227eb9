"""Generate load: persistent connections that send prepared requests, each after the response to the last one.

Requests are prepared bytes and responses are hardly parsed, so the load costs far less than the server.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

import uvloop

from bench.cpu_time import CpuMeter, Pids

WARM_UP: Final = 0.15
"""Warm-up before responses are counted, as a share of the counted time."""

P = TypeVar("P", bound=asyncio.Protocol)
IsAnswered = Callable[[bytes], bool]
"""Returns whether a response is complete; raises AssertionError for a complete one that is an error."""


@dataclass(frozen=True, slots=True)
class Load:
    """Results of a load: responses a second, latencies, and processor time a response by server."""

    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: Mapping[str, float]

    def details(self, prefix: str = "") -> dict[str, float]:
        """Return latencies and processor times as details of a figure."""
        latencies = {f"{prefix}p50_ms": self.p50_ms, f"{prefix}p99_ms": self.p99_ms}
        return latencies | {f"{name}_cpu_us": used_us for name, used_us in self.cpu_us.items()}


@dataclass(frozen=True, slots=True)
class Sender:
    """What one connection sends, in turn, and to which URL."""

    url: str
    requests: Iterable[bytes]
    is_answered: IsAnswered
    pause_s: float = 0.0
    """How long the connection waits between a response and its next request, in seconds."""


def send_load(senders: Sequence[Sender], duration_s: float, pids: Pids) -> Load:
    """Send requests for some seconds, and return the results.

    Args:
        senders: one for each connection.
        duration_s: how long responses are counted, in seconds, after the warm-up.
        pids: the processes whose processor time is measured.

    Raises:
        AssertionError: a response was an error, or the server closed a connection.
    """
    return uvloop.run(_load(senders, duration_s, pids))


def median_load(loads: Iterable[Load]) -> Load:
    """Return the load with the median rate."""
    ranked = sorted(loads, key=lambda load: load.per_s)
    return ranked[len(ranked) // 2]


async def _load(senders: Sequence[Sender], duration_s: float, pids: Pids) -> Load:
    failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    connections = [await connect(sender.url, partial(_Connection, sender, failure)) for sender in senders]
    for connection in connections:
        connection.send_next()
    try:
        await _pass(duration_s * WARM_UP, failure)
        for connection in connections:
            connection.took_s.clear()
        meter = CpuMeter(pids)
        began_s = time.perf_counter()
        await _pass(duration_s, failure)
        lasted_s = time.perf_counter() - began_s
        took_s = sorted(each for connection in connections for each in connection.took_s)
        cpu_us = meter.us_per_request(max(1, len(took_s)))
    finally:
        for connection in connections:
            connection.stop()
    assert took_s, "no response arrived"
    return Load(len(took_s) / lasted_s, _at(took_s, 0.5), _at(took_s, 0.99), cpu_us)


async def _pass(duration_s: float, failure: asyncio.Future[str]) -> None:
    """Let the load run for some seconds; it ends at once when a connection fails."""
    await asyncio.wait([failure], timeout=duration_s)
    assert not failure.done(), failure.result()


async def connect(url: str, protocol: Callable[[], P]) -> P:
    """Open a connection to a server."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    _, connection = await asyncio.get_running_loop().create_connection(protocol, place.hostname, place.port)
    return connection


def _at(took_s: Sequence[float], share: float) -> float:
    return took_s[int(len(took_s) * share)] * 1000


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, sender: Sender, failure: asyncio.Future[str]) -> None:
        self.took_s: list[float] = []
        self._failure = failure
        self._requests = cycle(sender.requests)
        self._is_answered = sender.is_answered
        self._pause_s = sender.pause_s
        self._transport: asyncio.Transport
        self._sent_at_s = 0.0
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send_next(self) -> None:
        self._sent_at_s = time.perf_counter()
        if not self._transport.is_closing():
            self._transport.write(next(self._requests))

    def stop(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            if not self._is_answered(self._received):
                return
        except AssertionError as error:
            self._fail(str(error))
            return
        self._received = b""
        self.took_s.append(time.perf_counter() - self._sent_at_s)
        if self._pause_s:
            asyncio.get_running_loop().call_later(self._pause_s, self.send_next)
        else:
            self.send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"a connection is lost: {exc or 'the server closed it'}")

    def _fail(self, why: str) -> None:
        if not self._failure.done():
            self._failure.set_result(why)
