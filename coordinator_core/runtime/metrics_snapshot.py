"""Metrics that are read from the database, with a cache: offsets and lag of a node's groups, expiry, newest runs.

A result is cached for ten times as long as its query took. So each query uses at most a tenth of one connection,
however often metrics are scraped.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar, cast

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.log_ends import lag_at
from coordinator_core.runtime.clock import Clock
from coordinator_core.runtime.history import StoreReader
from coordinator_core.store.committed_offsets import LaggingOffset
from coordinator_core.store.history import ExpiryForecast, OffsetTotal
from coordinator_core.store.interface import Store, StoreError

T = TypeVar("T")

DATABASE_TIMEOUT_S: Final = 1.0
"""The time limit of a query; after it the values are not known."""
CACHE_FACTOR: Final = 10


class MetricsSnapshot:
    """Cached queries about the groups that this node serves."""

    def __init__(
        self,
        store: Store,
        read: StoreReader,
        clock: Clock,
        shard_ids: Callable[[], Iterable[int]],
        log_end_max_age_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._read = read
        self._clock = clock
        self._shard_ids = shard_ids
        self._log_end_max_age_ms = log_end_max_age_ms
        self._cache: dict[str, _CacheEntry] = {}

    async def offset_totals(self, *, by_partition: bool) -> tuple[OffsetTotal, ...] | None:
        """Return committed offsets by topic or by partition; None if the database does not answer in time."""
        fresh_since_ms = self._clock.now().wall_ms - self._log_end_max_age_ms()

        def find(shard_ids: frozenset[int]) -> tuple[OffsetTotal, ...]:
            return tuple(self._store.offset_totals(shard_ids, fresh_since_ms, by_partition=by_partition))

        return await self._cached("offsets by partition" if by_partition else "offsets by topic", find)

    async def time_lag_ms(self, lookback_ms: int) -> dict[tuple[str, str, int], int] | None:
        """Return the time lag of lagging partitions, in milliseconds; None if the database does not answer in time."""
        now_ms = self._clock.now().wall_ms

        def lags(shard_ids: frozenset[int]) -> dict[tuple[str, str, int], int]:
            lagging = self._store.lagging_offsets(shard_ids, now_ms - lookback_ms)
            return {(each.group_id, each.topic, each.partition): _time_lag_ms(each, now_ms) for each in lagging}

        return await self._cached("time lag", lags)

    async def newest_runs(self) -> dict[str, int] | None:
        """Return the time of each job's newest run; None if the database does not answer in time."""
        return await self._cached("newest runs", lambda _: self._store.newest_runs())

    async def expiring(self) -> ExpiryForecast | None:
        """Return how many offsets will expire; None if no run has looked, or the database does not answer in time."""
        return await self._cached("expiring", self._store.expiring)

    async def _cached(self, key: str, find: Callable[[frozenset[int]], T]) -> T | None:
        shard_ids = frozenset(self._shard_ids())
        last = self._cache.get(key)
        if last is not None and last.shard_ids == shard_ids and self._clock.now().node_ms < last.expires_at_ms:
            return cast(T, last.found)
        began_ms = self._clock.now().node_ms
        try:
            async with asyncio.timeout(DATABASE_TIMEOUT_S):
                found = await self._read(partial(find, shard_ids))
        except (CoordinatorNotAvailable, StoreError, TimeoutError):
            return None
        ended_ms = self._clock.now().node_ms
        expires_at_ms = ended_ms + CACHE_FACTOR * (ended_ms - began_ms)
        self._cache[key] = _CacheEntry(shard_ids, expires_at_ms, found)
        return found


def _time_lag_ms(lagging: LaggingOffset, now_ms: int) -> int:
    """Return how long ago the log passed a committed offset; the clock of the node that took it may be ahead."""
    found = lag_at(lagging.ends, lagging.offset, max(now_ms, lagging.ends[-1].at_ms))
    assert found is not None, "the log end that came with an offset is known"
    return found.ms


class _CacheEntry:
    """The result of a query, the shards that it is about, and when it expires."""

    __slots__ = ("expires_at_ms", "found", "shard_ids")

    def __init__(self, shard_ids: frozenset[int], expires_at_ms: int, found: object) -> None:
        self.shard_ids = shard_ids
        self.expires_at_ms = expires_at_ms
        self.found = found
