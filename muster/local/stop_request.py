"""Stop signals: recorded when they arrive, and raised at the next wait. SIGHUP stays ignored under `nohup`."""

import os
import select
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """A stop was requested."""


class StopRequest:
    """Handles stop signals during its block, and ends waits when one arrives."""

    def __init__(self) -> None:
        self._wakeup = os.eventfd(0)
        self._handlers: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
        self.is_requested = False

    def __enter__(self) -> Self:
        for number in STOP_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wakeup)

    def raise_if_requested(self) -> None:
        """Raise StopRequested if a signal has arrived."""
        if self.is_requested:
            raise StopRequested

    def wait(self, timeout_s: float) -> None:
        """Wait; raise StopRequested as soon as a signal arrives."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.poll(max(0.0, timeout_s) * 1000)
        self.raise_if_requested()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True
        os.eventfd_write(self._wakeup, 1)
