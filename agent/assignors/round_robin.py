"""Round robin: all partitions in order are dealt to all members in turn, who pass on topics they do not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from agent.assignors.model import Assignment, Member, in_order
from agent.partitions import TopicPartition


def assign_round_robin(counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
    """Deal the partitions of the sorted topics one by one to the members in order, going round.

    Source: Kafka, RoundRobinAssignor.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    turns = cycle(in_order(members))
    subscribed = {topic for member in members for topic in member.topics}
    for topic in sorted(subscribed & counts.keys()):
        for number in range(counts[topic]):
            taker = next(member for member in turns if topic in member.topics)
            assignment[taker.member_id].append(TopicPartition(topic, number))
    return assignment
