"""The lag of groups (consumer lag), now and over time, in any state of the group."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final, NamedTuple

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.log_ends import (
    NO_LAG,
    Lag,
    LogEnd,
    lag_at,
    monotonic_log_ends,
    total_lag,
)
from coordinator_core.protocol.retention import GroupFacts, OffsetFacts, due_at
from coordinator_core.queries.committed_offsets import (
    COARSE_FACTOR,
    LaggingOffset,
    PartitionOffset,
    PastLogEnd,
    PastOffset,
    TimeRange,
    count_offsets,
    read_group_offsets,
    read_lag_total,
    read_past_log_ends,
    read_past_offsets,
)
from coordinator_core.queries.groups import known
from coordinator_core.state_store.postgres.connections import Transaction

LARGE_GROUP_PAGE_MAX: Final = 1_000
"""How many partitions a page of the lag of a large group has at most."""
MOST_LAGGING: Final = 1_000
"""How many partitions of a large group its lag in time is computed from."""
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


class TotalLag(NamedTuple):
    """The lag of all partitions of a group."""

    lag: Lag | None
    """None: it is known for no partition."""
    log_end_at_ms: int | None
    """The oldest of the times at which the log ends in it were last reported."""


class GroupLag(NamedTuple):
    """The lag of a group, and of a page of its partitions."""

    total: TotalLag
    partitions: list[PartitionLag]
    """The page, by topic and number."""
    has_more: bool
    """Whether there are partitions after the page."""


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


def read_lag(  # noqa: PLR0913 - what lag depends on, by name
    transaction: Transaction,
    group_id: str,
    after: tuple[str, int] | None,
    limit: int,
    *,
    first_total: TotalLag | None,
    now_ms: int,
    lookback_ms: int,
    max_age_ms: int,
    retention_ms: int,
    max_partitions: int,
) -> GroupLag:
    """Return the lag of a group, and of a page of its partitions.

    All of it is computed here, in the thread of the query: of a large group it would keep the event loop.

    Of a group with more than `max_partitions`, only the past log ends of the page are read, and those of the partitions
    that lag by the most records. So the total is exact in records, and a lower bound in time.

    Args:
        transaction: the transaction.
        group_id: the group.
        after: the topic and the number of the last partition of the previous page; None: the first page.
        limit: how many partitions the page has at most.
        first_total: the total of the first page; that of a large group is not computed again for each page.
        now_ms: the wall time.
        lookback_ms: log ends that were reported longer ago are ignored.
        max_age_ms: the age after which a log end is stale.
        retention_ms: the effective retention of the group's offsets; negative: for ever.
        max_partitions: the number of committed offsets up to which all are read.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
    since_ms = now_ms - lookback_ms
    is_large = count_offsets(transaction, group_id) > max_partitions
    if is_large:
        limit = min(limit, LARGE_GROUP_PAGE_MAX)
        found = read_group_offsets(transaction, group_id, since_ms, after, limit + 1)
        total = first_total or _total_of_large_group(transaction, group_id, since_ms, now_ms, max_age_ms)
    else:
        found = read_group_offsets(transaction, group_id, since_ms)
        total = _total(known(transaction, group_id, found.partitions), now_ms, max_age_ms)
    rest = (one for one in found.partitions if after is None or (one.topic, one.partition) > after)
    page = [
        PartitionLag(each, _lag(each, now_ms, max_age_ms), _due_at_ms(each, found.facts, retention_ms))
        for each in islice(rest, limit + 1)
    ]
    return GroupLag(total, page[:limit], has_more=len(page) > limit)


def _total(partitions: Iterable[PartitionOffset], now_ms: int, max_age_ms: int) -> TotalLag:
    with_lag = [(each, lag) for each in partitions if (lag := _lag(each, now_ms, max_age_ms)) is not None]
    log_end_at_ms = min((each.ends[-1].at_ms for each, _ in with_lag), default=None)
    return TotalLag(total_lag(lag for _, lag in with_lag), log_end_at_ms)


def _total_of_large_group(
    transaction: Transaction, group_id: str, since_ms: int, now_ms: int, max_age_ms: int
) -> TotalLag:
    """Return what `_total` returns, from the log ends of the partitions that lag most."""
    total = read_lag_total(transaction, group_id, since_ms, MOST_LAGGING)
    if total.records is None or total.log_end_at_ms is None:
        return TotalLag(None, None)
    lags = [lag for each in total.most_lagging if (lag := _lag(each, now_ms, max_age_ms)) is not None]
    longest = total_lag(lags) or NO_LAG
    is_stale = now_ms - total.log_end_at_ms > max_age_ms
    is_lower_bound = is_stale or longest.is_lower_bound or total.lagging_count > len(lags)
    return TotalLag(Lag(total.records, longest.ms, is_lower_bound, is_stale), total.log_end_at_ms)


