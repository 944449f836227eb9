"""Request deadlines: one timer cancels every request, other than a long poll, that exceeds the request timeout.

All requests have the same timeout, so the oldest is the next to be overdue. A timer per request would cost a heartbeat
more than its response does.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from coordinator_core.protocol.errors import CoordinatorNotAvailable

T = TypeVar("T")

TIMER_SLACK_S: Final = 0.001
"""How early the event loop may run a timer; without this slack the timer could re-arm itself endlessly."""


class Deadlines:
    """The requests in progress, the oldest first, each with its deadline."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._timeout_s = timeout_ms / 1000
        self._due_at_s: dict[asyncio.Future[Any], float | None] = {}
        """Task or future → its deadline on the loop's clock; None: it was overdue, and is being cancelled."""
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, answer: Awaitable[T]) -> T:
        """Wait for the response of the request that the current task serves.

        Raises:
            CoordinatorNotAvailable: the deadline passed; the request may have been carried out or not.
        """
        task = asyncio.current_task()
        assert task is not None
        self.begin(task)
        try:
            return await answer
        except asyncio.CancelledError:
            if self._due_at_s[task] is not None:
                raise
            task.uncancel()
            raise self.error() from None
        finally:
            self.end(task)

    def begin(self, pending: asyncio.Future[Any]) -> None:
        """Cancel a task or a future at the deadline of a request that begins now; `end` must follow."""
        loop = pending.get_loop()  # without a system call
        due_at_s = self._due_at_s[pending] = loop.time() + self._timeout_s
        if self._timer is None:
            self._timer = loop.call_at(due_at_s, self._cancel_overdue)

    def end(self, pending: asyncio.Future[Any]) -> bool:
        """Forget a deadline; return whether the task or future is cancelled because it has passed."""
        return self._due_at_s.pop(pending) is None

    def error(self) -> CoordinatorNotAvailable:
        """Return the error with which an overdue request is answered."""
        return CoordinatorNotAvailable(f"no answer within {self._timeout_ms} ms")

    def time_left_ms(self) -> float:
        """Return how long the request that the current task serves may still take."""
        task = asyncio.current_task()
        due_at_s = None if task is None else self._due_at_s.get(task)
        return 0 if due_at_s is None else (due_at_s - asyncio.get_running_loop().time()) * 1000

    def _cancel_overdue(self) -> None:
        """Cancel everything that is overdue, and arm the timer for the next deadline."""
        self._timer = None
        loop = asyncio.get_running_loop()
        for pending, due_at_s in self._due_at_s.items():
            if due_at_s is None:
                continue
            if due_at_s > loop.time() + TIMER_SLACK_S:
                self._timer = loop.call_at(due_at_s, self._cancel_overdue)
                return
            self._due_at_s[pending] = None
            pending.cancel()
