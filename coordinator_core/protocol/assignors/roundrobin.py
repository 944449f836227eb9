"""Round robin: all partitions, topic after topic, are dealt to the members in turn.

The turn goes on from one topic to the next. A member that does not subscribe to the topic is passed over and loses
its turn; so where subscriptions differ, the result can be far from even.

Source: protocol.md section 17; Kafka's ``RoundRobinAssignor``.
"""

from bisect import bisect_left

from coordinator_core.protocol.assignors.demand import Demand, Shares


def assign_roundrobin(demand: Demand) -> Shares:
    """Deal every partition to the next subscriber whose turn it is."""
    shares = demand.no_shares()
    turn = 0
    for topic, takers in demand.subscribers.items():
        first = bisect_left(takers, turn)
        for step, partition in enumerate(demand.partitions_of(topic), first):
            shares[takers[step % len(takers)]].append(partition)
        last = first + demand.counts[topic] - 1
        turn = takers[last % len(takers)] + 1
    return shares
