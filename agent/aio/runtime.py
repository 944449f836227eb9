"""The runtime of asyncio: everything in one event loop, which needs no lock."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from agent.aio.http_client import AiohttpClient
from agent.errors import ConcurrentUse

TASK_JOIN_TIMEOUT_S: Final = 1.0
"""How long to wait for a task whose request was aborted before it is cancelled."""
MAX_WAIT_S: Final = 1.0
"""The longest single wait, so that a wakeup() of another thread just before the wait is noticed after it."""


class AsyncioRuntime:
    """The `Runtime` of one agent over asyncio; its event loop is the one of the first call that waits."""

    is_asynchronous: Final = True

    def __init__(self) -> None:
        self.changed: Final = _Changed()
        self._user: asyncio.Task[Any] | None = None

    def now_ms(self) -> int:
        """Return the machine's monotonic time in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    async def wait(self, timeout_ms: int) -> None:
        """Suspend until a notification, or for timeout_ms."""
        await self.changed.wait(min(timeout_ms / 1000, MAX_WAIT_S))

    @contextmanager
    def exclusive(self, method: str) -> Iterator[None]:
        """Reject a second task at once; the task inside may enter again, as callbacks do."""
        entering = _current_task()
        if self._user is not None and self._user is not entering:
            raise ConcurrentUse(
                f"{method}(): another task is using this agent; only wakeup() may be called from any task"
            )
        user_before, self._user = self._user, entering
        try:
            yield
        finally:
            self._user = user_before

    def new_task(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> _AsyncioTask:
        """Return a task of the running event loop."""
        return _AsyncioTask(run, name)

    def new_http_client(self, ssl_context: ssl.SSLContext | None) -> AiohttpClient:
        """Return an HTTP client over aiohttp."""
        return AiohttpClient(ssl_context)

    def as_coroutine(self, function: Callable[..., object]) -> Callable[..., Awaitable[Any]]:
        """Return a coroutine function that calls it, and awaits what it returns if that can be awaited."""

        async def call(*arguments: object) -> object:
            returned = function(*arguments)
            return await returned if inspect.isawaitable(returned) else returned

        return call


class _Changed:
    """Wakes tasks. Entering it does nothing: between two awaits no other task runs."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    async def wait(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters[waiter] = loop
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        finally:
            del self._waiters[waiter]

    def notify_all(self) -> None:
        """End all waits; from any thread, as wakeup() needs it."""
        for waiter, loop in list(self._waiters.items()):
            loop.call_soon_threadsafe(_end, waiter)


class _AsyncioTask:
    """A `Task` of the event loop that `start` is called in."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._run = run
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the coroutine runs once the caller suspends."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    def is_alive(self) -> bool:
        """Return whether it has begun and not ended."""
        return self._task is not None and not self._task.done()

    async def join(self) -> None:
        """Wait for its end, and cancel it after TASK_JOIN_TIMEOUT_S."""
        if self._task is None or self._task is _current_task():
            return
        await asyncio.wait((self._task,), timeout=TASK_JOIN_TIMEOUT_S)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs, as when an agent is prepared before
        return None


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
