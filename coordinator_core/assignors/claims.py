"""Resolution of members' claims to partitions that they own.

Rules:

* The claim of the newest generation wins over any number of older ones.
* Two claims of one generation void each other, unless a newer one wins: neither is trusted, yet both members may
  still be reading the partition.
* A claim to a partition that no longer exists, or has no subscriber, is ignored.

Source: protocol.md section 17; Kafka's ``AbstractStickyAssignor``, where a third claim counts by hash order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator_core.assignors.group_spec import GroupSpec, MemberSubscription, TopicPartition


@dataclass(frozen=True, slots=True)
class Claims:
    """The resolved claims: each partition's owner, by position, and the partitions whose claims are void."""

    holders: Mapping[TopicPartition, int]
    void: frozenset[TopicPartition]

    def is_free_for(self, partition: TopicPartition, position: int) -> bool:
        """Return whether no other member than the one at that position may be reading the partition now."""
        return partition not in self.void and self.holders.get(partition, position) == position


def resolve_claims(group_spec: GroupSpec) -> Claims:
    """Resolve all claims."""
    strongest: dict[TopicPartition, int] = {}
    void: set[TopicPartition] = set()
    for position, member in enumerate(group_spec.members):
        for partition in _claimed(group_spec, member):
            rival = strongest.setdefault(partition, position)
            if rival == position:
                continue
            lead = member.generation - group_spec.members[rival].generation
            if lead == 0:
                void.add(partition)
            elif lead > 0:
                strongest[partition] = position
                void.discard(partition)
    believed = {partition: holder for partition, holder in strongest.items() if partition not in void}
    return Claims(believed, frozenset(void))


def previous_owners(group_spec: GroupSpec) -> dict[TopicPartition, int]:
    """Return the owners, by position, as of the newest generation before the group's newest."""
    newest = max((member.generation for member in group_spec.members), default=0)
    previous: dict[TopicPartition, int] = {}
    for position, member in enumerate(group_spec.members):
        if member.generation == newest:
            continue
        for partition in _claimed(group_spec, member):
            rival = previous.setdefault(partition, position)
            if member.generation > group_spec.members[rival].generation:
                previous[partition] = position
    return previous


def _claimed(group_spec: GroupSpec, member: MemberSubscription) -> Iterator[TopicPartition]:
    for partition in member.owned_partitions:
        topic, number = partition
        if 0 <= number < group_spec.counts.get(topic, 0):
            yield partition
