"""Compact notation for groups in tests, such as `member("C1", "t0 t1", "t0-0 t1-2")`."""

from collections.abc import Iterable, Mapping, Sequence

from coordinator_core.assignors import NO_GENERATION, Assignment, MemberSubscription, TopicPartition, assign

Picture = dict[str, str]
"""Partitions by member id, as in `partitions_in`."""


def partitions_in(text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions of `t0-0 t0-1 t1-0`."""
    return tuple(
        TopicPartition(topic, int(number)) for topic, _, number in (word.rpartition("-") for word in text.split())
    )


def member(
    member_id: str,
    topics: str,
    owned: str = "",
    generation: int = NO_GENERATION,
    instance_id: str | None = None,
) -> MemberSubscription:
    """Return a member; topics are words with spaces between."""
    return MemberSubscription(member_id, instance_id, tuple(topics.split()), partitions_in(owned), generation)


def picture(assignment: Assignment) -> Picture:
    """Return an assignment as it is written in tests."""
    return {
        member_id: " ".join(f"{topic}-{number}" for topic, number in partitions)
        for member_id, partitions in assignment.items()
    }


def drawn(assignor: str, topics: Mapping[str, int], *members: MemberSubscription) -> Picture:
    """Return the assignment of these members by an assignor."""
    return picture(assign(assignor, topics, members))


def sizes(assignment: Assignment) -> dict[str, int]:
    """Return how many partitions everyone has."""
    return {member_id: len(partitions) for member_id, partitions in assignment.items()}


def next_round(members: Iterable[MemberSubscription], assignment: Assignment) -> list[MemberSubscription]:
    """Return the members as they rejoin: with what they were given, one generation on from the newest so far."""
    members = list(members)
    generation = max((one.generation for one in members), default=NO_GENERATION) + 1
    return [
        MemberSubscription(one.member_id, one.group_instance_id, one.topics, assignment[one.member_id], generation)
        for one in members
    ]


def readable(topics: Mapping[str, int], members: Sequence[MemberSubscription]) -> list[TopicPartition]:
    """Return every partition that has a subscriber."""
    wanted = {topic for one in members for topic in one.topics}
    return sorted(TopicPartition(topic, number) for topic in wanted for number in range(topics.get(topic, 0)))
