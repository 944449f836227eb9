"""The sticky assignment of members with different subscriptions: single moves until none makes two loads more even.

Balanced means: no partition is with a member that has at least two more than another subscriber of its topic. Chains
of moves could sometimes get further; Kafka does not look for them either.

Rules:

1. Members keep what they own and still subscribe to.
2. The rest is assigned, topics with few subscribers first, then by name and number, each partition to the subscriber
   with the smallest load; among equals to the first by member id.
3. In the same order, each partition moves to a subscriber that has at least two fewer than its owner, if there is
   one: to its owner in an earlier generation, or else to the one with the smallest load. This repeats until nothing
   moves. At first only the partitions of rule 2 may move, unless a member gave a topic up; then all may.
4. If a partition is to move to a member that lost another one of the topic to the very member that owns it now, the two
   do not cross: that other one moves back instead, if its present owner also has at least two more.

Every move is to a member that has at least two fewer, so the sum of the squared loads falls with each, and the
repetition ends.

Source: the general algorithm of Kafka's ``AbstractStickyAssignor``. There rule 4 picks by hash order without the
condition, so it can make a balance worse; and rule 3 can move a partition to a former owner that no longer subscribes
to it. Neither is followed.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from coordinator_core.assignors.claims import Claims, previous_owners
from coordinator_core.assignors.group_spec import GroupSpec, Shares, TopicPartition

NO_OWNER = -1

Numbers = Mapping[str, Sequence[int]]
"""Partition numbers by topic, both in the order in which they are handled."""


def general_assignment(group_spec: GroupSpec, claims: Claims) -> Shares:
    """Assign all partitions to members with different subscriptions."""
    assignment = _CurrentAssignment(group_spec)
    has_revoked = assignment.keep(claims)
    free = assignment.assign_unassigned()
    moves = _Reassignment(assignment, previous_owners(group_spec))
    if not has_revoked:
        moves.balance(free)
    moves.balance({topic: range(len(holders)) for topic, holders in assignment.holders.items()})
    return assignment.shares()


class _CurrentAssignment:
    """The assignment so far, with the loads.

    A member is its rank by member id here, so that (size, rank) sorts as rule 2 chooses.
    """

    def __init__(self, group_spec: GroupSpec) -> None:
        self._positions = group_spec.by_member_id
        self.ranks = {position: rank for rank, position in enumerate(group_spec.by_member_id)}
        by_scarcity = sorted(group_spec.counts, key=lambda topic: len(group_spec.subscribers[topic]))
        self.takers = {
            topic: [self.ranks[subscriber] for subscriber in group_spec.subscribers[topic]] for topic in by_scarcity
        }
        self._subscribed = {topic: frozenset(takers) for topic, takers in self.takers.items()}
        self.holders = {topic: [NO_OWNER] * group_spec.counts[topic] for topic in by_scarcity}
        self.sizes = [0] * len(group_spec.members)

    def is_subscribed(self, position: int, topic: str) -> bool:
        """Return whether the member at that position subscribes to the topic."""
        return self.ranks[position] in self._subscribed[topic]

    def keep(self, claims: Claims) -> bool:
        """Keep what members own and subscribe to; return whether a member owns what it no longer subscribes to."""
        has_revoked = False
        for (topic, number), position in claims.holders.items():
            if self.is_subscribed(position, topic):
                rank = self.ranks[position]
                self.holders[topic][number] = rank
                self.sizes[rank] += 1
            else:
                has_revoked = True
        return has_revoked

    def assign_unassigned(self) -> Numbers:
        """Assign each free partition to the subscriber with the smallest load, and return all of them."""
        free = {}
        for topic, holders in self.holders.items():
            free[topic] = [number for number, holder in enumerate(holders) if holder == NO_OWNER]
            queue = self.queue(topic) if free[topic] else []
            for number in free[topic]:
                size, subscriber = queue[0]
                holders[number] = subscriber
                self.sizes[subscriber] = size + 1
                heapreplace(queue, (size + 1, subscriber))
        return free

    def queue(self, topic: str) -> list[tuple[int, int]]:
        """Return a heap of (size, rank) of the topic's subscribers."""
        queue = [(self.sizes[subscriber], subscriber) for subscriber in self.takers[topic]]
        heapify(queue)
        return queue

    def shares(self) -> Shares:
        """Return every member's partitions, by position."""
        shares: Shares = [[] for _ in self.sizes]
        for topic, holders in self.holders.items():
            for number, rank in enumerate(holders):
                shares[self._positions[rank]].append(TopicPartition(topic, number))
        return shares


