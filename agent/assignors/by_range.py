"""Range: each topic by itself is cut into consecutive ranges, one a subscriber, the larger ones first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from agent.assignors.model import Assignment, Member, in_order
from agent.partitions import TopicPartition


def assign_by_range(counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
    """Give n partitions to k subscribers in order: the first n mod k get one more than the others.

    Source: Kafka, RangeAssignor.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    ordered = in_order(members)
    for topic in sorted(counts):
        subscribers = [member.member_id for member in ordered if topic in member.topics]
        for member_id, numbers in zip(subscribers, _ranges(counts[topic], len(subscribers)), strict=True):
            assignment[member_id].extend(TopicPartition(topic, number) for number in numbers)
    return assignment


def _ranges(count: int, parts: int) -> list[range]:
    size, larger = divmod(count, parts) if parts else (0, 0)
    starts = [part * size + min(part, larger) for part in range(parts + 1)]
    return [range(start, end) for start, end in pairwise(starts)]
