"""Metrics that are read from the database, with a cache: offsets and lag of a node's groups, expiry, newest runs.

A result is cached for ten times as long as its query took. So each query uses at most a tenth of one connection,
however often metrics are scraped.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar, cast

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.log_ends import lag_at
from coordinator_core.queries.committed_offsets import LaggingOffset, read_lagging
from coordinator_core.queries.offset_totals import OffsetTotal, read_offset_totals
from coordinator_core.queries.runner import QueryRunner
from coordinator_core.queries.runs import ExpiryForecast, read_forecast, read_newest_runs
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import StoreError
from coordinator_core.state_store.postgres.connections import Transaction

T = TypeVar("T")

DATABASE_TIMEOUT_S: Final = 1.0
"""The time limit of a query; after it the values are not known."""
CACHE_FACTOR: Final = 10


class MetricsSnapshot:
    """Cached queries about the groups of this node; a result is None if the database does not answer in time."""

    def __init__(self, queries: QueryRunner, coordinator: Coordinator) -> None:
        self._queries = queries
        self._coordinator = coordinator
        self._cache: dict[str, _CacheEntry] = {}

    async def offset_totals(self, *, by_partition: bool) -> tuple[OffsetTotal, ...] | None:
        """Return committed offsets by topic or by partition."""
        fresh_since_ms = self._coordinator.wall_ms() - self._coordinator.metadata_cache.log_end_max_age_ms()
        key = "offsets by partition" if by_partition else "offsets by topic"
        read = partial(read_offset_totals, fresh_since_ms=fresh_since_ms, by_partition=by_partition)
        found = await self._cached(key, read)
        return None if found is None else tuple(found)

    async def time_lag_ms(self, lookback_ms: int) -> dict[tuple[str, str, int], int] | None:
        """Return the time lag of lagging partitions, in milliseconds."""
        now_ms = self._coordinator.wall_ms()

        def lags(transaction: Transaction, shard_ids: list[int]) -> dict[tuple[str, str, int], int]:
            lagging = read_lagging(transaction, shard_ids, now_ms - lookback_ms)
            return {(each.group_id, each.topic, each.partition): _time_lag_ms(each, now_ms) for each in lagging}

        return await self._cached("time lag", lags)

    async def newest_runs(self) -> dict[str, int] | None:
        """Return the time of each job's newest run, in milliseconds since the epoch."""
        return await self._cached("newest runs", lambda transaction, _: read_newest_runs(transaction))

    async def expiring(self) -> ExpiryForecast | None:
        """Return how many offsets will expire; None also if no run has looked."""
        return await self._cached("expiring", read_forecast)

    async def _cached(self, key: str, query: Callable[[Transaction, list[int]], T]) -> T | None:
        if self._coordinator.is_stopping:
            return None
        shard_ids = self._coordinator.owned_shard_ids()
        last = self._cache.get(key)
        if last is not None and last.shard_ids == shard_ids and time.monotonic() < last.expires_at_s:
            return cast(T, last.found)
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(DATABASE_TIMEOUT_S):
                found = await self._queries.run(query, shard_ids)
        except (CoordinatorNotAvailable, StoreError, TimeoutError):
            return None
        ended_s = time.monotonic()
        self._cache[key] = _CacheEntry(shard_ids, ended_s + CACHE_FACTOR * (ended_s - began_s), found)
        return found


def _time_lag_ms(lagging: LaggingOffset, now_ms: int) -> int:
    """Return how long ago the log passed a committed offset; the clock of the node that took it may be ahead."""
    found = lag_at(lagging.ends, lagging.offset, max(now_ms, lagging.ends[-1].at_ms))
    assert found is not None, "the log end that came with an offset is known"
    return found.ms


class _CacheEntry(NamedTuple):
    """The result of a query, the shards that it is about, and when it expires."""

    shard_ids: list[int]
    expires_at_s: float
    """On the monotonic clock."""
    found: object
