"""Range: each topic by itself is cut into as many consecutive ranges as it has subscribers.

With n partitions and k subscribers, the first n mod k of them, in member order, get one partition more than the
others' floor(n / k). So topics with equal counts and equal subscribers are cut alike, and one member reads the same
numbers of all of them; but the extra partitions of every topic go to the same first members.

Source: protocol.md section 17; Kafka's ``RangeAssignor`` where no racks are known.
"""

from coordinator_core.assignors.group_spec import GroupSpec, Shares


def assign_range(group_spec: GroupSpec) -> Shares:
    """Cut every topic into ranges."""
    shares = group_spec.empty_shares()
    for topic, subscribers in group_spec.subscribers.items():
        partitions = group_spec.partitions_of(topic)
        length, longer = divmod(len(partitions), len(subscribers))
        start = 0
        for place, subscriber in enumerate(subscribers[: len(partitions)]):
            end = start + length + (place < longer)
            shares[subscriber] += partitions[start:end]
            start = end
    return shares
