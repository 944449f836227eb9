"""Who holds what already is what members claim, and claims can clash.

Rules:

* The claim of the newest generation wins over older ones, however many.
* Two claims of one generation void each other, unless a newer one wins: nobody is believed, yet both may still be
  reading the partition.
* A claim to a partition that is gone, or that nobody wants to read any more, is no claim.

Source: protocol.md section 17; Kafka's ``AbstractStickyAssignor``, where a third claim counts by hash order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator_core.protocol.assignors.demand import Demand, MemberSubscription, TopicPartition


@dataclass(frozen=True, slots=True)
class Claims:
    """What is believed: each partition's holder, by position, and the partitions whose claims are void."""

    holders: Mapping[TopicPartition, int]
    void: frozenset[TopicPartition]

    def is_free_for(self, partition: TopicPartition, position: int) -> bool:
        """Tell whether nobody but the member at that position may be reading the partition now."""
        return partition not in self.void and self.holders.get(partition, position) == position


def settle_claims(demand: Demand) -> Claims:
    """Weigh all claims against each other."""
    strongest: dict[TopicPartition, int] = {}
    void: set[TopicPartition] = set()
    for position, member in enumerate(demand.members):
        for partition in _claimed(demand, member):
            rival = strongest.setdefault(partition, position)
            if rival == position:
                continue
            lead = member.generation - demand.members[rival].generation
            if lead == 0:
                void.add(partition)
            elif lead > 0:
                strongest[partition] = position
                void.discard(partition)
    believed = {partition: holder for partition, holder in strongest.items() if partition not in void}
    return Claims(believed, frozenset(void))


def former_holders(demand: Demand) -> dict[TopicPartition, int]:
    """Return who held a partition, by position, as of the newest generation that is not the group's newest."""
    newest = max((member.generation for member in demand.members), default=0)
    former: dict[TopicPartition, int] = {}
    for position, member in enumerate(demand.members):
        if member.generation == newest:
            continue
        for partition in _claimed(demand, member):
            rival = former.setdefault(partition, position)
            if member.generation > demand.members[rival].generation:
                former[partition] = position
    return former


def _claimed(demand: Demand, member: MemberSubscription) -> Iterator[TopicPartition]:
    for partition in member.owned_partitions:
        topic, number = partition
        if 0 <= number < demand.counts.get(topic, 0):
            yield partition
