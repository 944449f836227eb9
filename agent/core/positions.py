"""Owned partitions and their positions; for the caller's task only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from agent.errors import NoOffsetForPartition
from agent.partitions import OffsetAndMetadata, TopicPartition, whole_number

AsyncEndOffsetOf = Callable[[TopicPartition], Awaitable[int | None]]
OffsetReset = Literal["earliest", "latest", "none"]


@dataclass(slots=True)
class _PartitionState:
    """The position and committed offset of one partition; None: not known."""

    position: int | None = None
    committed: OffsetAndMetadata | None = None
    """The last committed offset; also None while a commit of another one may have been stored."""
    is_reported: bool = False
    """Whether a log end offset was sent since the last call of `unreported`."""
    log_start: int = 0
    is_paused: bool = False


class Positions:
    """The owned partitions, each with the offset of the next record to read."""

    def __init__(self, end_offset_of: AsyncEndOffsetOf | None = None) -> None:
        self._states: dict[TopicPartition, _PartitionState] = {}
        """Sorted by partition."""
        self._end_offset_of = end_offset_of

    def owned(self) -> tuple[TopicPartition, ...]:
        """Return the owned partitions, sorted."""
        return tuple(self._states)

    def without_position(self) -> list[TopicPartition]:
        """Return the owned partitions whose position is not known, sorted."""
        return [partition for partition, state in self._states.items() if state.position is None]

    def add(
        self,
        partitions: Iterable[TopicPartition],
        committed: Mapping[TopicPartition, OffsetAndMetadata | None],
        log_starts: Mapping[str, int],
    ) -> None:
        """Add owned partitions, each at its committed offset."""
        for partition in partitions:
            found = committed.get(partition)
            offset = None if found is None else found.offset
            self._states[partition] = _PartitionState(offset, found, log_start=log_starts.get(partition.topic, 0))
        self._states = {partition: self._states[partition] for partition in sorted(self._states)}

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions."""
        for partition in partitions:
            self._states.pop(partition, None)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the next offset to read.

        Raises:
            ValueError: the offset is negative or not a whole number, or the partition is not owned.
        """
        state = self._state(partition)
        position = whole_number(f"the offset of {partition}", offset)
        if position < 0:
            raise ValueError(f"an offset must be 0 or more, and is {position}")
        state.position = position

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read, None while it is not known.

        Raises:
            ValueError: the partition is not owned.
        """
        return self._state(partition).position

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Pause or resume partitions.

        Raises:
            ValueError: one of them is not owned.
        """
        states = [self._state(partition) for partition in partitions]
        for state in states:
            state.is_paused = is_paused

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        states = list(self._states.items())  # At once: another thread may ask.
        return frozenset(partition for partition, state in states if state.is_paused)

    def fetchable(self) -> Mapping[TopicPartition, int]:
        """Return the partitions to read from, sorted, each with its next offset."""
        return MappingProxyType(
            {
                partition: state.position
                for partition, state in self._states.items()
                if state.position is not None and not state.is_paused
            }
        )

    async def reset(self, partitions: Iterable[TopicPartition], to: OffsetReset) -> None:
        """Set the position of partitions that have none.

        Raises:
            NoOffsetForPartition: there are such partitions, and `to` is "none", or "latest" and an end is not known.
            ValueError: a partition's log end offset is not a whole number.
        """
        missing = tuple(sorted(each for each in partitions if self._state(each).position is None))
        if missing and to == "none":
            raise NoOffsetForPartition(missing)
        for partition in missing:
            state = self._state(partition)
            if to == "latest":
                assert self._end_offset_of is not None
                end = await self._end_offset_of(partition)
                if end is None:
                    raise NoOffsetForPartition((partition,), "its log end offset is not known")
                state.position = _whole_end(partition, end)
            else:
                state.position = state.log_start

    async def all(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return all known positions as offsets to commit."""
        return {
            partition: await self._commitable(partition, state.position)
            for partition, state in list(self._states.items())
            if state.position is not None
        }

    async def uncommitted(self, *, with_log_ends: bool = True) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that differ from the committed offsets; only with log ends a function may raise."""
        return {
            partition: await self._commitable(partition, state.position, with_log_end=with_log_ends)
            for partition, state in list(self._states.items())
            if state.position is not None and (state.committed is None or state.position != state.committed.offset)
        }

    def mark_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record the offsets that a commit has stored."""
        for partition, offset in offsets.items():
            if partition in self._states:
                self._states[partition].committed = offset
                self._states[partition].is_reported |= offset.log_end_offset is not None

    def mark_uncertain(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Forget the committed offset of each partition for which a commit of another one may have been stored."""
        for partition, offset in offsets.items():
            state = self._states.get(partition)
            if state and state.committed and replace(state.committed, log_end_offset=offset.log_end_offset) != offset:
                state.committed = None

    async def unreported(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the last committed offsets, with new log end offsets, of partitions unreported since the last call."""
        unreported = [each for each in self._states.items() if not each[1].is_reported and each[1].committed]
        for state in self._states.values():
            state.is_reported = False
        if self._end_offset_of is None:
            return {}
        ends = {partition: await self._end_offset_of(partition) for partition, _ in unreported}
        return {
            partition: replace(state.committed, log_end_offset=_whole_end(partition, ends[partition]))
            for partition, state in unreported
            if state.committed is not None and ends[partition] is not None
        }

    async def _commitable(
        self, partition: TopicPartition, position: int, *, with_log_end: bool = True
    ) -> OffsetAndMetadata:
        end = await self._end_offset_of(partition) if self._end_offset_of and with_log_end else None
        return OffsetAndMetadata(position, log_end_offset=None if end is None else _whole_end(partition, end))

    def _state(self, partition: TopicPartition) -> _PartitionState:
        state = self._states.get(partition)
        if state is None:
            raise ValueError(f"{partition} is not assigned to this agent")
        return state


def _whole_end(partition: TopicPartition, end: int | None) -> int:
    return whole_number(f"the end offset of {partition}", end)
