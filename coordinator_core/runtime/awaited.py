"""Storing awaited members: a loop that writes which members a long rebalance waits for, so that SQL can name them.

* A rebalance must have lasted for `after_ms`: most are over before, and cost no write.
* A group is written when its awaited members changed since the last write, and at most once a second.
* The loop writes nothing while the writer is behind: this is background work.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

LOOK_S: Final = 1.0
"""How often the loop compares awaited members with what is stored."""
GROUPS_A_LOOK: Final = 500
"""Groups that one look may write; the others follow at the next look."""


class RebalancingShard(Protocol):
    """A shard, as far as its rebalancing groups go."""

    def store_awaited_members(self, after_ms: int, limit: int) -> int:
        """Queue a write of each group whose awaited members changed, at most `limit`; return how many."""
        ...


class AwaitedMembersLoop:
    """The loop that keeps `groups.awaited_members` up to date."""

    def __init__(
        self, shards: Callable[[], Iterable[RebalancingShard]], is_behind: Callable[[], bool], after_ms: int
    ) -> None:
        """Prepare.

        Args:
            shards: those that the node owns.
            is_behind: whether the writer has more to do than to take background work.
            after_ms: how long a rebalance lasts before its awaited members are stored.
        """
        self._shards = shards
        self._is_behind = is_behind
        self._after_ms = after_ms

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Store what changed, up to the limit; the event loop gets a turn after every shard."""
        left = GROUPS_A_LOOK
        for shard in list(self._shards()):
            if left <= 0 or self._is_behind():
                return
            left -= shard.store_awaited_members(self._after_ms, left)
            await asyncio.sleep(0)
