"""The time of a scenario on a real clock: one of its milliseconds lasts 1/scale real ones, counted from the start.

Steps are due at fixed moments, so that what each of them takes does not add up. How late the latest of them was is
kept: a node that has its timers from requests that came late is late by as much, and no more.
"""

from threading import Event
from time import monotonic


class ScaledClock:
    """Where a scenario is in its own time."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.late_ms = 0.0
        """How late the latest step was so far, in real milliseconds."""
        self._origin_s = monotonic()
        self._virtual_ms = 0

    @property
    def virtual_ms(self) -> int:
        """How much of its own time the scenario has seen."""
        return self._virtual_ms

    def real_ms(self, virtual_ms: int) -> int:
        """Return how long something of the scenario's time lasts really; what lasts at all lasts a millisecond."""
        return max(1, round(virtual_ms / self.scale)) if virtual_ms > 0 else virtual_ms

    def advance(self, ms: int) -> None:
        """Wait until so much more of the scenario's time has passed."""
        self._virtual_ms += ms
        never = Event()
        while (left_s := self._due_s() - monotonic()) > 0:
            never.wait(left_s)
        self.note()

    def note(self) -> None:
        """Take note of how late it is: whatever belongs to this moment was just done."""
        self.late_ms = max(self.late_ms, (monotonic() - self._due_s()) * 1000)

    def go_on(self) -> None:
        """Let this moment be now: what lay between does not count, for the node has begun all its timers anew."""
        self._origin_s += monotonic() - self._due_s()

    def _due_s(self) -> float:
        return self._origin_s + self._virtual_ms / self.scale / 1000
