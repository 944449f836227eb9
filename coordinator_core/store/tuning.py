"""The history of a group that timeout advice is computed from, and its conversion to the evidence of the advice rules.

The timeout that would have avoided an eviction is the one that evicted the member, plus the time until it reconnected.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from coordinator_core.analytics.advice.evidence import (
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
from coordinator_core.analytics.advice.policy import LATE_GRACE_MS, Advice, CurrentAssignment, is_live
from coordinator_core.analytics.advice.recommend import Recommendation
from coordinator_core.analytics.advice.startup import count_startups
from coordinator_core.analytics.advice.steps import BEYOND, counted, place_of
from coordinator_core.analytics.advice.what_if import Eviction
from coordinator_core.store.rows import Json

DAY_MS: Final = 86_400_000

SESSION_EXPIRED: Final = "session_expired"
REBALANCE_TIMEOUT: Final = "rebalance_timeout"
LEFT: Final = "left"
BY_TIMEOUT: Final = (SESSION_EXPIRED, REBALANCE_TIMEOUT)
"""End reasons of sessions that a timeout ended, and a longer one might not have."""


@dataclass(frozen=True, slots=True)
class TuningQuery:
    """Selects a group and a time range, and limits the rows that are read."""

    group_id: str
    from_ms: int
    to_ms: int
    grace_ms: int
    """The time within which an evicted member is expected to reconnect; a live one, within LATE_GRACE_MS."""
    max_rows: int
    """The newest rows of member sessions, of rebalance members and of rebalances each."""
    max_evictions: int
    """The newest evictions."""

    def day_of(self, at_ms: int) -> int:
        """Return the number of the day of a time: -1 is the last 24 hours before `to_ms`, -2 the 24 before them.

        Days of 24 hours are complete; the last calendar day would be too short for a test of the advice.
        """
        return (at_ms - self.to_ms) // DAY_MS


@dataclass(frozen=True, slots=True)
class PastRebalance:
    """A rebalance that ended, with the columns that advice needs."""

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
    """By the prefix of the columns' names."""
    back_test: Json
    recommendations: tuple[Recommendation, ...] = ()


@dataclass(frozen=True, slots=True)
class TuningHistory:
    """The history that a query found."""

    query: TuningQuery
    from_ms: int
    """Later than requested if the query's limits were reached."""
    days: tuple[Day, ...] = ()
    """Gaps only, by the query's days; a day may have several entries."""
    evictions: tuple[Eviction, ...] = ()
    """The newest first, without members that may still reconnect."""
    rejoins_ms: tuple[int, ...] = ()
    """How long the group waited for each member that joined again."""
    waits_ms: tuple[int, ...] = ()
    """How long each rebalance that waited for members waited for the slowest."""
    rebalances: tuple[PastRebalance, ...] = ()
    """The oldest first."""
    requested_session_ms: int | None = None
    """The longest session timeout that a member requests; of a group without members the last effective one."""
    requested_rebalance_ms: int | None = None
    assigned: CurrentAssignment = field(default_factory=CurrentAssignment)
    stored: StoredAdvice | None = None

    def evictions_by(self, end_reason: str) -> tuple[Eviction, ...]:
        """Return the evictions with an end reason."""
        return tuple(each for each in self.evictions if each.end_reason == end_reason)

    def evidence(self) -> Evidence:
        """Return the evidence for the advice rules: counts of all of this."""
        by_day = [_day_of_eviction(each, self.query.day_of(each.at_ms)) for each in self.evictions_by(SESSION_EXPIRED)]
        return Evidence(
            days=merged([*self.days, *by_day]),
            rejoins=_rejoins(self.rejoins_ms, self.waits_ms, self.evictions_by(REBALANCE_TIMEOUT)),
            startups=startups_of(self.rebalances),
            rebalances=_rebalances(self.rebalances, sum(each.is_restart for each in self.evictions)),
        )


def grace_of(end_reason: str, silent_ms: int, session_timeout_ms: int, grace_ms: int) -> int:
    """Return the time within which a member is expected to reconnect, by the end of its session."""
    is_late = end_reason == REBALANCE_TIMEOUT and is_live(silent_ms, session_timeout_ms)
    return LATE_GRACE_MS if is_late else grace_ms


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A member session that a timeout or the member itself ended."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    end_reason: str
    at_ms: int
    silent_ms: int
    """The time since its last activity."""
    session_timeout_ms: int


def evicted(session: EndedSession, limit_ms: int, reconnected_at_ms: int | None, *, has_successor: bool) -> Eviction:
    """Return the end of a session as an eviction, with the timeout that would have avoided it.

    Args:
        session: the session that ended.
        limit_ms: the timeout that ended it.
        reconnected_at_ms: when the same client joined again; None: not within the grace period.
        has_successor: whether the same client had joined again before the end, while the member was silent.
    """
    is_soon = reconnected_at_ms is not None and reconnected_at_ms - session.at_ms <= session.session_timeout_ms
    is_restart = is_soon if session.end_reason == LEFT else session.end_reason == SESSION_EXPIRED and has_successor
    return Eviction(
        member_id=session.member_id,
        group_instance_id=session.group_instance_id,
        client_id=session.client_id,
        client_host=session.client_host,
        end_reason=session.end_reason,
        at_ms=session.at_ms,
        limit_ms=limit_ms,
        needed_ms=None if reconnected_at_ms is None else limit_ms + reconnected_at_ms - session.at_ms,
        reconnected_at_ms=reconnected_at_ms,
        is_live=session.end_reason == REBALANCE_TIMEOUT and is_live(session.silent_ms, session.session_timeout_ms),
        is_restart=is_restart and session.group_instance_id is None,
    )


def _day_of_eviction(eviction: Eviction, number: int) -> Day:
    """Return the day with the counts of one eviction."""
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
    """Return the startups of a group; `starts` are its rebalances, the oldest first."""
    began: list[int] = []
    joiners: list[list[int]] = []
    for each in starts:
        if each.member_count_before == 0 and each.trigger == "member_joined":
            began.append(each.started_at_ms)
            restarted = each.restarts and each.joined_at_ms is not None
            joiners.append([(each.joined_at_ms or 0) - each.started_at_ms] if restarted else [])
        elif began and each.trigger == "member_joined":
            joiners[-1].append(each.started_at_ms - began[-1])
    return count_startups(joiners)
