"""The lag of groups, computed from the database, so that any node answers in any state of the group."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from coordinator_core.protocol.errors import GroupIdNotFound, InvalidRequest
from coordinator_core.protocol.log_ends import Lag, LogEnd, lag_at, monotonic_log_ends, total_lag
from coordinator_core.protocol.retention import GroupFacts, OffsetFacts, due_at
from coordinator_core.runtime.history import StoreReader
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.store.committed_offsets import COARSE_FACTOR, PartitionOffset, PastLogEnd, PastOffset, TimeRange
from coordinator_core.store.interface import Store

HISTORY_RESOLUTION_MS: Final = 60_000
"""The resolution of history: one committed offset a minute."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition that has a committed offset, or that a member owns, or both."""

    partition_offset: PartitionOffset
    lag: Lag | None
    """None: nothing is committed, or no log end offset is known."""
    due_at_ms: int | None
    """When its offset may expire if the group does not change; None: never."""


class LagPoint(NamedTuple):
    """A group's total lag at an instant; None if it was not known."""

    at_ms: int
    lag: Lag | None


@dataclass(frozen=True, slots=True)
class SampleTimes:
    """The instants of a lag history, `step_ms` apart."""

    from_ms: int
    to_ms: int
    """Included, if a step ends there."""
    step_ms: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.from_ms, self.to_ms + 1, self.step_ms))

    def __len__(self) -> int:
        return len(range(self.from_ms, self.to_ms + 1, self.step_ms))


