"""The ordered and validated input of the assignors: members, subscriptions and partition counts.

Rules:

* Members have one order: those with an instance id first, by instance id; then the others by member id. The order of
  the input does not matter.
* Topics without subscribers or partitions are skipped, which is no error.
* Inside the package a member is its position in that order, and shares are a list by position.

Source: protocol.md section 17; Kafka's ``AbstractPartitionAssignor`` and its ``MemberInfo``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NO_GENERATION = -1
"""The generation of a member that has been in none."""


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then by number."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member's subscription, and the partitions that it claims to own.

    `owned_partitions` is a claim as of `generation`; it may be wrong, outdated, or name what no longer exists.
    """

    member_id: str
    group_instance_id: str | None
    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


Shares = list[list[TopicPartition]]
"""Each member's partitions, by its position."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The validated and ordered input.

    `counts` and `subscribers` have the topics that count, in order; a topic's subscribers are positions, ascending.
    `by_member_id` has all positions in the order of the member ids alone.
    """

    members: tuple[MemberSubscription, ...]
    counts: Mapping[str, int]
    subscribers: Mapping[str, Sequence[int]]
    by_member_id: Sequence[int]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions by number."""
        return [TopicPartition(topic, number) for number in range(self.counts[topic])]

    def partitions(self) -> Iterator[TopicPartition]:
        """Return every partition to be assigned, by topic and number."""
        for topic in self.counts:
            yield from self.partitions_of(topic)

    def is_uniform(self) -> bool:
        """Return whether all members subscribe to the same topics, skipped topics included."""
        return len({frozenset(member.topics) for member in self.members}) <= 1

    def empty_shares(self) -> Shares:
        """Return an empty share for every member."""
        return [[] for _ in self.members]


def build_group_spec(topics: Mapping[str, int], members: Sequence[MemberSubscription]) -> GroupSpec:
    """Validate and order an assignor's input.

    Args:
        topics: Topic → partition count; topics without subscribers may be among them.
        members: In any order; may be empty.

    Raises:
        ValueError: two members have one id, or a topic has a negative count.
    """
    _check(topics, members)
    ordered = tuple(sorted(members, key=_place))
    subscribers: dict[str, list[int]] = {topic: [] for topic in sorted(topics, key=kafka_order)}
    for position, member in enumerate(ordered):
        for topic in dict.fromkeys(member.topics):
            if topic in subscribers:
                subscribers[topic].append(position)
    wanted = {topic: takers for topic, takers in subscribers.items() if takers and topics[topic]}
    by_member_id = sorted(range(len(ordered)), key=lambda position: kafka_order(ordered[position].member_id))
    return GroupSpec(ordered, {topic: topics[topic] for topic in wanted}, wanted, by_member_id)


def kafka_order(text: str) -> bytes:
    """Return a sort key that sorts like Java: by UTF-16 code units, not by characters."""
    return text.encode("utf-16-be", "surrogatepass")


def _place(member: MemberSubscription) -> tuple[bool, bytes, bytes]:
    instance_id = member.group_instance_id
    return instance_id is None, kafka_order(instance_id or ""), kafka_order(member.member_id)


def _check(topics: Mapping[str, int], members: Sequence[MemberSubscription]) -> None:
    for topic, count in topics.items():
        if count < 0:
            raise ValueError(f"topic {topic!r} cannot have {count} partitions")
    seen: set[str] = set()
    for member in members:
        if member.member_id in seen:
            raise ValueError(f"two members have the id {member.member_id!r}")
        seen.add(member.member_id)
