"""A partition and an offset are small immutable values, and this is how they look on the wire."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

JsonObject = dict[str, Any]


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """Where a group goes on reading a partition: `offset` is the next record's, not the last one's.

    `log_end_offset` is where the partition ended when this was committed (None: not known); Muster derives the lag
    from it.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    log_end_offset: int | None = None


def whole_number(what: str, value: Any) -> int:  # noqa: ANN401  # a caller's, of which nothing is known yet
    """Return a whole number of whatever kind (numpy's, for one) as an int.

    Raises:
        ValueError: it is none; `what` says whose.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{what} is a whole number, and not {value!r}") from None


def grouped(partitions: Iterable[TopicPartition]) -> list[JsonObject]:
    """Return partitions in the contract's form, `[{"topic", "partitions": [...]}]`, sorted."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]


def ungrouped(groups: Iterable[JsonObject]) -> tuple[TopicPartition, ...]:
    """Return the partitions of the contract's form, sorted."""
    return tuple(sorted(TopicPartition(group["topic"], number) for group in groups for number in group["partitions"]))


def batched(partitions: Sequence[TopicPartition], size: int) -> Iterator[Sequence[TopicPartition]]:
    """Return the partitions in slices of at most `size`."""
    return (partitions[start : start + size] for start in range(0, len(partitions), size))
