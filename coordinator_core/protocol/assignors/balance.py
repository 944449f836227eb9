"""Where subscriptions differ, partitions move one by one until no move would make two members more alike.

Balanced means: no partition is with a member that has at least two more than another subscriber of its topic. That
is as far as single moves get, and not always as far as a chain of them would, which Kafka does not seek either.

Rules:

1. Everyone keeps what it holds and still subscribes to.
2. The rest is given out, topics with few subscribers first, then by name and number, each partition to the
   subscriber with least; among equals to the first by member id.
3. In the same order, each partition moves to a subscriber that has at least two fewer than its holder, if there is
   one: to whoever held it in an earlier generation, or else to the one with least. This repeats until nothing moves.
   At first only what was given out just now may move, unless somebody gave a topic up; then everything may.
4. Where one is to move to a member that lost another of the topic to the very member this one comes from, the two do
   not cross: that other one goes back home instead, if whoever has it now also has at least two more.

Every move is to a member that has at least two fewer, so the sum of the squared sizes falls with each, and the
repetition ends.

Source: the general algorithm of Kafka's ``AbstractStickyAssignor``. There rule 4 picks by hash order and does not
ask for the condition, so that it can make a balance worse; and rule 3 can give a former holder what it does not
subscribe to any more. Neither is followed.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from coordinator_core.protocol.assignors.claims import Claims, former_holders
from coordinator_core.protocol.assignors.demand import Demand, Shares, TopicPartition

NOBODY = -1

Numbers = Mapping[str, Sequence[int]]
"""Partition numbers by topic, both in the order in which they are handled."""


def balance(demand: Demand, claims: Claims) -> Shares:
    """Share all partitions out among members that differ."""
    holdings = _Holdings(demand)
    has_given_up = holdings.keep(claims)
    free = holdings.give_out()
    moves = _Moves(holdings, former_holders(demand))
    if not has_given_up:
        moves.even_out(free)
    moves.even_out({topic: range(len(holders)) for topic, holders in holdings.holders.items()})
    return holdings.shares()


class _Holdings:
    """Who has what at the moment, and how much.

    A member is its rank by member id here, so that (size, rank) sorts as rule 2 chooses.
    """

    def __init__(self, demand: Demand) -> None:
        self._positions = demand.by_member_id
        self.ranks = {position: rank for rank, position in enumerate(demand.by_member_id)}
        by_scarcity = sorted(demand.counts, key=lambda topic: len(demand.subscribers[topic]))
        self.takers = {topic: [self.ranks[taker] for taker in demand.subscribers[topic]] for topic in by_scarcity}
        self._subscribed = {topic: frozenset(takers) for topic, takers in self.takers.items()}
        self.holders = {topic: [NOBODY] * demand.counts[topic] for topic in by_scarcity}
        self.sizes = [0] * len(demand.members)

    def may_have(self, position: int, topic: str) -> bool:
        """Tell whether the member at that position subscribes to the topic."""
        return self.ranks[position] in self._subscribed[topic]

    def keep(self, claims: Claims) -> bool:
        """Leave everyone what it holds and may hold; tell whether somebody holds what it no longer subscribes to."""
        has_given_up = False
        for (topic, number), position in claims.holders.items():
            if self.may_have(position, topic):
                rank = self.ranks[position]
                self.holders[topic][number] = rank
                self.sizes[rank] += 1
            else:
                has_given_up = True
        return has_given_up

    def give_out(self) -> Numbers:
        """Give each partition that nobody has to the subscriber with least, and return them all."""
        free = {}
        for topic, holders in self.holders.items():
            free[topic] = [number for number, holder in enumerate(holders) if holder == NOBODY]
            queue = self.queue(topic) if free[topic] else []
            for number in free[topic]:
                size, taker = queue[0]
                holders[number] = taker
                self.sizes[taker] = size + 1
                heapreplace(queue, (size + 1, taker))
        return free

    def queue(self, topic: str) -> list[tuple[int, int]]:
        """Return a heap of (size, rank) of the topic's subscribers."""
        queue = [(self.sizes[taker], taker) for taker in self.takers[topic]]
        heapify(queue)
        return queue

    def shares(self) -> Shares:
        """Return what everyone has, by position."""
        shares: Shares = [[] for _ in self.sizes]
        for topic, holders in self.holders.items():
            for number, rank in enumerate(holders):
                shares[self._positions[rank]].append(TopicPartition(topic, number))
        return shares


class _Moves:
    """The moves made so far, and the making of more.

    `_origins` says of each partition that is away from home where it was at first; `_away` has their numbers by topic,
    origin and present holder, those that left first in front.
    """

    def __init__(self, holdings: _Holdings, former: Mapping[TopicPartition, int]) -> None:
        self._holdings = holdings
        self._sizes = holdings.sizes
        self._former = {
            partition: holdings.ranks[position]
            for partition, position in former.items()
            if holdings.may_have(position, partition.topic)
        }
        self._origins: dict[tuple[str, int], int] = {}
        self._away: dict[tuple[str, int, int], dict[int, None]] = {}

    def even_out(self, partitions: Numbers) -> None:
        """Pass over the partitions until a pass moves none."""
        has_moved = True
        while has_moved:
            has_moved = False
            for topic, numbers in partitions.items():
                has_moved |= self._pass_over(topic, numbers)

    def _pass_over(self, topic: str, numbers: Sequence[int]) -> bool:
        """Move a topic's partitions where that is an improvement; tell whether any moved."""
        if not self._may_improve(topic, numbers):
            return False
        holders, sizes = self._holdings.holders[topic], self._sizes
        queue = self._holdings.queue(topic)
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
        """Tell whether the fullest holder and the emptiest subscriber are two apart, which is quicker to see."""
        holders, sizes = self._holdings.holders[topic], self._sizes
        fullest = max((sizes[holders[number]] for number in numbers), default=0)
        return fullest > min(sizes[taker] for taker in self._holdings.takers[topic]) + 1

    def _target(self, topic: str, number: int, least: int) -> int:
        """Return who should have the partition: a former holder, the subscriber with least, or who has it."""
        holder = self._holdings.holders[topic][number]
        former = self._former.get(TopicPartition(topic, number), NOBODY)
        if former != NOBODY and self._improves(holder, former):
            return former
        return least if self._improves(holder, least) else holder

    def _improves(self, holder: int, target: int) -> bool:
        return self._sizes[holder] > self._sizes[target] + 1

    def _move(self, topic: str, number: int, target: int) -> tuple[int, int]:
        """Move the partition, or by rule 4 another; return the two members that changed."""
        holders = self._holdings.holders[topic]
        origin = self._origins.get((topic, number), holders[number])
        crossing = self._away.get((topic, target, origin))
        if crossing and self._improves(origin, target):
            number = next(iter(crossing))
        source = holders[number]
        self._note(topic, number, source, target)
        holders[number] = target
        self._sizes[source] -= 1
        self._sizes[target] += 1
        return source, target

    def _note(self, topic: str, number: int, source: int, target: int) -> None:
        origin = self._origins.pop((topic, number), source)
        if origin != source:
            del self._away[topic, origin, source][number]
        if origin != target:
            self._origins[topic, number] = origin
            self._away.setdefault((topic, origin, target), {})[number] = None
