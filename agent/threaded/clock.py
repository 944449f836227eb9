"""The agent's clock: current time and waits, replaceable in tests."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

MAX_WAIT_MS: Final = 1_000
"""The longest single wait, so that a notification from a signal handler just before the wait is noticed after it."""


class Clock(Protocol):
    """A monotonic clock; all waits of an agent go through it."""

    def now_ms(self) -> int:
        """Return the milliseconds since some fixed moment."""
        ...

    def wait(self, condition: threading.Condition, timeout_ms: int) -> None:
        """Wait until the held condition is notified or the time has passed; may return early."""
        ...


class SystemClock:
    """The machine's own monotonic clock."""

    def now_ms(self) -> int:
        """Return the machine's monotonic time in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def wait(self, condition: threading.Condition, timeout_ms: int) -> None:
        """Wait on the condition for at most timeout_ms, and for no longer than MAX_WAIT_MS."""
        condition.wait(min(timeout_ms, MAX_WAIT_MS) / 1000)
