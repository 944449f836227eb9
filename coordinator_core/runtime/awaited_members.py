"""Storing awaited members: a loop that writes which members a long rebalance waits for, so that SQL can name them.

* A rebalance must have lasted for `after_ms`: most end sooner, and cost no write.
* A group is written when its awaited members changed since the last write, and at most once a second.
* The loop writes nothing while the writer is behind: this is background work.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

SCAN_INTERVAL_S: Final = 1.0
"""How often the loop compares awaited members with what is stored."""
MAX_GROUPS_PER_SCAN: Final = 500
"""Groups that one scan may write; the others follow with the next scan."""


class RebalancingShard(Protocol):
    """The part of a shard that this loop needs."""

    def store_awaited_members(self, after_ms: int, limit: int) -> int:
        """Queue a write of each group whose awaited members changed, at most `limit`; return how many."""
        ...


class AwaitedMembersLoop:
    """The loop that keeps `groups.awaited_members` up to date."""

    def __init__(
        self, shards: Callable[[], Iterable[RebalancingShard]], is_behind: Callable[[], bool], after_ms: int
    ) -> None:
        """Create the loop; `run` starts it.

        Args:
            shards: returns the shards that the node owns.
            is_behind: returns whether the writer has a backlog, so that background work waits.
            after_ms: how long a rebalance lasts before its awaited members are stored.
        """
        self._shards = shards
        self._is_behind = is_behind
        self._after_ms = after_ms

    async def run(self) -> None:
        """Scan once a second, without end."""
        while True:
            await asyncio.sleep(SCAN_INTERVAL_S)
            await self.scan()

    async def scan(self) -> None:
        """Store what changed, up to the limit; yields to the event loop after every shard."""
        remaining = MAX_GROUPS_PER_SCAN
        for shard in list(self._shards()):
            if remaining <= 0 or self._is_behind():
                return
            remaining -= shard.store_awaited_members(self._after_ms, remaining)
            await asyncio.sleep(0)
