"""What a group's past says of its timeouts, as a store finds it, and as the rules of advice want it.

An eviction needed a timeout that is longer by what the member came too late: the one that evicted it, and from then on
until it was back.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from coordinator_core.protocol.advice.evidence import (
    BY_MEMBERS,
    COMPLETED,
    Day,
    Evidence,
    Rebalances,
    Rejoins,
    Startups,
    merged,
    rejoins_of,
)
from coordinator_core.protocol.advice.policy import LATE_GRACE_MS, Advice, Assigned, is_live
from coordinator_core.protocol.advice.recommend import Recommendation
from coordinator_core.protocol.advice.startup import followed
from coordinator_core.protocol.advice.steps import BEYOND, counted, place_of
from coordinator_core.protocol.advice.what_if import Eviction
from coordinator_core.store.rows import Json

DAY_MS: Final = 86_400_000

SESSION_EXPIRED: Final = "session_expired"
REBALANCE_TIMEOUT: Final = "rebalance_timeout"
LEFT: Final = "left"
BY_TIMEOUT: Final = (SESSION_EXPIRED, REBALANCE_TIMEOUT)
"""Ends of stays that a timeout brings, and another one might not have."""


@dataclass(frozen=True, slots=True)
class TuningQuestion:
    """Of which group, from when to when, and how much may be looked at."""

    group_id: str
    from_ms: int
    to_ms: int
    grace_ms: int
    """Within which a member that was evicted is expected back; a live one, within LATE_GRACE_MS."""
    max_rows: int
    """Rows of stays, as many of members in rebalances, and of rebalances, the newest."""
    max_evictions: int
    """Evictions, the newest."""

    def day_of(self, at_ms: int) -> int:
        """Return the number of an instant's day: -1 is the last 24 hours before `to_ms`, -2 the 24 before them.

        A calendar's last day would be some minutes old shortly after midnight, and advice put to the test on it.
        """
        return (at_ms - self.to_ms) // DAY_MS


@dataclass(frozen=True, slots=True)
class PastRebalance:
    """A rebalance that is over, as far as advice is concerned."""

    started_at_ms: int
    joined_at_ms: int | None
    completed_at_ms: int
    trigger: str
    outcome: str
    restarts: int
    member_count_before: int
    partitions_moved: int


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
    recommendations: tuple[Recommendation, ...] = ()


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
    waits_ms: tuple[int, ...] = ()
    """How long each rebalance that waited for a member waited for the slowest."""
    rebalances: tuple[PastRebalance, ...] = ()
    """The oldest first."""
    asked_session_ms: int | None = None
    """The longest session timeout that a member asks for; of a group without members the last that was in force."""
    asked_rebalance_ms: int | None = None
    assigned: Assigned = field(default_factory=Assigned)
    stored: StoredAdvice | None = None

    def evictions_by(self, end_reason: str) -> tuple[Eviction, ...]:
        """Return the evictions that a kind of timeout brought."""
        return tuple(each for each in self.evictions if each.end_reason == end_reason)

    def evidence(self) -> Evidence:
        """Return all of it, boiled down to counts."""
        by_day = [_told(each, self.question.day_of(each.at_ms)) for each in self.evictions_by(SESSION_EXPIRED)]
        return Evidence(
            days=merged([*self.days, *by_day]),
            rejoins=_rejoins(self.rejoins_ms, self.waits_ms, self.evictions_by(REBALANCE_TIMEOUT)),
            startups=startups_of(self.rebalances),
            rebalances=_rebalances(self.rebalances, sum(each.is_restart for each in self.evictions)),
        )


def grace_of(end_reason: str, silent_ms: int, session_timeout_ms: int, grace_ms: int) -> int:
    """Return within which time a member is expected back, by how its stay ended after how long a silence."""
    is_late = end_reason == REBALANCE_TIMEOUT and is_live(silent_ms, session_timeout_ms)
    return LATE_GRACE_MS if is_late else grace_ms


@dataclass(frozen=True, slots=True)
class EndedStay:
    """A member's stay that a timeout or the member itself ended."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    end_reason: str
    at_ms: int
    silent_ms: int
    """How long it had not been heard by then."""
    session_timeout_ms: int


def evicted(stay: EndedStay, limit_ms: int, back_at_ms: int | None, *, has_successor: bool) -> Eviction:
    """Return the end of a stay with the timeout that the member needed.

    Args:
        stay: which ended.
        limit_ms: the timeout that ended it.
        back_at_ms: when the same client joined again; None: not within its grace.
        has_successor: whether the same client had joined again before the end, while the member was silent.
    """
    is_soon = back_at_ms is not None and back_at_ms - stay.at_ms <= stay.session_timeout_ms
    is_restart = is_soon if stay.end_reason == LEFT else stay.end_reason == SESSION_EXPIRED and has_successor
    return Eviction(
        member_id=stay.member_id,
        group_instance_id=stay.group_instance_id,
        client_id=stay.client_id,
        client_host=stay.client_host,
        end_reason=stay.end_reason,
        at_ms=stay.at_ms,
        limit_ms=limit_ms,
        needed_ms=None if back_at_ms is None else limit_ms + back_at_ms - stay.at_ms,
        back_at_ms=back_at_ms,
        is_live=stay.end_reason == REBALANCE_TIMEOUT and is_live(stay.silent_ms, stay.session_timeout_ms),
        is_restart=is_restart and stay.group_instance_id is None,
    )


def _told(eviction: Eviction, number: int) -> Day:
    """Return what one eviction adds to its day."""
    day = Day(number)
    if eviction.needed_ms is None:
        return replace(day, failures=1, failures_limit_ms=eviction.limit_ms)
    return replace(day, silences=counted([eviction.needed_ms]))


def _rejoins(lengths_ms: Iterable[int], waits_ms: Iterable[int], evictions: Sequence[Eviction]) -> Rejoins:
    late = [each for each in evictions if each.needed_ms is not None or each.is_live]
    phases: dict[int, tuple[int, int]] = {}
    for each in evictions:
        phase = (_needed_place(each), place_of(each.limit_ms))
        phases[each.at_ms] = max(phase, phases.get(each.at_ms, phase))
    return rejoins_of(
        in_time=counted(lengths_ms),
        late=_by_place(map(_needed_place, late)),
        no_shows=len(evictions) - len(late),
        waits=counted(waits_ms),
        stalls=[(limit_place, needed_place, 1) for needed_place, limit_place in phases.values()],
    )


def _needed_place(eviction: Eviction) -> int:
    return BEYOND if eviction.needed_ms is None else place_of(eviction.needed_ms)


def _by_place(places: Iterable[int]) -> tuple[int, ...]:
    found = Counter(places)
    return tuple(found[place] for place in range(BEYOND + 1))


def _rebalances(past: Sequence[PastRebalance], restarts: int) -> Rebalances:
    return Rebalances(
        count=len(past),
        took_ms=sum(each.completed_at_ms - each.started_at_ms for each in past),
        completed=sum(each.outcome == COMPLETED for each in past),
        partitions_moved=sum(each.partitions_moved for each in past),
        by_members=sum(each.trigger in BY_MEMBERS for each in past),
        restarts=restarts,
    )


def startups_of(starts: Sequence[PastRebalance]) -> Startups:
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
