"""Cooperative sticky: the sticky assignment, less what somebody else still owns: that comes one rebalance later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.assignors.claims import owned_claim
from agent.assignors.model import Assignment, Member
from agent.assignors.sticky import assign_sticky
from agent.partitions import TopicPartition


def assign_cooperative_sticky(counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
    """Share partitions out evenly, withholding each that another member has yet to give up.

    Source: Kafka, CooperativeStickyAssignor.
    """
    owners: dict[TopicPartition, set[str]] = {}
    for member in members:
        for partition in member.owned_partitions:
            owners.setdefault(partition, set()).add(member.member_id)
    return {
        member_id: [partition for partition in partitions if owners.get(partition, set()) <= {member_id}]
        for member_id, partitions in assign_sticky(counts, members, owned_claim).items()
    }
