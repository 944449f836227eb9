"""Simulated histories with known truth: the heartbeat gaps of every member, and which members crashed.

A history does not depend on a timeout. What a coordinator records under one is `observed`; what any
timeout would have caused is `spurious_in_truth`. A seed determines everything.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random

from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS, Day
from coordinator_core.analytics.advice.policy import GRACE_MS
from coordinator_core.analytics.advice.steps import counted

FIRST_DAY = 20_400
HEARTBEAT_MS = 3_000
BEATS_A_DAY = 400
"""Of one member, fewer than there are: a test need not count to thirty thousand."""


@dataclass(frozen=True)
class History:
    """Long heartbeat gaps of live members, and number of crashes, by day."""

    members: int
    silences_ms: tuple[tuple[int, ...], ...]
    """A tuple a day."""
    deaths: tuple[int, ...]

    @property
    def days(self) -> int:
        return len(self.deaths)

    def last(self, days: int) -> "History":
        return History(self.members, self.silences_ms[-days:], self.deaths[-days:])


def spurious_in_truth(history: History, timeout_ms: int) -> int:
    """Return how many live members a timeout would have evicted."""
    return sum(length_ms > timeout_ms for day in history.silences_ms for length_ms in day)


def observed(history: History, timeout_ms: int) -> tuple[Day, ...]:
    """Return what a coordinator would have noted of a history, day by day, under a session timeout."""
    return tuple(
        _observed(FIRST_DAY + number, history.members, silences, deaths, timeout_ms)
        for number, (silences, deaths) in enumerate(zip(history.silences_ms, history.deaths, strict=True))
    )


def _observed(day: int, members: int, silences: Iterable[int], deaths: int, timeout_ms: int) -> Day:
    survived = [length_ms for length_ms in silences if length_ms <= timeout_ms]
    evicted = [length_ms for length_ms in silences if length_ms > timeout_ms]
    back = [length_ms for length_ms in evicted if length_ms <= timeout_ms + GRACE_MS]
    failures = deaths + len(evicted) - len(back)
    beats = members * BEATS_A_DAY
    return Day(
        day=day,
        heartbeats=beats + len(survived),
        gaps=gaps([HEARTBEAT_MS] * beats + survived),
        longest_gap_ms=max([HEARTBEAT_MS, *survived]),
        silences=counted(back),
        failures=failures,
        failures_limit_ms=failures * timeout_ms,
    )


def gaps(lengths_ms: Iterable[int]) -> tuple[int, ...]:
    """Return the number of gaps by doubling bounds: the slow twin of the ledger's counting."""
    counts = [0] * (len(GAP_BOUNDS_MS) + 1)
    known: dict[int, int] = {}
    for length_ms in lengths_ms:
        if length_ms not in known:
            known[length_ms] = next(
                (place for place, bound in enumerate(GAP_BOUNDS_MS) if length_ms <= bound), len(GAP_BOUNDS_MS)
            )
        counts[known[length_ms]] += 1
    return tuple(counts)


# -- kinds of groups ------------------------------------------------------------------------------------------

OneDay = Callable[[Random], tuple[list[int], int]]
"""Draws a day: the gaps of live members, and the number of crashes."""


def healthy(_: Random) -> tuple[list[int], int]:
    return [], 0


def flapping(chance: Random) -> tuple[list[int], int]:
    """One member's network goes several times a day, for a quarter of a minute."""
    return [chance.randint(12_000, 20_000) for _ in range(chance.randint(3, 8))], 0


def pausing(chance: Random) -> tuple[list[int], int]:
    """Members pause for garbage collection, sometimes for long."""
    return [int(min(30_000, 2_500 * chance.lognormvariate(0.8, 0.6))) for _ in range(chance.randint(4, 12))], 0


def stalling(chance: Random) -> tuple[list[int], int]:
    """Members hang for up to a minute, on a disk or a page file."""
    return [chance.randint(20_000, 60_000) for _ in range(chance.randint(1, 4))], 0


def dying(chance: Random) -> tuple[list[int], int]:
    """Members crash, and do not rejoin."""
    return [], chance.randint(1, 3)


def mixed(chance: Random) -> tuple[list[int], int]:
    """All of it at once."""
    drawn = [kind(chance) for kind in (flapping, pausing, dying)]
    return [length_ms for silences, _ in drawn for length_ms in silences], sum(deaths for _, deaths in drawn)


KINDS: Mapping[str, OneDay] = {kind.__name__: kind for kind in (healthy, flapping, pausing, stalling, dying, mixed)}


def history(kind: str, seed: int, days: int = 28, members: int = 4) -> History:
    """Return the history of a seed; the same every time."""
    chance = Random(f"{kind} {seed}")
    drawn = [KINDS[kind](chance) for _ in range(days)]
    return History(members, tuple(tuple(silences) for silences, _ in drawn), tuple(deaths for _, deaths in drawn))
