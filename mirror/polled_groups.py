"""Polled groups, as values, and what they say beside what is known: the observations that a log would have had.

Where the log may not be read, groups are described and their offsets fetched. That has no generations of the classic
protocol, no times, no leaders and no timeouts:

* A generation of the classic protocol is counted: one more where members or assignments have changed, or a rebalance
  was seen. A group of the consumer protocol has its epoch.
* What was seen happened at the time of the poll.
* Timeouts are the defaults of Kafka's clients and brokers.

Pure: no clock, no I/O. Source: docs/mirror.md "Without the log".
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from coordinator_core.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from coordinator_core.protocol.group import Group
from mirror.inference import REBALANCING, is_known, moved_members
from mirror.observed import ObservedCommit, ObservedGroup, ObservedMember, OffsetDeleted
from mirror.record_reader import REPLACEMENT, TERMINATOR, is_key

SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 300_000
NO_ERROR: Final = 0
CONSUMER_TYPE: Final = "consumer"
"""The type of groups of the consumer protocol (KIP-848)."""
OTHER_TYPES: Final = frozenset({"share", "streams"})
"""The types of groups whose members and generations are not mirrored."""


class ListedGroup(NamedTuple):
    """A group in a broker's list."""

    group_id: str
    broker: int
    group_type: str
    """`classic`, `consumer`, `share` or `streams`; brokers before Kafka 3.8 have classic groups only."""
    protocol_type: str
    """Empty: a group of commits alone."""
    state: str


class PolledGroup(NamedTuple):
    """A group that is in no rebalance."""

    protocol_type: str
    protocol_name: str
    members: tuple[ObservedMember, ...]
    epoch: int | None = None
    """The generation of a group of the consumer protocol; None: the group is of the classic protocol."""


class PolledOffset(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    """-1: unknown."""
    metadata: str


Offsets = dict[tuple[str, int], PolledOffset]
"""(topic, partition) → its committed offset."""


def classic_members(described: Iterable[Mapping[str, Any]]) -> tuple[ObservedMember, ...]:
    """Return the members of a response to DescribeGroups."""
    return tuple(_member(each, each["metadata"], each["assignment"]) for each in described)


def consumer_members(described: Iterable[Mapping[str, Any]]) -> tuple[ObservedMember, ...]:
    """Return the members of a response to ConsumerGroupDescribe, with their target assignments."""
    members = []
    for each in described:
        target = [
            TopicPartitions(of["topic"], tuple(sorted(of["partitions"])))
            for of in each["target_assignment"]["partitions"]
        ]
        topics = each["topics"] or sorted(of.topic for of in target)
        subscription = write_subscription(Subscription(tuple(topics)))
        members.append(_member(each, subscription, write_assignment(Assignment(tuple(sorted(target))))))
    return tuple(members)


def committed_offsets(topics: Iterable[Mapping[str, Any]]) -> Offsets:
    """Return the committed offsets of a group in a response to OffsetFetch."""
    return {
        (topic["topic"], one["partition"]): PolledOffset(
            one["offset"], one["leader_epoch"], storable((one["metadata"] or "").removesuffix(TERMINATOR.decode()))
        )
        for topic in topics
        for one in topic["partitions"]
        if one["error_code"] == NO_ERROR and one["offset"] >= 0
    }


def _member(described: Mapping[str, Any], subscription: bytes, assignment: bytes) -> ObservedMember:
    instance_id = described["group_instance_id"]
    return ObservedMember(
        storable(described["member_id"]),
        None if instance_id is None else storable(instance_id),
        storable(described["client_id"]),
        storable(described["client_host"]),
        SESSION_TIMEOUT_MS,
        REBALANCE_TIMEOUT_MS,
        subscription,
        assignment,
    )


def storable(text: str) -> str:
    """Return a text as Postgres can store it."""
    return text.replace("\0", REPLACEMENT)


def is_storable_id(text: str) -> bool:
    """Return whether Postgres can store the id of a group or member as it is."""
    return storable(text) == text and is_key(text)


def observed_group(group: Group, group_id: str, polled: PolledGroup, at_ms: int) -> ObservedGroup | None:
    """Return what a poll says of a group that is in no rebalance; None if it is known.

    Args:
        group: the group as known.
        group_id: its id.
        polled: the group as polled.
        at_ms: wall time of the poll.
    """
    seen = ObservedGroup(
        group_id=group_id,
        protocol_type=polled.protocol_type,
        generation=group.generation if polled.epoch is None else polled.epoch,
        protocol_name=polled.protocol_name or None,
        leader_id=None,
        state_since_ms=at_ms,
        members=polled.members,
        is_polled=True,
    )
    if is_known(group, seen) and group.state not in REBALANCING:
        return seen if moved_members(group, seen) else None
    is_counted = polled.epoch is None and (group.exists or bool(polled.members))
    return replace(seen, generation=group.generation + 1) if is_counted else seen


def observed_offsets(
    group_id: str, known: Offsets, polled: Offsets, at_ms: int
) -> list[ObservedCommit | OffsetDeleted]:
    """Return the commits and deletions that lead from the known offsets of a group to the polled ones.

    Args:
        group_id: the group.
        known: its offsets as known.
        polled: its offsets as polled.
        at_ms: wall time of the poll, which becomes that of the commits.
    """
    commits = [
        ObservedCommit(group_id, *partition, each.offset, each.leader_epoch, each.metadata, at_ms, None)
        for partition, each in polled.items()
        if known.get(partition) != each
    ]
    return [*commits, *(OffsetDeleted(group_id, *partition) for partition in known.keys() - polled.keys())]