class GroupLag:
    """The lag of groups, now and over time.

    Every method raises `GroupIdNotFound` if the group does not exist and has no history.
    """

    def __init__(
        self,
        store: Store,
        read: StoreReader,
        store_own_offsets: Callable[[str], Awaitable[None]],
        metadata_cache: MetadataCache,
        wall_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._read = read
        self._store_own_offsets = store_own_offsets
        self._metadata_cache = metadata_cache
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        """Return the current wall time."""
        return self._wall_ms()

    async def now(self, group_id: str, lookback_ms: int) -> list[PartitionLag]:
        """Return every partition of a group, by topic and number; ignores reports older than `lookback_ms`."""
        await self._store_own_offsets(group_id)
        now_ms = self._wall_ms()
        found = await self._read(partial(self._store.group_offsets, group_id, now_ms - lookback_ms))
        if not found.partitions:
            await self._check_group_exists(group_id)
        retention_ms = self._metadata_cache.context(group_id).settings.retention_ms
        return [
            PartitionLag(each, self._lag(each, now_ms), _due_at_ms(each, found.facts, retention_ms))
            for each in found.partitions
        ]

    def _lag(self, partition_offset: PartitionOffset, now_ms: int) -> Lag | None:
        if partition_offset.offset is None or not partition_offset.ends:
            return None
        # The clock of the node that took a commit may be ahead of this one's.
        known_ms = max(now_ms, partition_offset.ends[-1].at_ms)
        return lag_at(
            partition_offset.ends, partition_offset.offset, known_ms, self._metadata_cache.log_end_max_age_ms()
        )

    async def over_time(self, group_id: str, points: SampleTimes, max_points: int) -> list[LagPoint]:
        """Return a group's lag at each instant.

        Args:
            group_id: the group.
            points: the instants; history is read from as long before, to find when logs passed committed offsets.
            max_points: how many offsets are read; with many partitions the resolution decreases.

        Raises:
            InvalidRequest: there are more partitions than that.
        """
        await self._store_own_offsets(group_id)
        lags = await self._read(partial(self._lag_history, group_id, points, max_points))
        if all(each.lag is None for each in lags):
            await self._check_group_exists(group_id)
        return lags

    def _lag_history(self, group_id: str, points: SampleTimes, max_points: int) -> list[LagPoint]:
        """Read history and compute the lag; on a reader thread, as there may be many partitions."""
        length_ms = points.to_ms - points.from_ms
        step_ms = max(points.step_ms, HISTORY_RESOLUTION_MS)
        partition_count = len(self._store.stored_offsets(group_id))
        while partition_count * (length_ms // step_ms) * (1 + 1 / COARSE_FACTOR) > max_points:
            step_ms *= 2
        while True:
            time_range = TimeRange(
                group_id, max(0, points.from_ms - length_ms), points.to_ms + 1, step_ms, points.from_ms
            )
            found = self._store.past_offsets(time_range, max_points + 1)
            ends = self._store.past_log_ends(time_range, max_points + 1)
            if max(len(found), len(ends)) <= max_points:
                return lag_history(found, ends, points, step_ms, self._metadata_cache.log_end_max_age_ms())
            if step_ms > length_ms:
                raise InvalidRequest(f"the range has more than {max_points} committed offsets, whatever the steps")
            step_ms *= 2

    async def _check_group_exists(self, group_id: str) -> None:
        if not await self._read(partial(self._store.is_known_group, group_id)):
            raise GroupIdNotFound("the group does not exist and has no history")


def _due_at_ms(partition_offset: PartitionOffset, facts: GroupFacts, retention_ms: int) -> int | None:
    if partition_offset.committed_at_ms is None:
        return None
    due = due_at(
        facts,
        OffsetFacts(partition_offset.topic, partition_offset.committed_at_ms, partition_offset.expires_at_ms),
        retention_ms,
    )
    return None if due is None else due[0]


def lag_history(
    offsets: Iterable[PastOffset], ends: Iterable[PastLogEnd], points: SampleTimes, step_ms: int, max_age_ms: int
) -> list[LagPoint]:
    """Return the lag at each instant: the sum of records over partitions, and the greatest time lag of a partition.

    Args:
        offsets: committed offsets, by topic, partition and time.
        ends: log end offsets of trusted reporters, in the same order.
        points: the instants.
        step_ms: the resolution of `offsets`. Between two that are at most two steps apart, offsets are interpolated;
            across a longer gap the offset did not change.
        max_age_ms: the age after which a log end offset is stale.
    """
    trusted = {key: list(of_one) for key, of_one in groupby(ends, _partition_of)}
    partitions = [
        _PastPartition(list(of_one), trusted.get(key, []), 2 * step_ms, max_age_ms)
        for key, of_one in groupby(offsets, _partition_of)
    ]
    return [
        LagPoint(at_ms, total_lag(each for partition in partitions if (each := partition.lag_at(at_ms)) is not None))
        for at_ms in points
    ]


def _partition_of(one: PastOffset | PastLogEnd) -> tuple[str, int]:
    return one.topic, one.partition


class _PastPartition:
    """One partition's committed offsets by time, and its known log end offsets."""

    def __init__(
        self, offsets: list[PastOffset], trusted: list[PastLogEnd], interpolation_max_ms: int, max_age_ms: int
    ) -> None:
        self._offsets = offsets
        self._interpolation_max_ms = interpolation_max_ms
        self._max_age_ms = max_age_ms
        self._instants_ms = [each.at_ms for each in offsets]
        own = [LogEnd(each.at_ms, each.log_end_offset) for each in offsets if each.log_end_offset is not None]
        self._ends = monotonic_log_ends([*own, *(LogEnd(each.at_ms, each.log_end_offset) for each in trusted)])

    def lag_at(self, at_ms: int) -> Lag | None:
        offset = self._offset_at(at_ms)
        return None if offset is None else lag_at(self._ends, offset, at_ms, self._max_age_ms)

    def _offset_at(self, at_ms: int) -> int | None:
        place = bisect_right(self._instants_ms, at_ms)
        if place == 0:
            return None
        before = self._offsets[place - 1]
        if before.offset is None or place == len(self._offsets):
            return before.offset
        after = self._offsets[place]
        length_ms = after.at_ms - before.at_ms
        if after.offset is None or length_ms > self._interpolation_max_ms:
            return before.offset
        return before.offset + (after.offset - before.offset) * (at_ms - before.at_ms) // length_ms
