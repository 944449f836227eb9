"""Time lapse: an event loop that skips its idle time until it has caught up with the wall clock.

The loop begins `behind_s` in the past. Whenever nothing is ready, it skips to the next timer in place of waiting, so
that an hour of heartbeats passes in the time that their work takes. Once it has caught up it waits like any other
loop, and serves real sockets.
"""

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import TypeVar

from coordinator_core.protocol.settings import Now

T = TypeVar("T")


class LapseLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own."""

    def __init__(self, behind_s: float) -> None:
        self.behind_s = behind_s
        """How far the loop's wall clock is behind the machine's, in seconds; 0 once it has caught up."""
        self.caught_up = asyncio.Event()
        self._skipped_s = 0.0
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        return super().time() + self._skipped_s

    def skip(self, at_most_s: float) -> None:
        """Let time pass."""
        skipped_s = min(at_most_s, self.behind_s)
        self._skipped_s += skipped_s
        self.behind_s -= skipped_s
        if not self.behind_s:
            self.caught_up.set()

    def now(self) -> Now:
        """Return this moment on both clocks, as a coordinator's `Clock` does."""
        return Now(int(self.time() * 1_000), int((time.time() - self.behind_s) * 1_000))


class _SkippingSelector(selectors.DefaultSelector):
    def __init__(self, loop: LapseLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._loop.behind_s or not timeout or timeout < 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self._loop.skip(timeout)
        return ready


class InlineThreads:
    """Runs the store's calls at once, in the loop's own thread: no time is skipped while the database works."""

    def write(self, call: Callable[[], T]) -> asyncio.Future[T]:
        return _done(call)

    checkpoint = lease = read = write

    def close(self) -> None:
        """Nothing runs."""


def _done(call: Callable[[], T]) -> asyncio.Future[T]:
    future = asyncio.get_running_loop().create_future()
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - a thread hands over whatever it is
        future.set_exception(error)
    return future
