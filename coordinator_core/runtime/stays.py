"""What members let pass between two signs of life is measured where they are heard, and told by the hour in between.

Rules:

* Measuring costs a heartbeat a few additions and no write. The end of a stay is written with the record that ended
  it; an hour of a stay that goes on is background work: so many rows a turn, and none while the writer is behind.
* What was measured and not told is lost with the node. That is a lost measure, not a lost stay: the next row says
  from when on it measured, and since when its member has been there.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from coordinator_core.protocol.requests import CommitOffsets, Heartbeat, JoinGroup, SyncGroup
from coordinator_core.protocol.settings import Now
from coordinator_core.store.stays import Stay

SIGNS_OF_LIFE: Final = (Heartbeat, CommitOffsets, SyncGroup, JoinGroup)
"""Requests that keep their member's session alive, unless they are refused."""

NEVER_MS: Final = 2**63 - 1
"""Later than any moment of node time."""
LOOK_S: Final = 10
"""How often it is looked for stays of which an hour is over."""
ROWS_A_LOOK: Final = 2_000
"""Rows that one look may queue: at ten seconds a look, hours of 700,000 members."""
ROWS_A_WRITE: Final = 500
"""Rows of one group that go into one transaction; the rest of a large group follows at the next look."""


def hear(stay: Stay | None, now: Now, awake_until_ms: int) -> None:
    """Let a sign of life count; after a pause of the loop nobody knows when it came, so it ends no gap."""
    if stay is None:
        return
    if now.node_ms > awake_until_ms:
        stay.forget_gap()
    stay.heard(now.node_ms, now.wall_ms)


class Telling(Protocol):
    """A shard, as far as its members' stays go."""

    def tell_hours(self, limit: int) -> int:
        """Queue rows of stays of which an hour is over, at most `limit`; return how many."""
        ...


class Hours:
    """The loop that has hours of stays written down."""

    def __init__(self, shards: Callable[[], Iterable[Telling]], is_behind: Callable[[], bool]) -> None:
        """Prepare.

        Args:
            shards: those that the node owns.
            is_behind: whether the writer has more to do than to take background work.
        """
        self._shards = shards
        self._is_behind = is_behind

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Have what is due written, up to the limits; the loop gets a turn after every shard."""
        left = ROWS_A_LOOK
        for shard in list(self._shards()):
            if left <= 0 or self._is_behind():
                return
            left -= shard.tell_hours(left)
            await asyncio.sleep(0)
