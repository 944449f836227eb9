"""Deadlines fire here, in order, and time in which the loop did not run is nobody's silence.

After a gap (a stopped process, a long pause) members get the gap back, and sockets are read before anything
fires: what they sent meanwhile counts.

Source: ARCHITECTURE.md "Where a request goes".
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from coordinator_core.runtime.clock import Clock
from coordinator_core.runtime.counters import Distribution
from coordinator_core.runtime.shard import Shard

log = structlog.get_logger("muster.runtime")

TICK_MS = 100
"""The longest the keeper sleeps, so that it notices a gap soon after it ends."""
ROUNDS_OF_READING = 8
"""Turns of the loop between a gap and the first deadline after it: enough to read and decide what was sent."""
FIRES_A_TURN = 200
"""Deadlines that fire before the loop gets a turn."""


class Timekeeper:
    """The loop that fires the deadlines of all shards."""

    def __init__(
        self, clock: Clock, shards: Callable[[], Iterable[Shard]], pause_ms: int, gaps_s: Distribution
    ) -> None:
        self._clock = clock
        self._shards = shards
        self._pause_ms = pause_ms
        self._gaps_s = gaps_s
        self._wake = asyncio.Event()

    def look_again(self) -> None:
        """Wake up: something may be due sooner than was thought."""
        self._wake.set()

    async def run(self) -> None:
        """Keep time for ever."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Sleep until something may be due, then fire what is."""
        began_ms = self._clock.now().node_ms
        sleep_ms = self._time_to_sleep_ms(began_ms)
        for shard in self._shards():
            shard.awake_until_ms = began_ms + sleep_ms + self._pause_ms
        if sleep_ms > 0:
            try:
                async with asyncio.timeout(sleep_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
        self._wake.clear()
        await self._allow_for_gap(self._clock.now().node_ms - began_ms - sleep_ms)
        await self._fire_due()

    def _time_to_sleep_ms(self, now_ms: int) -> int:
        # What is due on a doubtful lease waits for a renewal; looking at it all the time would leave no turn for that.
        due = (shard.timers.next_due_ms() for shard in self._shards() if self._is_sure(shard))
        first_ms = min((at_ms for at_ms in due if at_ms is not None), default=now_ms + TICK_MS)
        return max(0, min(TICK_MS, first_ms - now_ms))

    async def _allow_for_gap(self, gap_ms: int) -> None:
        if gap_ms <= self._pause_ms:
            return
        self._gaps_s.add(gap_ms / 1000)
        log.warning("loop_paused", gap_ms=gap_ms)
        for shard in self._shards():
            shard.allow_for_pause(gap_ms)
        for _ in range(ROUNDS_OF_READING):
            await asyncio.sleep(0)

    async def _fire_due(self) -> None:
        fired = 0
        for shard in list(self._shards()):
            while not shard.is_dropped and self._is_sure(shard):
                armed = shard.timers.take_due(self._clock.now().node_ms)
                if armed is None:
                    break
                shard.expire(armed)
                fired += 1
                if fired % FIRES_A_TURN == 0:
                    await asyncio.sleep(0)

    def _is_sure(self, shard: Shard) -> bool:
        """Tell whether the shard is certainly ours; nobody is put out on a doubtful lease."""
        return shard.valid_until_ms > self._clock.now().node_ms
