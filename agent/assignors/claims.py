"""What members say that they own, as far as it can be believed, and the bytes in which they say it.

A claim from an older generation loses against a newer one, and two claims from the same generation void each other:
then nobody knows who is right. What is no longer subscribed, or no longer there, is nobody's.

Source: Kafka, AbstractStickyAssignor, and the user data of StickyAssignor and CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.assignors.model import Assignment, Member
from agent.partitions import TopicPartition, grouped

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions a member says it owned, and in which generation."""

    partitions: tuple[TopicPartition, ...]
    generation: int = NO_GENERATION


def believed(counts: Mapping[str, int], members: Sequence[Member], claim_of: Callable[[Member], Claim]) -> Assignment:
    """Return for every member the claimed partitions that are rightly its own, sorted."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member in members:
        claim = claim_of(member)
        for partition in set(claim.partitions):
            if partition.topic in member.topics and partition.partition < counts.get(partition.topic, 0):
                claims.setdefault(partition, []).append((claim.generation, member.member_id))
    kept: Assignment = {member.member_id: [] for member in members}
    for partition in sorted(claims):
        newest = max(generation for generation, _ in claims[partition])
        owners = [member_id for generation, member_id in claims[partition] if generation == newest]
        if len(owners) == 1:
            kept[owners[0]].append(partition)
    return kept


def owned_claim(member: Member) -> Claim:
    """Return what a cooperative member claims: what it owns, under the generation in its user data."""
    data = member.user_data or b""
    generation = struct.unpack(">i", data)[0] if len(data) == struct.calcsize(">i") else NO_GENERATION
    return Claim(member.owned_partitions, generation)


def generation_data(_: Iterable[TopicPartition], generation: int) -> bytes:
    """Return a cooperative member's user data."""
    return struct.pack(">i", generation)


def remembered_claim(member: Member) -> Claim:
    """Return what an eager member claims: the assignment remembered in its user data, else what it owns."""
    if not member.user_data:
        return Claim(member.owned_partitions)
    try:
        return _unpacked(member.user_data)
    except (struct.error, UnicodeDecodeError):
        return Claim(())


def remembered_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Return an eager member's user data: its last assignment, and the generation of it."""
    groups = grouped(partitions)
    parts = [struct.pack(">i", len(groups))]
    for group in groups:
        name, numbers = group["topic"].encode(), group["partitions"]
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join(parts) + struct.pack(">i", generation)


def _unpacked(data: bytes) -> Claim:
    """Read user data; its first version ended before the generation."""
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
