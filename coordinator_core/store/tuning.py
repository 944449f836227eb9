"""What a group's past tells of its timeouts, as a store finds it, and as the rules of advice want it.

An eviction needed a timeout that is longer by what the member came too late: the one that put it out, and from then on
until it was back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from coordinator_core.protocol.advice.evidence import Day, Evidence, Rejoins, Startups, merged
from coordinator_core.protocol.advice.policy import Advice
from coordinator_core.protocol.advice.startup import followed
from coordinator_core.protocol.advice.steps import counted
from coordinator_core.protocol.advice.what_if import Eviction
from coordinator_core.store.rows import Json

DAY_MS: Final = 86_400_000

SESSION_EXPIRED: Final = "session_expired"
REBALANCE_TIMEOUT: Final = "rebalance_timeout"
BY_TIMEOUT: Final = (SESSION_EXPIRED, REBALANCE_TIMEOUT)
"""Ends of stays that a timeout brings, and another one might not have."""


@dataclass(frozen=True, slots=True)
class TuningQuestion:
    """Of which group, from when to when, and how much may be looked at."""

    group_id: str
    from_ms: int
    to_ms: int
    grace_ms: int
    max_rows: int
    """Rows of stays, and as many of rejoins, the newest."""
    max_evictions: int
    """Evictions, the newest."""

    def day_of(self, at_ms: int) -> int:
        """Return the number of an instant's day: -1 is the last 24 hours before `to_ms`, -2 the 24 before them.

        A calendar's last day would be some minutes old shortly after midnight, and advice put to the test on it.
        """
        return (at_ms - self.to_ms) // DAY_MS


@dataclass(frozen=True, slots=True)
class Start:
    """A rebalance, as far as start-ups are concerned."""

    started_at_ms: int
    joined_at_ms: int | None
    trigger: str
    restarts: int
    member_count_before: int


@dataclass(frozen=True, slots=True)
class StoredAdvice:
    """The newest row of `timeout_advice`."""

    run_id: str
    as_of_ms: int
    window_from_ms: int
    window_to_ms: int
    pieces: Mapping[str, Advice]
    """By what the columns' names begin with."""
    back_test: Json


@dataclass(frozen=True, slots=True)
class TuningPast:
    """What was found."""

    question: TuningQuestion
    from_ms: int
    """Later than asked where there was more than may be looked at."""
    days: tuple[Day, ...] = ()
    """Gaps only, by the question's days; a day may come in parts."""
    evictions: tuple[Eviction, ...] = ()
    """The newest first; who may still come back is left out."""
    rejoins_ms: tuple[int, ...] = ()
    """How long the group waited for each member that joined again."""
    starts: tuple[Start, ...] = ()
    """The oldest first."""
    asked_session_ms: int | None = None
    """The longest session timeout that a member asks for; of a group without members the last that was in force."""
    asked_rebalance_ms: int | None = None
    stored: StoredAdvice | None = None

    def evictions_by(self, end_reason: str) -> tuple[Eviction, ...]:
        """Return the evictions that a kind of timeout brought."""
        return tuple(each for each in self.evictions if each.end_reason == end_reason)

    def evidence(self) -> Evidence:
        """Return all of it, boiled down to counts."""
        by_day = [_told(each, self.question.day_of(each.at_ms)) for each in self.evictions_by(SESSION_EXPIRED)]
        return Evidence(
            days=merged([*self.days, *by_day]),
            rejoins=_rejoins(self.rejoins_ms, self.evictions_by(REBALANCE_TIMEOUT)),
            startups=startups_of(self.starts),
        )


def evicted(
    member_id: str,
    group_instance_id: str | None,
    client_id: str,
    client_host: str,
    end_reason: str,
    at_ms: int,
    limit_ms: int,
    back_at_ms: int | None,
) -> Eviction:
    """Return an eviction with the timeout that it needed; `back_at_ms` None: the member stayed away."""
    return Eviction(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        end_reason=end_reason,
        at_ms=at_ms,
        limit_ms=limit_ms,
        needed_ms=None if back_at_ms is None else limit_ms + back_at_ms - at_ms,
        back_at_ms=back_at_ms,
    )


def _told(eviction: Eviction, number: int) -> Day:
    """Return what one eviction adds to its day."""
    day = Day(number)
    if eviction.needed_ms is None:
        return replace(day, failures=1, failures_limit_ms=eviction.limit_ms)
    return replace(day, silences=counted([eviction.needed_ms]))


def _rejoins(lengths_ms: Iterable[int], evictions: Sequence[Eviction]) -> Rejoins:
    late_ms = [each.needed_ms for each in evictions if each.needed_ms is not None]
    never = [each.limit_ms for each in evictions if each.needed_ms is None]
    return Rejoins(counted([*lengths_ms, *late_ms]), counted(late_ms), len(never), sum(never))


def startups_of(starts: Sequence[Start]) -> Startups:
    """Return how the group came together; `starts` are its rebalances in order, the oldest first."""
    began: list[int] = []
    comers: list[list[int]] = []
    for each in starts:
        if each.member_count_before == 0 and each.trigger == "member_joined":
            began.append(each.started_at_ms)
            restarted = each.restarts and each.joined_at_ms is not None
            comers.append([(each.joined_at_ms or 0) - each.started_at_ms] if restarted else [])
        elif began and each.trigger == "member_joined":
            comers[-1].append(each.started_at_ms - began[-1])
    return followed(comers)
