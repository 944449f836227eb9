"""History boiled down to counts, so that a group of any size is a few numbers a day, whoever counts them.

The counts of days, or of parts of a group, add up to those of the whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator_core.protocol.advice.steps import BEYOND

GAP_BOUNDS_MS: Final = tuple(1 << power for power in range(22))
"""Gaps between signs of life are counted by these bounds, each beyond the bound before; last come longer ones."""

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
    """How long groups waited for members that they had."""

    counts: tuple[int, ...] = NO_STEPS
    """Rejoins by how long they took, by steps; those of members that were put out and came later as well."""
    late: tuple[int, ...] = NO_STEPS
    """Those of them that came after they had been put out."""
    no_shows: int = 0
    """Members that were put out at the limit, and did not come back."""
    no_shows_limit_ms: int = 0
    """How long was waited for them, added up."""


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
