"""A group's history reduced to counts, which have the same size for a group of any size.

Counts of several days, or of parts of a group, add up to those of the whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator_core.analytics.advice.steps import BEYOND

GAP_BOUNDS_MS: Final = tuple(1 << power for power in range(22))
"""Upper bounds of the buckets in which gaps between heartbeats are counted, 1 ms to 2^21 ms (35 minutes); one more
bucket has the longer ones. The longest session timeout that members may request is 30 minutes by default."""

COMPLETED: Final = "completed"
"""The outcome of a rebalance that ended with the group Stable."""
BY_MEMBERS: Final = ("member_joined", "member_left", "session_expired", "member_left_or_expired")
"""Triggers of rebalances that a member's absence and return cause."""

SESSION_EXPIRED: Final = "session_expired"
REBALANCE_TIMEOUT: Final = "rebalance_timeout"
EXIT_REASONS: Final = ("left", "left_or_expired")
"""End reasons of members that left; in a mirror perhaps by a timeout, which its log does not say."""

NO_GAPS: Final = (0,) * (len(GAP_BOUNDS_MS) + 1)
NO_STEPS: Final = (0,) * (BEYOND + 1)


@dataclass(frozen=True, slots=True)
class Day:
    """The silences of one day."""

    day: int
    """Days since the epoch, in UTC."""
    heartbeats: int = 0
    gaps: tuple[int, ...] = NO_GAPS
    """How many gaps a heartbeat ended, by GAP_BOUNDS_MS."""
    longest_gap_ms: int = 0
    silences: tuple[int, ...] = NO_STEPS
    """Spurious evictions, by the step that would have covered the whole silence."""
    failures: int = 0
    failures_limit_ms: int = 0
    """The sum of the session timeouts under which the failures were detected."""

    @property
    def spurious(self) -> int:
        """Return the number of spurious evictions."""
        return sum(self.silences)


@dataclass(frozen=True, slots=True)
class Rejoins:
    """How long rebalances waited for existing members, by steps."""

    counts: tuple[int, ...] = NO_STEPS
    """Rejoins of live members by duration, including those of members that were evicted and joined later."""
    late: tuple[int, ...] = NO_STEPS
    """Those of them that were evicted first; beyond the steps, live members that did not join again."""
    no_shows: int = 0
    """Members that were evicted at the limit, were not live, and did not join again."""
    waits: tuple[int, ...] = NO_STEPS
    """Rebalances by how long they waited for their slowest member."""
    needed: tuple[int, ...] = NO_STEPS
    """Rebalances by how long that wait would be without a limit; beyond the steps, for a member that never joined."""


@dataclass(frozen=True, slots=True)
class Rebalances:
    """Totals of a group's rebalances."""

    count: int = 0
    took_ms: int = 0
    """The total duration."""
    completed: int = 0
    partitions_moved: int = 0
    by_members: int = 0
    """Rebalances triggered by a member that joined, left or expired."""
    restarts: int = 0
    """Members without an instance id that left or died, and whose client was back within its session timeout."""

    @property
    def mean_ms(self) -> int:
        """Return the average duration of a rebalance."""
        return self.took_ms // self.count if self.count else 0


@dataclass(frozen=True, slots=True)
class Startups:
    """How groups started from Empty."""

    starts: int = 0
    alone: int = 0
    """Starts without a later rebalance by a new member."""
    last_comers: tuple[int, ...] = NO_STEPS
    """The other starts, by when the last such member joined."""
    followers: tuple[int, ...] = NO_STEPS
    """Rebalances that new members caused after a start, by when."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A group's history; each day at most once, in order."""

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
    """Return rejoins built from counts.

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
    """Return the number of days from the first to the last, both included."""
    return days[-1].day - days[0].day + 1 if days else 0


def merged(days: Iterable[Day]) -> tuple[Day, ...]:
    """Return days in order, with the counts of the same day added up."""
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
