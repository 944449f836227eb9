"""Observed groups and members, as the log of a cluster would have them."""

from coordinator_core.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from mirror.observed import ObservedGroup, ObservedMember

T0_MS = 1_700_000_000_000
SYNC_MS = 2
"""How long after the end of the join phase an assignment is written."""


def member(
    member_id: str, *partitions: int, topic: str = "orders", instance_id: str | None = None, session_ms: int = 10_000
) -> ObservedMember:
    """Return a member that subscribes to a topic, and owns these partitions of it."""
    return ObservedMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        subscription=write_subscription(Subscription((topic,))),
        assignment=write_assignment(Assignment((TopicPartitions(topic, partitions),))),
    )


def generation(number: int, *members: ObservedMember, at_ms: int | None = None, group_id: str = "g") -> ObservedGroup:
    """Return a group as of one generation, a second after the one before unless the time is given."""
    return ObservedGroup(
        group_id=group_id,
        protocol_type="consumer",
        generation=number,
        protocol_name="range" if members else None,
        leader_id=members[0].member_id if members else None,
        state_since_ms=T0_MS + number * 1_000 if at_ms is None else at_ms,
        members=members,
    )


def appended_ms(seen: ObservedGroup) -> int:
    """Return when a group's value was written."""
    assert seen.state_since_ms is not None
    return seen.state_since_ms + SYNC_MS
