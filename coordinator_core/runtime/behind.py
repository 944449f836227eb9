"""How far a group is behind is worked out from what stands in the database, so any node answers, at any time.

That holds while the group rebalances, stands still or is empty: what was reported of its logs is known all the same.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from coordinator_core.protocol.errors import GroupIdNotFound, InvalidRequest
from coordinator_core.protocol.log_ends import Behind, LogEnd, behind, rising, total
from coordinator_core.protocol.retention import GroupFacts, OffsetFacts, due_at
from coordinator_core.runtime.history import Read
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.store.interface import Store
from coordinator_core.store.positions import EARLY_FACTOR, HeldPosition, PastLogEnd, PastPosition, Stretch

KEPT_EVERY_MS: Final = 60_000
"""History keeps a position a minute, so nothing finer can be told of it."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition that a group has committed, or that a member holds, or both."""

    position: HeldPosition
    behind: Behind | None
    """None: nothing is committed, or no end of the log is known."""
    due_at_ms: int | None
    """When its offset may expire if the group stays as it is; None: never."""


class LagPoint(NamedTuple):
    """How far a group was behind at an instant, all partitions together; None where nothing was known."""

    at_ms: int
    behind: Behind | None


@dataclass(frozen=True, slots=True)
class Points:
    """The instants at which a lag is asked for."""

    from_ms: int
    to_ms: int
    """Itself an instant that is asked for, if a step ends there."""
    step_ms: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.from_ms, self.to_ms + 1, self.step_ms))

    def __len__(self) -> int:
        return len(range(self.from_ms, self.to_ms + 1, self.step_ms))


class GroupLag:
    """The lag of groups, now and over time.

    Every question raises `GroupIdNotFound` about a group that nobody ever saw.
    """

    def __init__(self, store: Store, read: Read, surroundings: Surroundings, wall_ms: Callable[[], int]) -> None:
        self._store = store
        self._read = read
        self._surroundings = surroundings
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        """Return what it is now."""
        return self._wall_ms()

    async def now(self, group_id: str, lookback_ms: int) -> list[PartitionLag]:
        """Return every partition of a group, by topic and number; reports older than `lookback_ms` do not count."""
        now_ms = self._wall_ms()
        found = await self._read(partial(self._store.held_positions, group_id, now_ms - lookback_ms))
        if not found.partitions:
            await self._expect(group_id)
        retention_ms = self._surroundings.context(group_id).settings.retention_ms
        return [
            PartitionLag(each, self._behind(each, now_ms), _due_at_ms(each, found.facts, retention_ms))
            for each in found.partitions
        ]

    def _behind(self, position: HeldPosition, now_ms: int) -> Behind | None:
        if position.offset is None or not position.ends:
            return None
        # The node that took a commit may be ahead of this one.
        known_ms = max(now_ms, position.ends[-1].at_ms)
        return behind(position.ends, position.offset, known_ms, self._surroundings.log_end_max_age_ms())

    async def over_time(self, group_id: str, points: Points, max_cells: int) -> list[LagPoint]:
        """Return a group's lag at each of these points.

        Args:
            group_id: whose.
            points: when; as long a time before is looked at, to find when logs went past positions.
            max_cells: how many positions may be looked at; of many partitions they lie further apart.

        Raises:
            InvalidRequest: there are more partitions; the text says so.
        """
        lags = await self._read(partial(self._curve, group_id, points, max_cells))
        if all(each.behind is None for each in lags):
            await self._expect(group_id)
        return lags

    def _curve(self, group_id: str, points: Points, max_cells: int) -> list[LagPoint]:
        """Read, and work it out beside the loop: there may be many partitions."""
        length_ms = points.to_ms - points.from_ms
        step_ms = max(points.step_ms, KEPT_EVERY_MS)
        partition_count = len(self._store.stored_offsets(group_id))
        while partition_count * (length_ms // step_ms) * (1 + 1 / EARLY_FACTOR) > max_cells:
            step_ms *= 2
        while True:
            stretch = Stretch(group_id, max(0, points.from_ms - length_ms), points.to_ms + 1, step_ms, points.from_ms)
            found = self._store.past_positions(stretch, max_cells + 1)
            ends = self._store.past_log_ends(stretch, max_cells + 1)
            if max(len(found), len(ends)) <= max_cells:
                return curve(found, ends, points, step_ms, self._surroundings.log_end_max_age_ms())
            if step_ms > length_ms:
                raise InvalidRequest(f"these are more than {max_cells} positions, whatever the steps")
            step_ms *= 2

    async def _expect(self, group_id: str) -> None:
        if not await self._read(partial(self._store.knows, group_id)):
            raise GroupIdNotFound("nobody has ever seen this group")


def _due_at_ms(position: HeldPosition, facts: GroupFacts, retention_ms: int) -> int | None:
    if position.committed_at_ms is None:
        return None
    due = due_at(facts, OffsetFacts(position.topic, position.committed_at_ms, position.expires_at_ms), retention_ms)
    return None if due is None else due[0]


def curve(
    positions: Iterable[PastPosition], ends: Iterable[PastLogEnd], points: Points, step_ms: int, max_age_ms: int
) -> list[LagPoint]:
    """Return the lag at each point: records added up over partitions, time that of the partition furthest behind.

    Args:
        positions: by topic, partition and time.
        ends: that trusted reporters named, in the same order.
        points: when.
        step_ms: how finely positions are told. Between two that follow each other within two steps the group is taken
            to have read evenly, as its logs are taken to have grown; across a longer gap it stood still.
        max_age_ms: the age past which the end of a log is stale.
    """
    trusted = {key: list(of_one) for key, of_one in groupby(ends, _partition_of)}
    partitions = [
        _PastPartition(list(of_one), trusted.get(key, []), 2 * step_ms, max_age_ms)
        for key, of_one in groupby(positions, _partition_of)
    ]
    return [
        LagPoint(at_ms, total(each for partition in partitions if (each := partition.behind(at_ms)) is not None))
        for at_ms in points
    ]


def _partition_of(one: PastPosition | PastLogEnd) -> tuple[str, int]:
    return one.topic, one.partition


class _PastPartition:
    """One partition's committed offsets by time, and the known ends of its log."""

    def __init__(self, positions: list[PastPosition], trusted: list[PastLogEnd], even_ms: int, max_age_ms: int) -> None:
        self._positions = positions
        self._even_ms = even_ms
        self._max_age_ms = max_age_ms
        self._instants_ms = [each.at_ms for each in positions]
        own = [LogEnd(each.at_ms, each.log_end_offset) for each in positions if each.log_end_offset is not None]
        self._ends = rising([*own, *(LogEnd(each.at_ms, each.log_end_offset) for each in trusted)])

    def behind(self, at_ms: int) -> Behind | None:
        offset = self._offset_at(at_ms)
        return None if offset is None else behind(self._ends, offset, at_ms, self._max_age_ms)

    def _offset_at(self, at_ms: int) -> int | None:
        place = bisect_right(self._instants_ms, at_ms)
        if place == 0:
            return None
        before = self._positions[place - 1]
        if before.offset is None or place == len(self._positions):
            return before.offset
        after = self._positions[place]
        length_ms = after.at_ms - before.at_ms
        if after.offset is None or length_ms > self._even_ms:
            return before.offset
        return before.offset + (after.offset - before.offset) * (at_ms - before.at_ms) // length_ms
