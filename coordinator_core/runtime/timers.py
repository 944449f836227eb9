"""Deadlines of one shard: a heap that is corrected when an entry surfaces.

A deadline that moves back (a heartbeat) costs one dictionary write: the entry in the heap stays where it is, and
goes back in at its new time when it comes up. Expiry depends on nobody's request.
"""

import heapq
from typing import NamedTuple

from coordinator_core.protocol.requests import Deadline, DeadlineKind


class Armed(NamedTuple):
    """A deadline of a group."""

    group_id: str
    deadline: Deadline


class Timers:
    """When each armed deadline is due, in milliseconds of node time."""

    def __init__(self) -> None:
        self._due_at_ms: dict[Armed, int] = {}
        self._heap: list[tuple[int, int, Armed]] = []
        self._in_heap: dict[Armed, int] = {}
        self._order = 0

    def start(self, armed: Armed, due_at_ms: int) -> bool:
        """Arm a deadline, or move it. Returns whether it may now be the first one due."""
        self._due_at_ms[armed] = due_at_ms
        known = self._in_heap.get(armed)
        if known is not None and known <= due_at_ms:
            return False
        self._push(armed, due_at_ms)
        return self._heap[0][2] == armed

    def stop(self, armed: Armed) -> None:
        """Disarm a deadline, if it is armed."""
        self._due_at_ms.pop(armed, None)

    def due_at_ms(self, armed: Armed) -> int | None:
        """Return when a deadline is due, or None if it is not armed."""
        return self._due_at_ms.get(armed)

    def next_due_ms(self) -> int | None:
        """Return the earliest time at which anything may be due; nothing can be due before."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Armed | None:
        """Disarm and return one deadline whose full time has passed, the earliest first; None if there is none."""
        while self._heap and self._heap[0][0] <= now_ms:
            entry_ms, _, armed = heapq.heappop(self._heap)
            if self._in_heap.get(armed) != entry_ms:
                continue
            del self._in_heap[armed]
            due_ms = self._due_at_ms.get(armed)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due_at_ms[armed]
                return armed
            self._push(armed, due_ms)
        return None

    def delay_members(self, gap_ms: int) -> None:
        """Give every member and handshake the time in which the loop did not run."""
        for armed in self._due_at_ms:
            if armed.deadline.kind in {DeadlineKind.MEMBER, DeadlineKind.HANDSHAKE}:
                self._due_at_ms[armed] += gap_ms

    def delay_all(self, doubt_ms: int) -> None:
        """Give everything the time in which nobody could be heard; phases too, for nobody could join or sync."""
        for armed in self._due_at_ms:
            self._due_at_ms[armed] += doubt_ms

    def __len__(self) -> int:
        return len(self._due_at_ms)

    def _push(self, armed: Armed, due_at_ms: int) -> None:
        self._order += 1
        self._in_heap[armed] = due_at_ms
        heapq.heappush(self._heap, (due_at_ms, self._order, armed))