def _lag(committed: PartitionOffset | LaggingOffset, now_ms: int, max_age_ms: int) -> Lag | None:
    if committed.offset is None or not committed.ends:
        return None
    # The clock of the node that took a commit may be ahead of this one's.
    known_ms = max(now_ms, committed.ends[-1].at_ms)
    return lag_at(committed.ends, committed.offset, known_ms, max_age_ms)


def read_lag_history(
    transaction: Transaction, group_id: str, points: SampleTimes, *, max_offsets: int, max_age_ms: int
) -> list[LagPoint]:
    """Return a group's lag at each instant.

    Args:
        transaction: the transaction.
        group_id: the group.
        points: the instants; history is read from as long before, to find when logs passed committed offsets.
        max_offsets: how many offsets are read; with many partitions the resolution decreases.
        max_age_ms: the age after which a log end is stale.

    Raises:
        InvalidRequest: there are more partitions than that.
        GroupIdNotFound: there never was such a group.
    """
    length_ms = points.to_ms - points.from_ms
    step_ms = resolution_ms(points, count_offsets(transaction, group_id), max_offsets)
    while True:
        time_range = TimeRange(group_id, max(0, points.from_ms - length_ms), points.to_ms + 1, step_ms, points.from_ms)
        found = read_past_offsets(transaction, time_range, max_offsets + 1)
        ends = read_past_log_ends(transaction, time_range, max_offsets + 1)
        if max(len(found), len(ends)) <= max_offsets:
            break
        if step_ms > length_ms:
            raise InvalidRequest(f"the range has more than {max_offsets} committed offsets, whatever the steps")
        step_ms *= 2
    known(transaction, group_id, found)
    return lag_history(found, ends, points, step_ms, max_age_ms)


def resolution_ms(points: SampleTimes, partitions: int, max_offsets: int) -> int:
    """Return the shortest step in which a history of so many partitions is expected to have at most `max_offsets`."""
    step_ms = max(points.step_ms, HISTORY_RESOLUTION_MS)
    while partitions * ((points.to_ms - points.from_ms) // step_ms) * (1 + 1 / COARSE_FACTOR) > max_offsets:
        step_ms *= 2
    return step_ms


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
        max_age_ms: the age after which a log end offset is stale, if that is more than two steps.
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


def _growing(ends: Iterable[LogEnd]) -> list[list[LogEnd]]:
    """Return log ends by time in parts, each of which begins where they decrease."""
    parts: list[list[LogEnd]] = []
    for end in ends:
        if not parts or end.offset < parts[-1][-1].offset:
            parts.append([])
        parts[-1].append(end)
    return parts


def _partition_of(one: PastOffset | PastLogEnd) -> tuple[str, int]:
    return one.topic, one.partition


class _PastPartition:
    """One partition's committed offsets by time, and its known log end offsets.

    A log end that the group reported counts until it reports a lower one, as of a topic that was created again.
    """

    def __init__(
        self, offsets: list[PastOffset], trusted: list[PastLogEnd], interpolation_max_ms: int, max_age_ms: int
    ) -> None:
        self._offsets = offsets
        self._interpolation_max_ms = interpolation_max_ms
        self._max_age_ms = max(max_age_ms, interpolation_max_ms)
        self._instants_ms = [each.at_ms for each in offsets]
        self._trusted = [LogEnd(each.at_ms, each.log_end_offset) for each in trusted]
        self._own = _growing(
            LogEnd(each.at_ms, each.log_end_offset) for each in offsets if each.log_end_offset is not None
        )
        self._part = 0
        self._ends = self._merged(0)
        """The log ends that are known while this part of `_own` counts."""

    def lag_at(self, at_ms: int) -> Lag | None:
        offset = self._offset_at(at_ms)
        return None if offset is None else lag_at(self._ends_at(at_ms), offset, at_ms, self._max_age_ms)

    def _ends_at(self, at_ms: int) -> list[LogEnd]:
        part = max(0, bisect_right(self._own, at_ms, key=lambda ends: ends[0].at_ms) - 1)
        if part != self._part:
            self._part, self._ends = part, self._merged(part)
        return self._ends

    def _merged(self, part: int) -> list[LogEnd]:
        return monotonic_log_ends([*(self._own[part] if self._own else ()), *self._trusted])

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
