"""Timers of one shard: a heap of deadlines whose entries are corrected lazily.

A deadline that moves back (a heartbeat) costs one dictionary write. Its entry in the heap keeps the old time, and is
pushed again with the new time when it comes up.
"""

import heapq

from msgspec import Struct

from coordinator_core.protocol.requests import Deadline, DeadlineKind


class GroupTimer(Struct, frozen=True):
    """A deadline of a group."""

    group_id: str
    deadline: Deadline


class Timers:
    """The running timers, and when they are due, in milliseconds of node time."""

    def __init__(self) -> None:
        self._due_at_ms: dict[GroupTimer, int] = {}
        self._heap: list[tuple[int, int, GroupTimer]] = []
        self._in_heap: dict[GroupTimer, int] = {}
        self._order = 0

    def start(self, timer: GroupTimer, due_at_ms: int) -> bool:
        """Start a timer, or move it; return whether it may now be the first one due."""
        self._due_at_ms[timer] = due_at_ms
        known = self._in_heap.get(timer)
        if known is not None and known <= due_at_ms:
            return False
        self._push(timer, due_at_ms)
        return self._heap[0][2] == timer

    def stop(self, timer: GroupTimer) -> None:
        """Stop a timer, if it runs."""
        self._due_at_ms.pop(timer, None)

    def due_at_ms(self, timer: GroupTimer) -> int | None:
        """Return when a timer is due, or None if it does not run."""
        return self._due_at_ms.get(timer)

    def next_due_ms(self) -> int | None:
        """Return a time before which no timer is due; None if there is no timer."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> GroupTimer | None:
        """Stop and return a due timer, the earliest first; None if none is due."""
        while self._heap and self._heap[0][0] <= now_ms:
            entry_ms, _, timer = heapq.heappop(self._heap)
            if self._in_heap.get(timer) != entry_ms:
                continue
            del self._in_heap[timer]
            due_ms = self._due_at_ms.get(timer)
            if due_ms is None:
                continue
            if due_ms == entry_ms:
                del self._due_at_ms[timer]
                return timer
            self._push(timer, due_ms)
        return None

    def delay_members(self, gap_ms: int) -> None:
        """Add a pause of the event loop to the deadlines of members and pending members."""
        for timer in self._due_at_ms:
            if timer.deadline.kind in {DeadlineKind.SESSION, DeadlineKind.PENDING_MEMBER}:
                self._due_at_ms[timer] += gap_ms

    def delay_all(self, doubt_ms: int) -> None:
        """Add time in which requests were refused to every deadline; phases too, as members could not join or sync."""
        for timer in self._due_at_ms:
            self._due_at_ms[timer] += doubt_ms

    def __len__(self) -> int:
        return len(self._due_at_ms)

    def _push(self, timer: GroupTimer, due_at_ms: int) -> None:
        self._order += 1
        self._in_heap[timer] = due_at_ms
        heapq.heappush(self._heap, (due_at_ms, self._order, timer))
