"""The partitions a member owns, and how far it is in each; pure bookkeeping, for the caller's thread only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from agent.errors import NoOffsetForPartition
from agent.partitions import OffsetAndMetadata, TopicPartition, whole_number

EndOffsetOf = Callable[[TopicPartition], int | None]
OffsetReset = Literal["earliest", "latest", "none"]


@dataclass(slots=True)
class _Place:
    """How far one partition is; None: not known."""

    position: int | None = None
    stored: OffsetAndMetadata | None = None
    """What was last committed."""
    is_reported: bool = False
    """Whether the partition's end was sent along since the last look."""
    log_start: int = 0
    is_paused: bool = False


class Positions:
    """Owned partitions with the offset of the next record to read in each."""

    def __init__(self, end_offset_of: EndOffsetOf | None = None) -> None:
        self._places: dict[TopicPartition, _Place] = {}
        self._end_offset_of = end_offset_of

    def owned(self) -> tuple[TopicPartition, ...]:
        """Return the owned partitions, sorted."""
        return tuple(sorted(self._places))

    def add(
        self,
        partitions: Iterable[TopicPartition],
        committed: Mapping[TopicPartition, OffsetAndMetadata | None],
        log_starts: Mapping[str, int],
    ) -> None:
        """Own these too, each from where it was committed."""
        for partition in partitions:
            found = committed.get(partition)
            offset = None if found is None else found.offset
            self._places[partition] = _Place(offset, found, log_start=log_starts.get(partition.topic, 0))

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Own these no longer."""
        for partition in partitions:
            self._places.pop(partition, None)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the next offset to read.

        Raises:
            ValueError: the offset is no whole number or negative, or the partition is not owned.
        """
        place = self._place(partition)
        position = whole_number(f"the offset of {partition}", offset)
        if position < 0:
            raise ValueError(f"an offset is 0 or more, and not {position}")
        place.position = position

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read, None while it is not known.

        Raises:
            ValueError: the partition is not owned.
        """
        return self._place(partition).position

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Leave partitions out of what there is to consume, or take them in again.

        Raises:
            ValueError: one of them is not owned.
        """
        places = [self._place(partition) for partition in partitions]
        for place in places:
            place.is_paused = is_paused

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions left out for now."""
        return frozenset(partition for partition, place in self._places.items() if place.is_paused)

    def to_consume(self) -> Mapping[TopicPartition, int]:
        """Return the partitions to read from, sorted, each with its next offset."""
        return MappingProxyType(
            {
                partition: place.position
                for partition, place in sorted(self._places.items())
                if place.position is not None and not place.is_paused
            }
        )

    def reset(self, partitions: Iterable[TopicPartition], to: OffsetReset) -> None:
        """Begin somewhere in partitions with no position.

        Raises:
            NoOffsetForPartition: when `to` is "none" and there are any.
            ValueError: a partition's end is no whole number.
        """
        needy = tuple(sorted(each for each in partitions if self._place(each).position is None))
        if needy and to == "none":
            raise NoOffsetForPartition(needy)
        for partition in needy:
            place = self._place(partition)
            if to == "latest":
                assert self._end_offset_of is not None
                place.position = _whole_end(partition, self._end_offset_of(partition))
            else:
                place.position = place.log_start

    def all(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return every known position in the form of a commit."""
        return {
            partition: self._commitable(partition, place.position)
            for partition, place in sorted(self._places.items())
            if place.position is not None
        }

    def not_stored(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that differ from what was last committed."""
        return {
            partition: self._commitable(partition, place.position)
            for partition, place in sorted(self._places.items())
            if place.position is not None and (place.stored is None or place.position != place.stored.offset)
        }

    def stored(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note what a commit has stored."""
        for partition, offset in offsets.items():
            if partition in self._places:
                self._places[partition].stored = offset
                self._places[partition].is_reported |= offset.log_end_offset is not None

    def not_reported(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what was last committed, with the ends of partitions of which none was sent since the last call."""
        quiet = [each for each in sorted(self._places.items()) if not each[1].is_reported and each[1].stored]
        for place in self._places.values():
            place.is_reported = False
        if self._end_offset_of is None:
            return {}
        ends = {partition: self._end_offset_of(partition) for partition, _ in quiet}
        return {
            partition: replace(place.stored, log_end_offset=_whole_end(partition, ends[partition]))
            for partition, place in quiet
            if place.stored is not None and ends[partition] is not None
        }

    def _commitable(self, partition: TopicPartition, position: int) -> OffsetAndMetadata:
        end = None if self._end_offset_of is None else self._end_offset_of(partition)
        return OffsetAndMetadata(position, log_end_offset=None if end is None else _whole_end(partition, end))

    def _place(self, partition: TopicPartition) -> _Place:
        place = self._places.get(partition)
        if place is None:
            raise ValueError(f"{partition} is not assigned to this agent")
        return place


def _whole_end(partition: TopicPartition, end: int | None) -> int:
    return whole_number(f"the end offset of {partition}", end)
