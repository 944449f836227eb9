"""An assignment is as good as it could be, or it is told how far from that it is: from 100 down to 0.

Rules:

* What counts are the partitions of topics that some member subscribes to: those of the catalogue, and those that are
  held beside them. A topic that the catalogue does not know has the partitions that are held.
* The best is what `fair_loads` says. *Misplaced* are the partitions that members have beyond their share at best (loads
  are compared the largest with the largest), or that lack in somebody's share because nobody holds them, whichever
  are more; and at least those that are held by somebody who does not subscribe.
* score = 100 * (partitions - misplaced) / partitions, rounded down: 100 means that nothing better exists, however
  uneven it is. Where there is nothing to share out the score is 100.
* A topic is judged as everything else lies: its best is what its subscribers come to if this topic alone is shared out
  anew. So an assignment may be improved although none of its topics can be by itself.
* A partition has *moved* with the present generation if it was given to its holder then, and somebody else held it in
  the generation before. Moves were *needed* where the former holder is gone, or subscribes no more, and as far as the
  best loads cannot be had otherwise (see `fewest_moves`); of a topic by itself only the former are told.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Final, Literal

from coordinator_core.protocol.log_ends import added_up
from coordinator_core.protocol.reports.fair_loads import Wanted, best_loads
from coordinator_core.protocol.reports.fewest_moves import fewest_moves

BEST_SCORE: Final = 100

Partition = tuple[str, int]
Trend = Literal["first", "better", "worse", "same"]


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """A member: what it subscribes to, what it holds, and in which generation it was given each of these."""

    member_id: str
    topics: frozenset[str]
    held: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group that is Stable, as of its present generation."""

    generation: int
    members: Sequence[MemberFacts]
    catalogue: Mapping[str, int]
    """Topic → how many partitions; topics that nobody reads may be among them."""
    lags: Mapping[Partition, int]
    """Records not yet read, where the partition's end is known."""
    lost: Mapping[Partition, str]
    """Who lost a partition between the generation before and this one, the last of several."""


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly partitions and lag are spread over members; lag is None where no partition's end is known."""

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
    """What is told of a group, and of each topic that somebody reads, by name."""

    group: Balance
    topics: Mapping[str, Balance]


def audit(facts: GroupFacts) -> Audit:
    """Judge a group's assignment."""
    picture = _Picture(facts)
    return Audit(picture.whole(), {topic: picture.of_topic(topic) for topic in picture.wanted})


def score_of(partitions: int, misplaced: int) -> int:
    """Return the score of an assignment, from 0 to 100."""
    return BEST_SCORE * max(0, partitions - misplaced) // partitions if partitions else BEST_SCORE


def trend_of(score: int, before: int | None) -> Trend:
    """Compare a score with that of the audit before; None: there was none."""
    if before is None:
        return "first"
    return "same" if score == before else "better" if score > before else "worse"


