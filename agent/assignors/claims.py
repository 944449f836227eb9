"""Previous assignments that members claim, and their encoding in user data.

Source: Kafka, the user data of StickyAssignor and CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agent.assignors.model import Member
from agent.partitions import TopicPartition, grouped

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member claims to have owned, and their generation."""

    partitions: tuple[TopicPartition, ...]
    generation: int = NO_GENERATION


def owned_claim(member: Member) -> Claim:
    """Return a cooperative member's claim: its owned partitions, with its generation, which may be in its user data."""
    data, generation = member.user_data or b"", member.generation
    if generation == NO_GENERATION and len(data) == struct.calcsize(">i"):
        (generation,) = struct.unpack(">i", data)
    return Claim(member.owned_partitions, generation)


def generation_data(_: Iterable[TopicPartition], generation: int) -> bytes:
    """Return a cooperative member's user data."""
    return struct.pack(">i", generation)


def remembered_claim(member: Member) -> Claim:
    """Return an eager member's claim: the last assignment in its user data, else its owned partitions."""
    if not member.user_data:
        return Claim(member.owned_partitions)
    try:
        return _unpacked(member.user_data)
    except (struct.error, UnicodeDecodeError):
        return Claim(())


def remembered_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Return an eager member's user data: its last assignment and its generation."""
    groups = grouped(partitions)
    parts = [struct.pack(">i", len(groups))]
    for group in groups:
        name, numbers = group["topic"].encode(), group["partitions"]
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join(parts) + struct.pack(">i", generation)


def _unpacked(data: bytes) -> Claim:
    """Decode user data; version 0 has no generation."""
    (topic_count,), at = struct.unpack_from(">i", data), 4
    partitions: list[TopicPartition] = []
    for _ in range(topic_count):
        (length,) = struct.unpack_from(">h", data, at)
        name, number_count = struct.unpack_from(f">{length}si", data, at + 2)
        at += 6 + length
        numbers = struct.unpack_from(f">{number_count}i", data, at)
        at += 4 * len(numbers)
        partitions += (TopicPartition(name.decode(), number) for number in numbers)
    generation = struct.unpack_from(">i", data, at)[0] if len(data) >= at + 4 else NO_GENERATION
    return Claim(tuple(partitions), generation)
