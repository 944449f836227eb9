"""What a consumer needs of the world: time, waiting, tasks and HTTP; provided by threads or by asyncio.

The consumer is written once, as coroutines over these protocols. Over threads an awaitable blocks its thread and never
suspends, so that `run_blocking` runs a coroutine in one step; over asyncio it suspends. Nothing in `agent.core` imports
threading, asyncio, sockets or an HTTP client.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to a node; `content` None stands for no body, and `timeout_ms` counts from the sent request."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None
    connect_timeout_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response with its whole body; names of `headers` are found in any case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes


class NoResponse(Exception):
    """The request got no response; only if `was_connected` may a node have processed it."""

    def __init__(self, reason: str, *, was_connected: bool) -> None:
        super().__init__(reason)
        self.was_connected = was_connected


class HttpClient(Protocol):
    """Sends the requests of one task, over connections that are kept alive; follows no redirect and never retries."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response.

        Raises:
            NoResponse: there is none within the timeouts, or `abort` was called.
        """
        ...

    def abort(self) -> None:
        """End the request in progress, from any task; every later one fails."""
        ...

    async def close(self) -> None:
        """Close the connections; for the task that uses them."""
        ...


class Changed(AbstractContextManager[object], Protocol):
    """Guards what tasks share while it is entered; `notify_all`, for its holder, ends all waits of `Runtime.wait`."""

    def notify_all(self) -> None:
        """End all waits."""
        ...


class Task(Protocol):
    """A coroutine that runs beside the caller."""

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: the system has no room for another thread.
        """
        ...

    def is_alive(self) -> bool:
        """Return whether it has begun and not ended."""
        ...

    async def join(self) -> None:
        """Wait for its end, for a second at most: a function of the caller may hang in it."""
        ...


class Runtime(Protocol):
    """One agent's access to time, tasks and the network."""

    @property
    def changed(self) -> Changed:
        """The lock, always the same."""
        ...

    def now_ms(self) -> int:
        """Return the milliseconds since some fixed moment, which never go back."""
        ...

    async def wait(self, timeout_ms: int) -> None:
        """Wait for a notification of `changed`, which is entered; may return early."""
        ...

    def exclusive(self, method: str) -> AbstractContextManager[object]:
        """Return a block that only one thread or task is in at a time; it may enter it again.

        Raises:
            ConcurrentUse: on entering, if another one is inside; `method` names the call in the message.
        """
        ...

    def new_task(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> Task:
        """Return a task that is not started."""
        ...

    def new_http_client(self, ssl_context: ssl.SSLContext | None) -> HttpClient:
        """Return an HTTP client for one task; None stands for the system's authorities."""
        ...

    @property
    def is_asynchronous(self) -> bool:
        """Whether functions of the caller may be coroutine functions."""
        ...

    def as_coroutine(self, function: Callable[..., object]) -> Callable[..., Awaitable[Any]]:
        """Return a function of the caller as a coroutine function."""
        ...


def run_blocking(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine whose awaitables block in place of suspending, and return its value."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        value: Value = ended.value
        return value
    coroutine.close()
    raise AssertionError("a coroutine suspended where its awaitables should block")
