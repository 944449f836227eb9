"""History boiled down to counts, so that a group of any size is a few numbers a day, whoever counts them.

The counts of days, or of parts of a group, add up to those of the whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator_core.protocol.advice.steps import BEYOND

GAP_BOUNDS_MS: Final = tuple(1 << power for power in range(22))
"""Gaps between signs of life are counted by these bounds, each beyond the bound before; last come longer ones."""

COMPLETED: Final = "completed"
"""The outcome of a rebalance that ended with the group Stable."""
BY_MEMBERS: Final = ("member_joined", "member_left", "session_expired")
"""Triggers of rebalances that a member's absence and return bring."""

NO_GAPS: Final = (0,) * (len(GAP_BOUNDS_MS) + 1)
NO_STEPS: Final = (0,) * (BEYOND + 1)


@dataclass(frozen=True, slots=True)
class Day:
    """What one day tells of silences."""

    day: int
    """Days since the epoch, in UTC."""
    heartbeats: int = 0
    gaps: tuple[int, ...] = NO_GAPS
    """How many gaps that a sign of life ended, by GAP_BOUNDS_MS."""
    longest_gap_ms: int = 0
    silences: tuple[int, ...] = NO_STEPS
    """Spurious evictions, by the step that would have covered the whole silence."""
    failures: int = 0
    failures_limit_ms: int = 0
    """The session timeouts under which the failures were seen, added up."""

    @property
    def spurious(self) -> int:
        """Return how many were put out in vain."""
        return sum(self.silences)


@dataclass(frozen=True, slots=True)
class Rejoins:
    """How long groups waited for members that they had, by steps."""

    counts: tuple[int, ...] = NO_STEPS
    """Rejoins of live members by how long they took, those of members that were evicted and joined later as well."""
    late: tuple[int, ...] = NO_STEPS
    """Those of them that were evicted first; beyond the steps, those that were live and did not join again."""
    no_shows: int = 0
    """Members that were evicted at the limit, were not live, and did not join again."""
    waits: tuple[int, ...] = NO_STEPS
    """Rebalances by how long they waited for their slowest member."""
    needed: tuple[int, ...] = NO_STEPS
    """The same by how long they would have without a limit; beyond the steps, for a member that never joined."""


@dataclass(frozen=True, slots=True)
class Rebalances:
    """A group's rebalances as a whole."""

    count: int = 0
    took_ms: int = 0
    """All of them together."""
    completed: int = 0
    partitions_moved: int = 0
    by_members: int = 0
    """Those that a member triggered which joined, left or expired."""
    restarts: int = 0
    """Members without an instance id that left or died, and whose client was back within its session timeout."""

    @property
    def mean_ms(self) -> int:
        """Return how long a rebalance takes on average."""
        return self.took_ms // self.count if self.count else 0


@dataclass(frozen=True, slots=True)
class Startups:
    """How groups came together from nothing."""

    starts: int = 0
    alone: int = 0
    """Starts that no newcomer followed with a rebalance of its own."""
    last_comers: tuple[int, ...] = NO_STEPS
    """The other starts, by when the last such newcomer came."""
    followers: tuple[int, ...] = NO_STEPS
    """Rebalances that newcomers caused after a start, by when."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a group; a day at most once, in order."""

    days: tuple[Day, ...] = ()
    rejoins: Rejoins = field(default_factory=Rejoins)
    startups: Startups = field(default_factory=Startups)
    rebalances: Rebalances = field(default_factory=Rebalances)


def rejoins_of(
    in_time: tuple[int, ...],
    late: tuple[int, ...],
    no_shows: int,
    waits: tuple[int, ...],
    stalls: Iterable[tuple[int, int, int]],
) -> Rejoins:
    """Put together what is known of rejoins.

    Args:
        in_time: rejoins of members that were not evicted, by steps.
        late: rejoins of live members that were evicted at the limit, by steps.
        no_shows: members that were evicted there, were not live, and did not join again.
        waits: rebalances by how long they waited for their slowest member.
        stalls: join phases that reached the limit: the place of the limit, the place of what their slowest member
            needed, and how many.
    """
    needed = list(waits)
    for limit_place, needed_place, count in stalls:
        needed[limit_place] = max(0, needed[limit_place] - count)
        needed[needed_place] += count
    return Rejoins(_sums(in_time, late), late, no_shows, waits, tuple(needed))


def span_days(days: Sequence[Day]) -> int:
    """Return how many days there are from the first that is known to the last."""
    return days[-1].day - days[0].day + 1 if days else 0


def merged(days: Iterable[Day]) -> tuple[Day, ...]:
    """Return days in order, what was counted apart of one day added up."""
    found: dict[int, Day] = {}
    for day in days:
        found[day.day] = _added(found[day.day], day) if day.day in found else day
    return tuple(found[number] for number in sorted(found))


def _added(one: Day, other: Day) -> Day:
    return Day(
        day=one.day,
        heartbeats=one.heartbeats + other.heartbeats,
        gaps=_sums(one.gaps, other.gaps),
        longest_gap_ms=max(one.longest_gap_ms, other.longest_gap_ms),
        silences=_sums(one.silences, other.silences),
        failures=one.failures + other.failures,
        failures_limit_ms=one.failures_limit_ms + other.failures_limit_ms,
    )


def _sums(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))
