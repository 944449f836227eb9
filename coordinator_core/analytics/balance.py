"""Audit of an assignment: a score from 0 to 100 for how close it is to the best that subscriptions allow.

Rules:

* The partitions that count are those of topics that some member subscribes to, from the topic metadata, and any other
  partition that a member owns. A topic without metadata has the owned partitions.
* The best loads are those of `best_loads`. *Misplaced* partitions are those that members own beyond their best share
  (loads are compared largest with largest), or those that a share lacks because they have no owner, whichever are
  more; and at least those owned by members that do not subscribe.
* score = 100 * (partitions - misplaced) / partitions, rounded down: 100 means that no better assignment exists,
  however uneven it is. Without partitions the score is 100.
* A topic is judged with all other topics fixed: its best is what its subscribers get if only this topic is assigned
  anew. So an assignment may be improvable although none of its topics is by itself.
* A partition has *moved* with the current generation if its owner received it then, and another member owned it in
  the generation before, or gave it up with that one, as cooperative assignors have it. A move was *needed* if the
  former owner left or no longer subscribes, or if the best loads cannot be reached otherwise (see `fewest_moves`); a
  topic by itself counts only the former.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Final, Literal

from coordinator_core.analytics.best_loads import AssignmentProblem, best_loads
from coordinator_core.analytics.fewest_moves import fewest_moves
from coordinator_core.protocol.log_ends import sum_lags

BEST_SCORE: Final = 100

Partition = tuple[str, int]
Trend = Literal["first", "better", "worse", "same"]


@dataclass(frozen=True, slots=True)
class AuditedMember:
    """A member: its subscription, its partitions, and the generation in which it received each of them."""

    member_id: str
    topics: frozenset[str]
    held: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class AuditedGroup:
    """A Stable group, as of its current generation."""

    generation: int
    members: Sequence[AuditedMember]
    topic_partitions: Mapping[str, int]
    """Topic → how many partitions; topics without subscribers may be among them."""
    lags: Mapping[Partition, int]
    """The lag in records, of partitions whose end is known."""
    lost: Mapping[Partition, str]
    """The last owner that lost each partition with the previous generation or after it."""


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly partitions and lag are spread over members; lag is None if no partition's end is known."""

    members: int
    idle_members: int
    partitions: int
    unassigned: int
    partitions_max: int
    partitions_mean: float
    lag_max: int | None
    lag_mean: float | None
    best_partitions_max: int
    misplaced: int
    has_better: bool
    score: int
    moved: int
    moves_needed: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The results for a group, and for each subscribed topic, by name."""

    group: Balance
    topics: Mapping[str, Balance]


def audit(facts: AuditedGroup) -> Audit:
    """Audit a group's assignment."""
    group_audit = _GroupAudit(facts)
    return Audit(group_audit.whole(), {topic: group_audit.of_topic(topic) for topic in group_audit.wanted})


def score_of(partitions: int, misplaced: int) -> int:
    """Return the score of an assignment, from 0 to 100."""
    return BEST_SCORE * max(0, partitions - misplaced) // partitions if partitions else BEST_SCORE


def trend_of(score: int, before: int | None) -> Trend:
    """Compare a score with that of the previous audit; None: there was none."""
    if before is None:
        return "first"
    return "same" if score == before else "better" if score > before else "worse"


