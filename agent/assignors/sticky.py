"""Sticky: as even as subscriptions allow, and within that everyone keeps what it had.

When all members subscribe alike, shares are the quotas of an even division. Otherwise partitions that few can take are
given out first, each to the least loaded, and then moved one by one while that makes two members more alike.

Source: Kafka, AbstractStickyAssignor, for what holds of the result; which of two like partitions moves is our choice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from agent.assignors.claims import Claim, believed, remembered_claim
from agent.assignors.model import Assignment, Member, in_order
from agent.partitions import TopicPartition


def assign_sticky(
    counts: Mapping[str, int], members: Sequence[Member], claim_of: Callable[[Member], Claim] = remembered_claim
) -> Assignment:
    """Share all partitions out evenly, changing as little as that allows."""
    ordered = in_order(members)
    kept = believed(counts, ordered, claim_of)
    wanted = {topic for member in ordered for topic in member.topics} & counts.keys()
    taken = {partition for partitions in kept.values() for partition in partitions}
    every = [TopicPartition(topic, number) for topic in sorted(wanted) for number in range(counts[topic])]
    free = [partition for partition in every if partition not in taken]
    if len({frozenset(wanted.intersection(member.topics)) for member in ordered}) == 1:
        return _evenly(kept, free, [member.member_id for member in ordered])
    return _Balance(ordered, kept).settled(free)


def _evenly(kept: Assignment, free: list[TopicPartition], member_ids: list[str]) -> Assignment:
    """Cut everyone down to its quota and fill up again; the larger quotas go to those who had most."""
    total = len(free) + sum(map(len, kept.values()))
    quota, larger = divmod(total, len(member_ids))
    by_size = sorted(member_ids, key=lambda member_id: -len(kept[member_id]))
    quotas = {member_id: quota + (place < larger) for place, member_id in enumerate(by_size)}
    surplus = [partition for member_id in member_ids for partition in kept[member_id][quotas[member_id] :]]
    shares = {member_id: kept[member_id][: quotas[member_id]] for member_id in member_ids}
    needy = deque(member_id for member_id in member_ids if len(shares[member_id]) < quotas[member_id])
    for partition in sorted(free + surplus):
        taker = needy.popleft()
        shares[taker].append(partition)
        if len(shares[taker]) < quotas[taker]:
            needy.append(taker)
    return shares


class _Balance:
    """Shares among members that do not all read the same topics."""

    def __init__(self, ordered: Sequence[Member], kept: Assignment) -> None:
        self._shares = {member_id: set(partitions) for member_id, partitions in kept.items()}
        self._was_kept = {partition for partitions in kept.values() for partition in partitions}
        self._takers: dict[str, list[str]] = {}
        for member in ordered:
            for topic in member.topics:
                self._takers.setdefault(topic, []).append(member.member_id)

    def settled(self, free: list[TopicPartition]) -> Assignment:
        """Give the free partitions out, then move some while that evens shares out."""
        for partition in sorted(free, key=self._rank):
            self._shares[self._least_loaded(partition)].add(partition)
        while self._has_moved_some():
            pass
        return {member_id: sorted(share) for member_id, share in self._shares.items()}

    def _has_moved_some(self) -> bool:
        """Pass over all partitions once; every move makes the shares' sum of squares smaller, so this ends."""
        has_moved = False
        for share in self._shares.values():
            for partition in sorted(share, key=self._rank):
                taker = self._least_loaded(partition)
                if len(share) > len(self._shares[taker]) + 1:
                    share.remove(partition)
                    self._shares[taker].add(partition)
                    has_moved = True
        return has_moved

    def _rank(self, partition: TopicPartition) -> tuple[bool, int, TopicPartition]:
        """Order partitions: what nobody had first, then what few can take."""
        return partition in self._was_kept, len(self._takers[partition.topic]), partition

    def _least_loaded(self, partition: TopicPartition) -> str:
        return min(self._takers[partition.topic], key=lambda member_id: len(self._shares[member_id]))
