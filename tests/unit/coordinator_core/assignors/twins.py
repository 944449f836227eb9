"""Slow reference implementations of the assignors: each partition by itself, without state between steps.

Every function iterates over all members for every partition, so that its correctness is obvious.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, product

from coordinator_core.assignors import Assignment, MemberSubscription, TopicPartition
from tests.unit.coordinator_core.assignors.groups import readable

Members = Sequence[MemberSubscription]
Held = dict[TopicPartition, str]
"""Who has a partition, by member id."""


def in_order(members: Members) -> list[MemberSubscription]:
    """Return those with an instance id first, by it, then the others by member id."""
    static = [one for one in members if one.group_instance_id is not None]
    dynamic = [one for one in members if one.group_instance_id is None]
    static.sort(key=lambda one: str(one.group_instance_id))
    return static + sorted(dynamic, key=lambda one: one.member_id)


def assignment_of(held: Held, members: Members) -> Assignment:
    """Convert partition → owner into member → partitions."""
    return {
        one.member_id: tuple(sorted(each for each, holder in held.items() if holder == one.member_id))
        for one in members
    }


# -- range and round robin ------------------------------------------------------------------------


def slow_range(topics: Mapping[str, int], members: Members) -> Assignment:
    """Assign each partition to the member whose range contains its number."""
    held: Held = {}
    for topic, number in readable(topics, members):
        takers = [one for one in in_order(members) if topic in one.topics]
        end = 0
        for place, taker in enumerate(takers):
            end += topics[topic] // len(takers) + (1 if place < topics[topic] % len(takers) else 0)
            if number < end:
                held[TopicPartition(topic, number)] = taker.member_id
                break
    return assignment_of(held, members)


def slow_roundrobin(topics: Mapping[str, int], members: Members) -> Assignment:
    """Iterate over members in a circle: each subscriber gets the next partition."""
    held: Held = {}
    circle = in_order(members)
    for topic, number in readable(topics, members):
        while TopicPartition(topic, number) not in held:
            card_holder = circle.pop(0)
            circle.append(card_holder)
            if topic in card_holder.topics:
                held[TopicPartition(topic, number)] = card_holder.member_id
    return assignment_of(held, members)


# -- claims ---------------------------------------------------------------------------------------


def claimants(partition: TopicPartition, members: Members) -> list[MemberSubscription]:
    """Return the members that claim a partition as of the newest generation with a claim."""
    owners = [one for one in members if partition in one.owned_partitions]
    newest = max((one.generation for one in owners), default=0)
    return [one for one in owners if one.generation == newest]


def believed(topics: Mapping[str, int], members: Members) -> Held:
    """Return the owner of each partition with exactly one claimant of the newest generation."""
    held: Held = {}
    for partition in readable(topics, members):
        newest = claimants(partition, members)
        if len(newest) == 1:
            held[partition] = newest[0].member_id
    return held


def cooperative(sticky: Assignment, topics: Mapping[str, int], members: Members) -> Assignment:
    """Remove from a sticky assignment the partitions that another member claims."""
    held = believed(topics, members)
    return {
        member_id: tuple(each for each in share if not claimants(each, members) or held.get(each) == member_id)
        for member_id, share in sticky.items()
    }


# -- sticky ---------------------------------------------------------------------------------------


def most_that_can_be_kept(topics: Mapping[str, int], members: Members) -> int:
    """Return how many partitions may stay where they are in the best even division among members that are alike."""
    held = list(believed(topics, members).values())
    small, larger = divmod(len(readable(topics, members)), len(members))
    return max(
        sum(min(held.count(one.member_id), small + (one in lucky)) for one in members)
        for lucky in combinations(members, larger)
    )


def is_balanced(assignment: Assignment, members: Members) -> bool:
    """Return whether no partition could go to a subscriber that has at least two fewer than its holder."""
    return all(
        len(share) <= len(assignment[one.member_id]) + 1
        for share in assignment.values()
        for each in share
        for one in members
        if each.topic in one.topics
    )


def least_sum_of_squares(topics: Mapping[str, int], members: Members) -> int:
    """Return the sum of squared sizes of the most even of all assignments that there are."""
    takers = [[one.member_id for one in members if each.topic in one.topics] for each in readable(topics, members)]
    return min(sum(choice.count(one.member_id) ** 2 for one in members) for choice in product(*takers))


class SlowBalance:
    """The general sticky rule, with `min` over all members for each choice."""

    def __init__(self, topics: Mapping[str, int], members: Members) -> None:
        self._members = members
        self._held = believed(topics, members)
        self._home: Held = {}
        self._partitions = sorted(
            readable(topics, members), key=lambda each: (len(self._takers(each)), each.topic, each.partition)
        )

    def settle(self) -> Assignment:
        """Keep claims, assign the rest, then move partitions until no move improves the balance."""
        kept = {each: holder for each, holder in self._held.items() if holder in self._takers(each)}
        has_given_up = len(kept) < len(self._held)
        self._held = kept
        free = [each for each in self._partitions if each not in kept]
        for each in free:
            self._held[each] = self._least(each)
        for movable in [self._partitions] if has_given_up else [free, self._partitions]:
            while any([self._moves(each) for each in movable]):  # noqa: C419 - a pass goes over all, moved or not
                pass
        return assignment_of(self._held, self._members)

    def _takers(self, partition: TopicPartition) -> list[str]:
        return sorted(one.member_id for one in self._members if partition.topic in one.topics)

    def _size(self, member_id: str) -> int:
        return list(self._held.values()).count(member_id)

    def _least(self, partition: TopicPartition) -> str:
        return min(self._takers(partition), key=lambda member_id: (self._size(member_id), member_id))

    def _moves(self, partition: TopicPartition) -> bool:
        """Move a partition, or one of the same topic in exchange, if that balances two members."""
        holder = self._held[partition]
        for target in [*self._former(partition), self._least(partition)]:
            if self._size(holder) > self._size(target) + 1:
                moved = self._crossing(partition, target) or partition
                home = self._home.pop(moved, self._held[moved])
                self._held[moved] = target
                if home != target:
                    self._home[moved] = home
                return True
        return False

    def _crossing(self, partition: TopicPartition, target: str) -> TopicPartition | None:
        """Return a partition of the topic that is away from the target, where the given one was at first."""
        start = self._home.get(partition, self._held[partition])
        if self._size(start) <= self._size(target) + 1:
            return None
        return next(
            (
                each
                for each, home in self._home.items()
                if (each.topic, home, self._held[each]) == (partition.topic, target, start)
            ),
            None,
        )

    def _former(self, partition: TopicPartition) -> list[str]:
        """Return its owner in the newest generation before the group's newest, if that member may still own it."""
        newest = max(one.generation for one in self._members)
        earlier = [one for one in self._members if one.generation < newest and partition in one.owned_partitions]
        if not earlier:
            return []
        former = in_order([one for one in earlier if one.generation == max(each.generation for each in earlier)])[0]
        return [former.member_id] if partition.topic in former.topics else []
