"""A request other than a long poll is answered in time, or told to come again; one timer looks after all of them.

All requests have the same time, so the oldest is the next to be overdue. A timer of its own would cost a heartbeat
more than its answer does.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from coordinator_core.protocol.errors import CoordinatorNotAvailable

T = TypeVar("T")

EARLY_S: Final = 0.001
"""How early a loop may run a timer; who armed it again for the rest could do so without end."""


class Deadlines:
    """The requests under way, the oldest first, and when each must be answered."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._due_at_s: dict[asyncio.Task[object], float | None] = {}
        """Task → its time on the loop's clock; None: it was overdue, and is being told."""
        self._timer: asyncio.TimerHandle | None = None

    async def keep(self, answer: Awaitable[T]) -> T:
        """Wait for an answer, in a task that answers this one request.

        Raises:
            CoordinatorNotAvailable: none has come in time; what was asked may have been done or not.
        """
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        due_at_s = self._due_at_s[task] = loop.time() + self._timeout_ms / 1000
        if self._timer is None:
            self._timer = loop.call_at(due_at_s, self._look)
        try:
            return await answer
        except asyncio.CancelledError:
            if self._due_at_s[task] is not None:
                raise
            task.uncancel()
            raise CoordinatorNotAvailable(f"no answer within {self._timeout_ms} ms") from None
        finally:
            del self._due_at_s[task]

    def _look(self) -> None:
        """Tell everybody who is overdue, and come back when the next one will be."""
        self._timer = None
        loop = asyncio.get_running_loop()
        for task, due_at_s in self._due_at_s.items():
            if due_at_s is None:
                continue
            if due_at_s > loop.time() + EARLY_S:
                self._timer = loop.call_at(due_at_s, self._look)
                return
            self._due_at_s[task] = None
            task.cancel()
