"""Topic partitions and offsets: value types and their JSON form."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
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
    """A committed offset: `offset` is that of the next record to read, not of the last one read.

    `log_end_offset` is the partition's end at the time of the commit (None: not known); Muster computes the lag from
    it.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    log_end_offset: int | None = None


def whole_number(what: str, value: Any) -> int:  # noqa: ANN401  # the caller may pass anything
    """Return a whole number of any type (numpy's, for one) as an int.

    Raises:
        ValueError: it is not a whole number, or a truth value; `what` names it in the message.
    """
    if not isinstance(value, bool):
        with suppress(TypeError):
            return operator.index(value)
    raise ValueError(f"{what} must be a whole number, and is {value!r}")


def grouped(partitions: Iterable[TopicPartition]) -> list[JsonObject]:
    """Return partitions in the API's form, `[{"topic", "partitions": [...]}]`, sorted."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]


def ungrouped(groups: Iterable[JsonObject]) -> tuple[TopicPartition, ...]:
    """Return the partitions in the API's form, sorted."""
    return tuple(sorted(TopicPartition(group["topic"], number) for group in groups for number in group["partitions"]))


def batched(partitions: Sequence[TopicPartition], size: int) -> Iterator[Sequence[TopicPartition]]:
    """Return the partitions in slices of at most `size`."""
    return (partitions[start : start + size] for start in range(0, len(partitions), size))