class _Reassignment:
    """The moves made so far, and further ones.

    `_origins` has the original owner of each partition that has moved; `_away` has the numbers of those by topic,
    origin and present owner, the earliest move first.
    """

    def __init__(self, assignment: _CurrentAssignment, previous: Mapping[TopicPartition, int]) -> None:
        self._assignment = assignment
        self._sizes = assignment.sizes
        self._previous = {
            partition: assignment.ranks[position]
            for partition, position in previous.items()
            if assignment.is_subscribed(position, partition.topic)
        }
        self._origins: dict[tuple[str, int], int] = {}
        self._away: dict[tuple[str, int, int], dict[int, None]] = {}

    def balance(self, partitions: Numbers) -> None:
        """Pass over the partitions until a pass moves none."""
        has_moved = True
        while has_moved:
            has_moved = False
            for topic, numbers in partitions.items():
                has_moved |= self._pass_over(topic, numbers)

    def _pass_over(self, topic: str, numbers: Sequence[int]) -> bool:
        """Move a topic's partitions where that is an improvement; return whether any moved."""
        if not self._may_improve(topic, numbers):
            return False
        holders, sizes = self._assignment.holders[topic], self._sizes
        queue = self._assignment.queue(topic)
        has_moved = False
        for number in numbers:
            while queue[0][0] != sizes[queue[0][1]]:
                heappop(queue)
            target = self._target(topic, number, queue[0][1])
            if target != holders[number]:
                for changed in self._move(topic, number, target):
                    heappush(queue, (sizes[changed], changed))
                has_moved = True
        return has_moved

    def _may_improve(self, topic: str, numbers: Sequence[int]) -> bool:
        """Return whether the largest and the smallest load differ by two, which is a quick check."""
        holders, sizes = self._assignment.holders[topic], self._sizes
        fullest = max((sizes[holders[number]] for number in numbers), default=0)
        return fullest > min(sizes[subscriber] for subscriber in self._assignment.takers[topic]) + 1

    def _target(self, topic: str, number: int, least: int) -> int:
        """Return the partition's best owner: a former one, the subscriber with least, or the present one."""
        holder = self._assignment.holders[topic][number]
        previous = self._previous.get(TopicPartition(topic, number), NO_OWNER)
        if previous != NO_OWNER and self._improves(holder, previous):
            return previous
        return least if self._improves(holder, least) else holder

    def _improves(self, holder: int, target: int) -> bool:
        return self._sizes[holder] > self._sizes[target] + 1

    def _move(self, topic: str, number: int, target: int) -> tuple[int, int]:
        """Move the partition, or by rule 4 another; return the two members that changed."""
        holders = self._assignment.holders[topic]
        origin = self._origins.get((topic, number), holders[number])
        swap = self._away.get((topic, target, origin))
        if swap and self._improves(origin, target):
            number = next(iter(swap))
        source = holders[number]
        self._record_move(topic, number, source, target)
        holders[number] = target
        self._sizes[source] -= 1
        self._sizes[target] += 1
        return source, target

    def _record_move(self, topic: str, number: int, source: int, target: int) -> None:
        origin = self._origins.pop((topic, number), source)
        if origin != source:
            del self._away[topic, origin, source][number]
        if origin != target:
            self._origins[topic, number] = origin
            self._away.setdefault((topic, origin, target), {})[number] = None
