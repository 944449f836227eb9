"""Clocks and threads of the runtime, behind protocols that a simulation implements."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from coordinator_core.protocol.settings import Now
from coordinator_core.runtime.memory import end_process, is_out_of_memory
from coordinator_core.state_store.interface import StoreUnavailable

T = TypeVar("T")


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> Now:
        """Return the current time of both clocks."""
        ...


class SystemClock:
    """The machine's clocks: the monotonic one for deadlines, the wall clock for records."""

    def now(self) -> Now:
        """Return the current time of both clocks."""
        return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class NodeStopping(StoreUnavailable):
    """The node has ended its threads; a request that is still under way goes on at another node."""

    summary = "the node is stopping"


class Threads(Protocol):
    """Threads for blocking calls; one kind of call does not block the event loop or another kind."""

    def write(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a write; one at a time, in order."""
        ...

    def checkpoint(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a checkpoint of offsets; one at a time, beside writes."""
        ...

    def lease(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call that renews, acquires or releases leases; never waits for a write or a read."""
        ...

    def read(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a read, or a rare write outside of decisions; several at a time."""
        ...

    def close(self) -> None:
        """Wait for running calls, and end the threads."""
        ...


class SystemThreads:
    """Real threads: one that writes, one each for checkpoints and leases, and `readers` that read."""

    def __init__(self, readers: int) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="muster-writer")
        self._checkpointer = ThreadPoolExecutor(1, thread_name_prefix="muster-checkpointer")
        self._leases = ThreadPoolExecutor(1, thread_name_prefix="muster-leases")
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="muster-reader")

    def write(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a write on the writer's thread."""
        return _run(self._writer, call)

    def checkpoint(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on the checkpointer's thread."""
        return _run(self._checkpointer, call)

    def lease(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on the leases' thread."""
        return _run(self._leases, call)

    def read(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on one of the readers' threads."""
        return _run(self._readers, call)

    def close(self) -> None:
        """Wait for running calls, and end the threads."""
        for pool in (self._writer, self._checkpointer, self._leases, self._readers):
            pool.shutdown(wait=True)


def _run(pool: ThreadPoolExecutor, call: Callable[[], T]) -> asyncio.Future[T]:
    """Run a call on a thread of a pool, unless its future is cancelled before, or the pool has ended.

    If its outcome finds no memory on the way to the event loop, the process ends: the caller would wait for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        if future.cancelled():
            return
        try:
            report = partial(_report, future, call())
        except Exception as error:  # noqa: BLE001 - the caller handles it
            report = partial(_report_error, future, error)
        try:
            if not loop.is_closed():
                loop.call_soon_threadsafe(report)
        except MemoryError:
            end_process()
        del report  # An error has this frame in its traceback, which would be a cycle.

    try:
        pool.submit(work)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        future.set_exception(NodeStopping("the threads have ended"))
    return future


def _report(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _report_error(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class StoreReader(Protocol):
    """Calls the store on a reader thread; raises CoordinatorNotAvailable if the database cannot be reached."""

    async def __call__(self, call: Callable[[], T]) -> T:
        """Return what the call returns."""
        ...
