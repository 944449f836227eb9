"""A clock that only a test advances, and that counts the threads waiting on it."""

from __future__ import annotations

import threading

from tests.support.waiting import PATIENCE_S


class ManualClock:
    """Stopped until advanced; each step wakes the waiting threads."""

    def __init__(self) -> None:
        self._now_ms = 1_000_000
        self._conditions: set[threading.Condition] = set()
        self._asleep: dict[str, int] = {}
        self._changed = threading.Condition()

    def now_ms(self) -> int:
        with self._changed:
            return self._now_ms

    def wait(self, condition: threading.Condition, timeout_ms: int) -> None:
        """Wait for a notification; only `advance` ends a wait by time."""
        assert timeout_ms > 0
        name = threading.current_thread().name
        with self._changed:
            self._conditions.add(condition)
            self._asleep[name] = timeout_ms
            self._changed.notify_all()
        condition.wait()
        with self._changed:
            self._asleep.pop(name, None)

    def advance(self, ms: int) -> None:
        """Advance the time, and wake all waiting threads."""
        with self._changed:
            self._now_ms += ms
            self._asleep.clear()
            conditions = list(self._conditions)
        for condition in conditions:
            with condition:
                condition.notify_all()

    def wait_for_sleeper(self, thread_name_end: str, between_ms: tuple[int, int] = (0, 1_000_000)) -> int:
        """Wait until such a thread means to sleep for a time within these bounds, and return that time."""

        def times() -> list[int]:
            low, high = between_ms
            found = [ms for name, ms in self._asleep.items() if name.endswith(thread_name_end)]
            return [ms for ms in found if low <= ms <= high]

        with self._changed:
            assert self._changed.wait_for(times, PATIENCE_S), f"asleep are only {self._asleep}"
            return times()[0]
