"""A simulated event loop, without sockets or waiting: the world gives it its time and its turns.

Each process has one. While it is *paused* (SIGSTOP) nothing of it runs: what reaches its sockets waits in the inbox,
and timers that come due wait behind it, just as `select` would hand them out afterwards. When it is *dead*
(kill -9) nothing of it ever runs again, and its memory is gone.
"""

import asyncio
import inspect
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

if TYPE_CHECKING:
    from tests.system.simulation.world import World

T = TypeVar("T")


class Call(asyncio.TimerHandle):
    """A callback that is to run, perhaps at a time: without a context of its own, as nothing here keeps one."""

    __slots__ = ()

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._cancelled = False

    def cancel(self) -> None:
        """Do not run the callback."""
        self._cancelled = True


Due = Call | Callable[[], object]


class SimulatedLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as the runtime uses."""

    def __init__(self, world: "World", name: str, *, ahead_s: float = 0.0, rate: float = 1.0) -> None:
        """Begin.

        Args:
            world: whose time it is.
            name: the process.
            ahead_s: what its clock showed when the world began.
            rate: how fast its clock runs.
        """
        self.name = name
        self.is_paused = False
        self.is_dead = False
        self.touched: dict[str, None] = {}
        """Groups that were changed here, and are to be looked at after a turn."""
        self._world = world
        self._ahead_s = ahead_s
        self._rate = rate
        self._ready: deque[Call] = deque()
        self._inbox: deque[Call] = deque()
        self._overdue: list[Call] = []
        self._is_awake = False

    # -- what asyncio asks of a loop -----------------------------------------------------------------------

    def time(self) -> float:
        """Return the process's own time in seconds."""
        return self._ahead_s + self._world.now_s * self._rate

    def call_soon(  # type: ignore[override]  # arguments are whatever the callback takes
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Let a callback run in the next turn."""
        call = Call(0, callback, args)
        self._ready.append(call)
        if not self._is_awake:
            self._wake()
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no other threads

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Let a callback run at a time of this process's clock."""
        call = Call(when, callback, args)
        self._world.schedule((when - self._ahead_s) / self._rate, call, self)
        return call

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Let a callback run after a while."""
        return self.call_at(self.time() + delay, callback, *args)

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        """Start a task."""
        return asyncio.Task(coro, loop=self, name=name or "", context=context)

    def run_in_executor(  # type: ignore[override]
        self,
        executor: None,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401
    ) -> "asyncio.Future[T]":
        """Run a call here and now: a thread would have done it by the next turn."""
        future: asyncio.Future[T] = self.create_future()
        future.set_result(func(*args))
        return future

    get_debug = bool  # False, at no cost: every future asks

    def is_running(self) -> bool:
        """Say yes."""
        return True

    def is_closed(self) -> bool:
        """Return whether the process is dead."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Fail the seed: a callback or task of a node or of the simulation has an unhandled error."""
        if not self.is_dead:
            problem = context.get("exception")
            self._world.fail("NoUnhandledErrors", f"{self.name}: {context.get('message')}: {problem!r}")

    def world_s(self, time_s: float) -> float:
        """Return the world's time at a time of this process's clock."""
        return (time_s - self._ahead_s) / self._rate

    # -- what the world asks of a process ------------------------------------------------------------------

    def turn(self) -> None:
        """Run what is ready now; what that makes ready comes in the next turn."""
        self._is_awake = False
        ready = self._ready
        for _ in range(len(ready)):
            if self.is_paused or self.is_dead:
                return
            call = ready.popleft()
            if not call._cancelled:
                try:
                    call._callback(*call._args)
                except Exception as problem:  # noqa: BLE001 - as an event loop does
                    self.call_exception_handler({"message": repr(call._callback), "exception": problem})
        if ready and not self._is_awake:
            self._wake()

    def pop_due(self, timer: Call) -> None:
        """Take note that a timer is due."""
        if self.is_paused:
            self._overdue.append(timer)
        elif not self.is_dead:
            self._ready.append(timer)
            if not self._is_awake:
                self._wake()

    def deliver(self, callback: Callable[..., object], *args: Any) -> bool:  # noqa: ANN401
        """Let something reach the process from outside; return whether there is a process."""
        if self.is_dead:
            return False
        if self.is_paused:
            self._inbox.append(Call(0, callback, args))
        else:
            callback(*args)
        return True

    def pause(self) -> None:
        """Stop the process, between two callbacks."""
        self.is_paused = True

    def resume(self) -> None:
        """Let the process go on: first what it was about to do, then its sockets, then its timers."""
        self.is_paused = False
        self._ready += self._inbox
        self._inbox.clear()
        self._overdue.sort(key=Call.when)
        self._ready += self._overdue
        self._overdue.clear()
        self._wake()

    def kill(self) -> None:
        """End the process; nothing of it runs again."""
        self.is_dead = True
        self._ready.clear()
        self._inbox.clear()
        self._overdue.clear()
        for task in asyncio.all_tasks(self):
            coro = task.get_coro()
            if isinstance(coro, CoroutineType) and inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
                coro.close()  # or Python warns later that the coroutine was never awaited

    def _wake(self) -> None:
        if not self._is_awake and not self.is_dead:
            self._is_awake = True
            self._world.wake(self)


@contextmanager
def running_in(world: "World") -> Iterator[None]:
    """Let asyncio ask the world which loop is running. Its own way asks the system for the process id every time."""
    running = partial(getattr, world, "running")
    with (
        patch.object(asyncio, "get_running_loop", running),
        patch.object(events, "get_running_loop", running),
        patch.object(events, "_get_running_loop", running),
    ):
        yield
