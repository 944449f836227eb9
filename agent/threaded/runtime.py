"""The runtime of threads: one lock, one thread a task, and waits that block."""

from __future__ import annotations

import inspect
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from agent.core.runtime import run_blocking
from agent.errors import ConcurrentUse
from agent.threaded.clock import Clock, SystemClock
from agent.threaded.http_client import Urllib3Client

THREAD_JOIN_TIMEOUT_S: Final = 1.0
"""How long to wait for a thread whose connection was aborted; it is a daemon and ends by itself."""


class ThreadRuntime:
    """The `Runtime` of one agent over threads."""

    is_asynchronous: Final = False

    def __init__(self, clock: Clock | None = None) -> None:
        self.changed: Final = threading.Condition()
        self._clock = clock or SystemClock()
        self._user = threading.RLock()
        self._process_id: int | None = None
        """Of the process that called the agent first."""

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that uses the agent."""
        return self._process_id not in (None, os.getpid())

    def now_ms(self) -> int:
        """Return the clock's time."""
        return self._clock.now_ms()

    async def wait(self, timeout_ms: int) -> None:
        """Block until a notification, or for timeout_ms."""
        self._clock.wait(self.changed, timeout_ms)

    @contextmanager
    def exclusive(self, method: str) -> Iterator[None]:
        """Reject a second thread or a forked process at once; it never waits.

        The thread inside may enter again, as callbacks do. A fork has no heartbeats, and the parent's connections.
        """
        self._process_id = self._process_id or os.getpid()
        if self.is_forked:
            raise ConcurrentUse(f"{method}(): another process uses this agent; after a fork create one in each process")
        if not self._user.acquire(blocking=False):
            raise ConcurrentUse(
                f"{method}(): another thread is using this agent; only wakeup() may be called from any thread"
            )
        try:
            yield
        finally:
            self._user.release()

    def new_task(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> _ThreadTask:
        """Return a task that runs in a daemon thread."""
        return _ThreadTask(run, name)

    def new_http_client(self, ssl_context: ssl.SSLContext | None) -> Urllib3Client:
        """Return an HTTP client over urllib3."""
        return Urllib3Client(ssl_context)

    def as_coroutine(self, function: Callable[..., object]) -> Callable[..., Awaitable[Any]]:
        """Return a coroutine function that calls it in the same thread; a returned coroutine is a TypeError."""

        async def call(*arguments: object) -> object:
            result = function(*arguments)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(f"{function!r} returned a coroutine, which is not awaited here; agent.aio awaits them")
            return result

        return call


class _ThreadTask:
    """The `Task` of one daemon thread."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._thread = threading.Thread(target=lambda: run_blocking(run()), name=name, daemon=True)
        self.start = self._thread.start
        self.is_alive = self._thread.is_alive

    async def join(self) -> None:
        """Block until it has ended, at most for THREAD_JOIN_TIMEOUT_S."""
        if self.is_alive():
            self._thread.join(THREAD_JOIN_TIMEOUT_S)
