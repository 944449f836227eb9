"""How far a node's groups are behind, what they will lose, and when jobs last ran: asked of the database, never often.

What was found is shown again for ten times as long as it took to find, so each look takes a tenth of one connection at
most, whoever looks how often.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar, cast

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.log_ends import behind
from coordinator_core.runtime.clock import Clock
from coordinator_core.runtime.history import Read
from coordinator_core.store.history import ExpiryForecast, GroupPosition
from coordinator_core.store.interface import Store, StoreError
from coordinator_core.store.positions import LaggingPosition

T = TypeVar("T")

PATIENCE_S: Final = 1.0
"""How long a look may take; past it the positions are not known."""
REST_FACTOR: Final = 10


class Scraped:
    """What the database tells of the groups that this node serves, as of some seconds ago."""

    def __init__(
        self,
        store: Store,
        read: Read,
        clock: Clock,
        shard_ids: Callable[[], Iterable[int]],
        log_end_max_age_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._read = read
        self._clock = clock
        self._shard_ids = shard_ids
        self._log_end_max_age_ms = log_end_max_age_ms
        self._looks: dict[str, _Look] = {}

    async def positions(self, *, by_partition: bool) -> tuple[GroupPosition, ...] | None:
        """Return positions by topic or by partition, or None where the database does not tell them in time."""
        fresh_since_ms = self._clock.now().wall_ms - self._log_end_max_age_ms()

        def find(shard_ids: frozenset[int]) -> tuple[GroupPosition, ...]:
            return tuple(self._store.group_positions(shard_ids, fresh_since_ms, by_partition=by_partition))

        return await self._seen("positions by partition" if by_partition else "positions by topic", find)

    async def behind_ms(self, lookback_ms: int) -> dict[tuple[str, str, int], int] | None:
        """Return for how long partitions are behind, of those that are; None where the database does not tell."""
        now_ms = self._clock.now().wall_ms

        def lags(shard_ids: frozenset[int]) -> dict[tuple[str, str, int], int]:
            lagging = self._store.lagging_positions(shard_ids, now_ms - lookback_ms)
            return {(each.group_id, each.topic, each.partition): _behind_ms(each, now_ms) for each in lagging}

        return await self._seen("behind", lags)

    async def newest_runs(self) -> dict[str, int] | None:
        """Return as of when each job last ran; None where the database does not tell in time."""
        return await self._seen("newest runs", lambda _: self._store.newest_runs())

    async def expiring(self) -> ExpiryForecast | None:
        """Return what will expire, or None where nobody has looked, or the database does not tell in time."""
        return await self._seen("expiring", self._store.expiring)

    async def _seen(self, what: str, find: Callable[[frozenset[int]], T]) -> T | None:
        shard_ids = frozenset(self._shard_ids())
        last = self._looks.get(what)
        if last is not None and last.shard_ids == shard_ids and self._clock.now().node_ms < last.good_until_ms:
            return cast(T, last.found)
        began_ms = self._clock.now().node_ms
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await self._read(partial(find, shard_ids))
        except (CoordinatorNotAvailable, StoreError, TimeoutError):
            return None
        ended_ms = self._clock.now().node_ms
        good_until_ms = ended_ms + REST_FACTOR * (ended_ms - began_ms)
        self._looks[what] = _Look(shard_ids, good_until_ms, found)
        return found


def _behind_ms(lagging: LaggingPosition, now_ms: int) -> int:
    """Return how long ago the log went past a position; who committed it may be ahead of our clock."""
    found = behind(lagging.ends, lagging.offset, max(now_ms, lagging.ends[-1].at_ms))
    assert found is not None, "the end that came with a position is known"
    return found.ms


class _Look:
    """What was found, of which shards, and until when it is shown again."""

    __slots__ = ("found", "good_until_ms", "shard_ids")

    def __init__(self, shard_ids: frozenset[int], good_until_ms: int, found: object) -> None:
        self.shard_ids = shard_ids
        self.good_until_ms = good_until_ms
        self.found = found
