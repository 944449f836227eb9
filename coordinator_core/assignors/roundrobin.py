"""Round robin: all partitions, topic after topic, are assigned to the members in turn.

The turn continues from one topic to the next. A member that does not subscribe to the topic is skipped and loses its
turn; so with different subscriptions the result can be far from even.

Source: protocol.md section 17; Kafka's ``RoundRobinAssignor``.
"""

from bisect import bisect_left

from coordinator_core.assignors.group_spec import GroupSpec, Shares


def assign_roundrobin(group_spec: GroupSpec) -> Shares:
    """Assign every partition to the next subscriber in turn."""
    shares = group_spec.empty_shares()
    turn = 0
    for topic, subscribers in group_spec.subscribers.items():
        first = bisect_left(subscribers, turn)
        for step, partition in enumerate(group_spec.partitions_of(topic), first):
            shares[subscribers[step % len(subscribers)]].append(partition)
        last = first + group_spec.counts[topic] - 1
        turn = subscribers[last % len(subscribers)] + 1
    return shares
