"""The best loads that subscriptions allow: those that no chain of moves makes more even.

A load is a member's number of partitions. Only subscribers of a topic may own its partitions, and partitions of one
topic are interchangeable, so an assignment is a number for each member and topic here.

Rules:

* A *chain* passes one partition from a member to a second one, which passes a partition of another topic on, and so
  forth. The first member has one less afterwards, the last has one more, and no other load changes.
* A chain is an improvement if its first member has at least two more than its last. Without such a chain, the sum of
  the squared loads is minimal, and so is the largest load, the second largest, and every other measure that grows
  faster than the load does. All such assignments have the same loads, possibly for different members.

Source: Harvey, Ladner, Lovász, Tamir: "Semi-matchings for bipartite graphs and load balancing", on cost-reducing paths.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain

Shares = list[dict[str, int]]
"""For each member, by position: topic → how many partitions."""
Holders = dict[str, set[int]]
"""Topic → the members that have some of its partitions."""


@dataclass(frozen=True, slots=True)
class AssignmentProblem:
    """The partitions and subscribers of an assignment.

    `counts` has each topic's partitions, `takers` the positions of its subscribers; every topic has some.
    """

    counts: Mapping[str, int]
    takers: Mapping[str, Sequence[int]]
    member_count: int

    def is_uniform(self) -> bool:
        """Return whether every member subscribes to every topic."""
        return all(len(takers) == self.member_count for takers in self.takers.values())


def best_loads(wanted: AssignmentProblem) -> list[int]:
    """Return the loads of a best assignment, largest first."""
    if wanted.is_uniform() and wanted.member_count:
        small, larger_count = divmod(sum(wanted.counts.values()), wanted.member_count)
        return [small + 1] * larger_count + [small] * (wanted.member_count - larger_count)
    return sorted(best_spread(wanted, [{} for _ in range(wanted.member_count)]).loads, reverse=True)


def best_spread(wanted: AssignmentProblem, kept: Shares) -> "Spread":
    """Return a best assignment reached from `kept`, which must have no partition twice or with a non-subscriber."""
    spread = Spread(wanted, kept)
    spread.give_out()
    spread.even_out()
    return spread


class Spread:
    """A changing assignment: how many partitions of each topic each member has."""

    def __init__(self, wanted: AssignmentProblem, shares: Shares) -> None:
        self._wanted = wanted
        self.shares = [dict(share) for share in shares]
        self.loads = [sum(share.values()) for share in shares]
        self.topics_of: list[list[str]] = [[] for _ in shares]
        for topic, takers in wanted.takers.items():
            for taker in takers:
                self.topics_of[taker].append(topic)

    def give_out(self) -> None:
        """Assign free partitions to the subscriber with the smallest load, topics with few subscribers first."""
        held = Counter[str]()
        for share in self.shares:
            held.update(share)
        for topic in sorted(self._wanted.counts, key=lambda topic: (len(self._wanted.takers[topic]), topic)):
            queue = [(self.loads[taker], taker) for taker in self._wanted.takers[topic]]
            heapify(queue)
            for _ in range(self._wanted.counts[topic] - held[topic]):
                load, taker = queue[0]
                self._add(taker, topic, 1)
                heapreplace(queue, (load + 1, taker))

    def even_out(self) -> None:
        """Move partitions along chains until no chain is an improvement.

        If none to the member with the smallest load is one, then none to those from which chains lead to it is either.
        They are settled, with their topics: a chain that passes them leads to that member too, so it never improves.
        """
        holders = self._holders()
        settled: set[int] = set()
        waiting = [(load, member) for member, load in enumerate(self.loads)]
        heapify(waiting)
        while waiting:
            load, last = heappop(waiting)
            if last in settled or load != self.loads[last]:
                continue
            givers = self._givers(last, holders)
            first = max(givers, key=self.loads.__getitem__)
            if self.loads[first] < load + 2:
                settled |= givers.keys()
                for topic in chain.from_iterable(self.topics_of[giver] for giver in givers):
                    holders.pop(topic, None)
                continue
            self._pass_on(first, last, givers, holders)
            for member in (first, last):
                heappush(waiting, (self.loads[member], member))

    def _holders(self) -> Holders:
        holders: Holders = {topic: set() for topic in self._wanted.takers}
        for member, share in enumerate(self.shares):
            for topic, count in share.items():
                if count:
                    holders[topic].add(member)
        return holders

    def _givers(self, last: int, holders: Holders) -> dict[int, tuple[str, int]]:
        """Return every member from which a chain leads to `last`: the topic that it passes on, and to which member."""
        found: dict[int, tuple[str, int]] = {last: ("", last)}
        seen: set[str] = set()
        queue = deque([last])
        while queue:
            taker = queue.popleft()
            for topic in self.topics_of[taker]:
                if topic in seen:
                    continue
                seen.add(topic)
                for giver in holders.get(topic, ()):
                    if giver not in found:
                        found[giver] = (topic, taker)
                        queue.append(giver)
        return found

    def _pass_on(self, first: int, last: int, givers: Mapping[int, tuple[str, int]], holders: Holders) -> None:
        """Move as many partitions along the chain as make its ends more even, and as every member of it has."""
        steps = []
        giver = first
        while giver != last:
            topic, taker = givers[giver]
            steps.append((giver, topic, taker))
            giver = taker
        scarcest = min(self.shares[giver][topic] for giver, topic, _ in steps)
        count = min((self.loads[first] - self.loads[last]) // 2, scarcest)
        for giver, topic, taker in steps:
            self._add(giver, topic, -count)
            self._add(taker, topic, count)
            holders[topic].add(taker)
            if not self.shares[giver][topic]:
                holders[topic].remove(giver)

    def move(self, giver: int, topic: str, taker: int) -> None:
        """Move one partition."""
        self._add(giver, topic, -1)
        self._add(taker, topic, 1)

    def _add(self, member: int, topic: str, count: int) -> None:
        self.shares[member][topic] = self.shares[member].get(topic, 0) + count
        self.loads[member] += count
