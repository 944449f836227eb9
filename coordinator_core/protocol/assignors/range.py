"""Range: each topic by itself is cut into as many consecutive ranges as it has subscribers.

With n partitions and k subscribers, the first n mod k of them, in member order, get one partition more than the
others' floor(n / k). So topics with equal counts and equal subscribers are cut alike, and one member reads the same
numbers of all of them; and the extras of every topic go to the same first members, which is what range is blamed for.

Source: protocol.md section 17; Kafka's ``RangeAssignor`` where no racks are known.
"""

from coordinator_core.protocol.assignors.demand import Demand, Shares


def assign_range(demand: Demand) -> Shares:
    """Cut every topic into ranges."""
    shares = demand.no_shares()
    for topic, takers in demand.subscribers.items():
        partitions = demand.partitions_of(topic)
        length, longer = divmod(len(partitions), len(takers))
        start = 0
        for place, taker in enumerate(takers[: len(partitions)]):
            end = start + length + (place < longer)
            shares[taker] += partitions[start:end]
            start = end
    return shares