class _Picture:
    """The group in the numbers that its audit asks for; members are positions here."""

    def __init__(self, facts: GroupFacts) -> None:
        self._facts = facts
        self._members = facts.members
        self.takers = _takers(facts.members)
        self.wanted = {topic: _partitions_of(topic, facts) for topic in sorted(self.takers)}
        self._counts = [Counter(topic for topic, _ in member.held if topic in self.takers) for member in facts.members]
        self._loads = [counts.total() for counts in self._counts]
        self._holders = _holders(facts.members)
        self._former = self._held_before()
        self._known_lags = [_lag_by_topic(member, facts.lags) for member in facts.members]

    def whole(self) -> Balance:
        """Judge the whole assignment."""
        counts = {topic: len(partitions) for topic, partitions in self.wanted.items() if partitions}
        wanted = Wanted(counts, {topic: self.takers[topic] for topic in counts}, len(self._members))
        best = best_loads(wanted)
        moves = sum(map(self._gone, self.wanted)) + fewest_moves(wanted, self._kept_before())
        return self._told(self.wanted, range(len(self._members)), self._loads, best, max(best, default=0), moves)

    def of_topic(self, topic: str) -> Balance:
        """Judge one topic, as everything else lies."""
        takers = self.takers[topic]
        others = [self._loads[taker] - self._counts[taker][topic] for taker in takers]
        shares = _poured(others, len(self.wanted[topic]))
        best = [other + share for other, share in zip(others, shares, strict=True)]
        now = [self._loads[taker] for taker in takers]
        return self._told([topic], takers, now, best, max(shares), self._gone(topic))

    def _told(
        self,
        topics: Collection[str],
        takers: Sequence[int],
        loads: Iterable[int],
        best: Iterable[int],
        best_max: int,
        moves_needed: int,
    ) -> Balance:
        shares = [sum(self._counts[taker][topic] for topic in topics) for taker in takers]
        partitions = sum(len(self.wanted[topic]) for topic in topics)
        misplaced = max(_apart(loads, best), sum(map(self._strangers, topics)))
        lags = self._lags(topics, takers)
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

    def _lags(self, topics: Collection[str], takers: Sequence[int]) -> list[int]:
        """Return each member's lag, where any is known."""
        of_takers = [self._known_lags[taker] for taker in takers]
        known = [[lags[topic] for topic in topics if topic in lags] for lags in of_takers]
        return [added_up(lags) for lags in known] if any(known) else []

    def _strangers(self, topic: str) -> int:
        """Count the topic's partitions that are held by somebody who does not subscribe to it."""
        takers = frozenset(self.takers[topic])
        return sum(counts[topic] for member, counts in enumerate(self._counts) if member not in takers)

    # -- what was before -----------------------------------------------------------------------------------------

    def _held_before(self) -> dict[str, dict[int, str]]:
        """Return who held what in the generation before: topic → partition → member id."""
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

    def _gone(self, topic: str) -> int:
        """Count the partitions whose former holder is gone, or subscribes no more."""
        present = {self._members[taker].member_id for taker in self.takers[topic]}
        former = self._former.get(topic, {})
        return sum(number in former and former[number] not in present for number in self.wanted[topic])

    def _kept_before(self) -> list[dict[str, int]]:
        """Return how much of each topic each member held before, and may still have."""
        positions = {member.member_id: position for position, member in enumerate(self._members)}
        held: list[dict[str, int]] = [{} for _ in self._members]
        for topic, numbers in self.wanted.items():
            takers = frozenset(self.takers[topic])
            for number, member_id in self._former.get(topic, {}).items():
                position = positions.get(member_id)
                if number in numbers and position in takers:
                    assert position is not None, "nobody is not among the takers"
                    held[position][topic] = held[position].get(topic, 0) + 1
        return held


def _takers(members: Sequence[MemberFacts]) -> dict[str, list[int]]:
    takers: dict[str, list[int]] = {}
    for position, member in enumerate(members):
        for topic in member.topics:
            takers.setdefault(topic, []).append(position)
    return takers


def _lag_by_topic(member: MemberFacts, lags: Mapping[Partition, int]) -> dict[str, int]:
    """Return a member's lag a topic, of topics of which some end is known."""
    by_topic: dict[str, int] = {}
    for partition in member.held.keys() & lags.keys():
        by_topic[partition[0]] = by_topic.get(partition[0], 0) + lags[partition]
    return by_topic


def _holders(members: Sequence[MemberFacts]) -> dict[str, dict[int, str]]:
    """Return who holds what: topic → partition → member id."""
    holders: dict[str, dict[int, str]] = {}
    for member in members:
        for topic, number in member.held:
            holders.setdefault(topic, {})[number] = member.member_id
    return holders


def _partitions_of(topic: str, facts: GroupFacts) -> frozenset[int]:
    held = {number for member in facts.members for of, number in member.held if of == topic}
    return frozenset(range(facts.catalogue.get(topic, 0))) | held


def _poured(loads: Sequence[int], count: int) -> list[int]:
    """Return what each gets if every next partition goes to whoever has least then, of equals to who got least."""
    shares = [0] * len(loads)
    queue = [(load, 0, taker) for taker, load in enumerate(loads)]
    heapify(queue)
    for _ in range(count):
        load, share, taker = queue[0]
        shares[taker] = share + 1
        heapreplace(queue, (load + 1, share + 1, taker))
    return shares


def _apart(loads: Iterable[int], best: Iterable[int]) -> int:
    """Return how many partitions lie beyond the shares at best, or lack in them, whichever are more."""
    pairs = list(zip(sorted(loads), sorted(best), strict=True))
    beyond = sum(max(0, load - share) for load, share in pairs)
    lacking = sum(max(0, share - load) for load, share in pairs)
    return max(beyond, lacking)


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
