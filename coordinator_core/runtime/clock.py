"""Time, chance and threads come into the runtime here, and only here, so a simulation can put its own in place."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from coordinator_core.protocol.settings import Now

T = TypeVar("T")


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> Now:
        """Return this moment on both clocks."""
        ...


class SystemClock:
    """The machine's clocks: the monotonic one for deadlines, the wall clock for records."""

    def now(self) -> Now:
        """Return this moment on both clocks."""
        return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Threads(Protocol):
    """Where blocking calls run, so that none of them blocks the loop or another kind."""

    def write(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a write; one at a time, in order."""
        ...

    def prepare(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run what a write can do beforehand, beside the write that is under way."""
        ...

    def lease(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call that keeps, takes or gives up leases; never behind a write or a read."""
        ...

    def read(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a read, or a rare write that is nobody's decision; a few at a time."""
        ...

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        ...


class SystemThreads:
    """Real threads: one writer and one that prepares for it, one for leases, and so many readers. No other blocks."""

    def __init__(self, readers: int) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="muster-writer")
        self._preparer = ThreadPoolExecutor(1, thread_name_prefix="muster-preparer")
        self._leases = ThreadPoolExecutor(1, thread_name_prefix="muster-leases")
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="muster-reader")

    def write(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a write on the writer's thread."""
        return asyncio.get_running_loop().run_in_executor(self._writer, call)

    def prepare(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on the preparer's thread."""
        return asyncio.get_running_loop().run_in_executor(self._preparer, call)

    def lease(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on the leases' thread."""
        return asyncio.get_running_loop().run_in_executor(self._leases, call)

    def read(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call on one of the readers' threads."""
        return asyncio.get_running_loop().run_in_executor(self._readers, call)

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        for pool in (self._writer, self._preparer, self._leases, self._readers):
            pool.shutdown(wait=True)
