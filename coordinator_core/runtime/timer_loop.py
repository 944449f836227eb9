"""The timer loop: fires due deadlines in order, and detects pauses of the event loop.

After a pause (a stopped process, say) its length is added to the session deadlines of members, and sockets are read
before a deadline fires, so that heartbeats which arrived meanwhile count.

Source: ARCHITECTURE.md "The path of a request".
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from coordinator_core.runtime.clock import Clock
from coordinator_core.runtime.counters import Distribution
from coordinator_core.runtime.shard import Shard

log = structlog.get_logger("muster.runtime")

TICK_MS = 100
"""The longest sleep of the loop, so that it detects a pause soon after it ends."""
LOOP_TURNS_AFTER_GAP = 8
"""Iterations of the event loop between a pause and the first deadline after it: enough to read and decide requests."""
MAX_FIRES_PER_TURN = 200
"""Deadlines that fire before the loop yields to the event loop."""


class TimerLoop:
    """The loop that fires the deadlines of all shards."""

    def __init__(
        self, clock: Clock, shards: Callable[[], Iterable[Shard]], pause_ms: int, gaps_s: Distribution
    ) -> None:
        self._clock = clock
        self._shards = shards
        self._pause_ms = pause_ms
        self._gaps_s = gaps_s
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Wake the loop: a deadline may be due sooner."""
        self._wake.set()

    async def run(self) -> None:
        """Fire deadlines, without end."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Sleep until a deadline may be due, then fire due deadlines."""
        began_ms = self._clock.now().node_ms
        sleep_ms = self._time_to_sleep_ms(began_ms)
        for shard in self._shards():
            shard.stalled_after_ms = began_ms + sleep_ms + self._pause_ms
        if sleep_ms > 0:
            alarm = asyncio.get_running_loop().call_later(sleep_ms / 1000, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                alarm.cancel()
        self._wake.clear()
        await self._allow_for_gap(self._clock.now().node_ms - began_ms - sleep_ms)
        await self._fire_due()

    def _time_to_sleep_ms(self, now_ms: int) -> int:
        # Deadlines of a doubtful lease wait for a renewal, which a loop that does not sleep would prevent.
        due = (shard.timers.next_due_ms() for shard in self._shards() if self._has_valid_lease(shard))
        first_ms = min((at_ms for at_ms in due if at_ms is not None), default=now_ms + TICK_MS)
        return max(0, min(TICK_MS, first_ms - now_ms))

    async def _allow_for_gap(self, gap_ms: int) -> None:
        if gap_ms <= self._pause_ms:
            return
        self._gaps_s.add(gap_ms / 1000)
        log.warning("event_loop_paused", gap_ms=gap_ms)
        for shard in self._shards():
            shard.allow_for_pause(gap_ms)
        for _ in range(LOOP_TURNS_AFTER_GAP):
            await asyncio.sleep(0)

    async def _fire_due(self) -> None:
        fired = 0
        for shard in list(self._shards()):
            while not shard.is_unloaded and self._has_valid_lease(shard):
                timer = shard.timers.pop_due(self._clock.now().node_ms)
                if timer is None:
                    break
                shard.expire(timer)
                fired += 1
                if fired % MAX_FIRES_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _has_valid_lease(self, shard: Shard) -> bool:
        """Return whether the lease is certainly valid; a shard whose lease is in doubt evicts no member."""
        return shard.valid_until_ms > self._clock.now().node_ms
