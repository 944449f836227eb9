"""Scaled clock: a scenario's millisecond lasts 1/scale real ones, counted from the start.

Steps are due at fixed moments, so their durations do not add up. The clock records how late the latest step was: a
node whose timers start with late requests is late by as much, and no more.
"""

from threading import Event
from time import monotonic


class ScaledClock:
    """The time of one scenario."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.late_ms = 0.0
        """How late the latest step was so far, in real milliseconds."""
        self._origin_s = monotonic()
        self._virtual_ms = 0

    @property
    def virtual_ms(self) -> int:
        """Return the elapsed time of the scenario."""
        return self._virtual_ms

    def real_ms(self, virtual_ms: int) -> int:
        """Return the real duration of a duration in the scenario; at least one millisecond unless it is 0."""
        return max(1, round(virtual_ms / self.scale)) if virtual_ms > 0 else virtual_ms

    def advance(self, ms: int) -> None:
        """Wait until so much more of the scenario's time has passed."""
        self._virtual_ms += ms
        never = Event()
        while (left_s := self._due_s() - monotonic()) > 0:
            never.wait(left_s)
        self.note()

    def note(self) -> None:
        """Record how late the step that belongs to this moment is."""
        self.late_ms = max(self.late_ms, (monotonic() - self._due_s()) * 1000)

    def go_on(self) -> None:
        """Continue from now: the time since does not count, as the node has restarted all its timers."""
        self._origin_s += monotonic() - self._due_s()

    def _due_s(self) -> float:
        return self._origin_s + self._virtual_ms / self.scale / 1000
