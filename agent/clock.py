"""All time that an agent lets pass, it lets pass here, so that a test can hold the clock still."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

LOOK_UP_MS: Final = 1_000
"""A signal handler that notifies just before the wait begins is heard so much later at most."""


class Clock(Protocol):
    """A clock that never steps back, and the only place to wait."""

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
        """Wait on the condition for at most timeout_ms, and for no longer than LOOK_UP_MS."""
        condition.wait(min(timeout_ms, LOOK_UP_MS) / 1000)