class _GroupAudit:
    """The group as numbers; members are positions here."""

    def __init__(self, facts: AuditedGroup) -> None:
        self._facts = facts
        self._members = facts.members
        self.takers = _takers(facts.members)
        self._holders = _holders(facts.members)
        self.wanted = {
            topic: frozenset(range(facts.topic_partitions.get(topic, 0))).union(self._holders.get(topic, ()))
            for topic in sorted(self.takers)
        }
        self._counts = [Counter(topic for topic, _ in member.held if topic in self.takers) for member in facts.members]
        self._loads = [counts.total() for counts in self._counts]
        self._unsubscribed = Counter(
            topic
            for member, counts in zip(facts.members, self._counts, strict=True)
            for topic in counts.elements()
            if topic not in member.topics
        )
        """Topic → how many of its partitions are owned by members that do not subscribe to it."""
        self._former = self._held_before()
        self._known_lags = [self._lag_by_topic(member) for member in facts.members]

    def whole(self) -> Balance:
        """Audit the whole assignment."""
        counts = {topic: len(partitions) for topic, partitions in self.wanted.items() if partitions}
        wanted = AssignmentProblem(counts, {topic: self.takers[topic] for topic in counts}, len(self._members))
        best = best_loads(wanted)
        moves = sum(map(self._owners_gone, self.wanted)) + fewest_moves(wanted, self._kept_before())
        lags = [list(lags.values()) for lags in self._known_lags]
        return self._balance(self.wanted, self._loads, lags, self._loads, best, max(best, default=0), moves)

    def of_topic(self, topic: str) -> Balance:
        """Audit one topic, with all others fixed."""
        takers = self.takers[topic]
        others = [self._loads[taker] - self._counts[taker][topic] for taker in takers]
        best_shares = _distribute(others, len(self.wanted[topic]))
        best = [other + share for other, share in zip(others, best_shares, strict=True)]
        now = [self._loads[taker] for taker in takers]
        shares = [self._counts[taker][topic] for taker in takers]
        lags = [[lags[topic]] if topic in (lags := self._known_lags[taker]) else [] for taker in takers]
        return self._balance([topic], shares, lags, now, best, max(best_shares), self._owners_gone(topic))

    def _balance(
        self,
        topics: Collection[str],
        shares: Sequence[int],
        known_lags: Sequence[Sequence[int]],
        loads: Iterable[int],
        best: Iterable[int],
        best_max: int,
        moves_needed: int,
    ) -> Balance:
        """Return the balance of some topics; the sequences have an entry for each of their members.

        Args:
            topics: the topics.
            shares: how many of their partitions the members own.
            known_lags: the lags of their partitions.
            loads: how many partitions of all topics the members own.
            best: how many they own at best.
            best_max: the most partitions of these topics of a member at best.
            moves_needed: how many moves were needed.
        """
        partitions = sum(len(self.wanted[topic]) for topic in topics)
        misplaced = max(_misplaced(loads, best), sum(self._unsubscribed[topic] for topic in topics))
        lags = list(map(sum_lags, known_lags)) if any(known_lags) else []
        return Balance(
            members=len(shares),
            idle_members=shares.count(0),
            partitions=partitions,
            unassigned=sum(len(self.wanted[topic] - self._holders.get(topic, {}).keys()) for topic in topics),
            partitions_max=max(shares, default=0),
            partitions_mean=_mean(shares),
            lag_max=max(lags) if lags else None,
            lag_mean=_mean(lags) if lags else None,
            best_partitions_max=best_max,
            misplaced=misplaced,
            has_better=misplaced > 0,
            score=score_of(partitions, misplaced),
            moved=sum(map(self._moved, topics)),
            moves_needed=moves_needed,
        )

    def _lag_by_topic(self, member: AuditedMember) -> dict[str, int]:
        """Return a member's lag by topic, of subscribed topics with a known end."""
        by_topic: dict[str, int] = {}
        for partition in member.held.keys() & self._facts.lags.keys():
            if partition[0] in self.takers:
                by_topic[partition[0]] = by_topic.get(partition[0], 0) + self._facts.lags[partition]
        return by_topic

    # -- what was before -----------------------------------------------------------------------------------------

    def _held_before(self) -> dict[str, dict[int, str]]:
        """Return the owners in the previous generation: topic → partition → member id."""
        former: dict[str, dict[int, str]] = {}
        for (topic, number), member_id in self._facts.lost.items():
            former.setdefault(topic, {})[number] = member_id
        for member in self._members:
            for (topic, number), generation in member.held.items():
                if generation < self._facts.generation:
                    former.setdefault(topic, {})[number] = member.member_id
        return former

    def _moved(self, topic: str) -> int:
        former = self._former.get(topic, {})
        return sum(former.get(number, holder) != holder for number, holder in self._holders.get(topic, {}).items())

    def _owners_gone(self, topic: str) -> int:
        """Count the partitions whose former owner left or no longer subscribes."""
        present = {self._members[taker].member_id for taker in self.takers[topic]}
        former = self._former.get(topic, {})
        return sum(number in former and former[number] not in present for number in self.wanted[topic])

    def _kept_before(self) -> list[dict[str, int]]:
        """Return how many partitions of each topic each member owned before, and may still own."""
        positions = {member.member_id: position for position, member in enumerate(self._members)}
        held: list[dict[str, int]] = [{} for _ in self._members]
        for topic, numbers in self.wanted.items():
            takers = frozenset(self.takers[topic])
            for number, member_id in self._former.get(topic, {}).items():
                position = positions.get(member_id)
                if number in numbers and position in takers:
                    assert position is not None, "None is not a subscriber"
                    held[position][topic] = held[position].get(topic, 0) + 1
        return held


def _takers(members: Sequence[AuditedMember]) -> dict[str, list[int]]:
    takers: dict[str, list[int]] = {}
    for position, member in enumerate(members):
        for topic in member.topics:
            takers.setdefault(topic, []).append(position)
    return takers


def _holders(members: Sequence[AuditedMember]) -> dict[str, dict[int, str]]:
    """Return the owners: topic → partition → member id."""
    holders: dict[str, dict[int, str]] = {}
    for member in members:
        for topic, number in member.held:
            holders.setdefault(topic, {})[number] = member.member_id
    return holders


def _distribute(loads: Sequence[int], count: int) -> list[int]:
    """Return the loads after `count` partitions went one by one to the smallest load, ties to the fewest received."""
    shares = [0] * len(loads)
    queue = [(load, 0, taker) for taker, load in enumerate(loads)]
    heapify(queue)
    for _ in range(count):
        load, share, taker = queue[0]
        shares[taker] = share + 1
        heapreplace(queue, (load + 1, share + 1, taker))
    return shares


def _misplaced(loads: Iterable[int], best: Iterable[int]) -> int:
    """Return how many partitions exceed the best shares, or are missing in them, whichever are more."""
    pairs = list(zip(sorted(loads), sorted(best), strict=True))
    beyond = sum(max(0, load - share) for load, share in pairs)
    lacking = sum(max(0, share - load) for load, share in pairs)
    return max(beyond, lacking)


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
