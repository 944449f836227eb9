"""Clocks and threads of the runtime, behind protocols that a simulation implements."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from coordinator_core.protocol.settings import Now

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
        return asyncio.get_running_loop().run_in_executor(self._writer, call)

    def checkpoint(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on the checkpointer's thread."""
        return asyncio.get_running_loop().run_in_executor(self._checkpointer, call)

    def lease(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on the leases' thread."""
        return asyncio.get_running_loop().run_in_executor(self._leases, call)

    def read(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on one of the readers' threads."""
        return asyncio.get_running_loop().run_in_executor(self._readers, call)

    def close(self) -> None:
        """Wait for running calls, and end the threads."""
        for pool in (self._writer, self._checkpointer, self._leases, self._readers):
            pool.shutdown(wait=True)


class StoreReader(Protocol):
    """Calls the store on a reader thread; raises CoordinatorNotAvailable if the database cannot be reached."""

    async def __call__(self, call: Callable[[], T]) -> T:
        """Return what the call returns."""
        ...
