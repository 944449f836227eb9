"""The history of a group that timeout advice is computed from, and its conversion to the evidence of the advice rules.

The timeout that would have avoided an eviction is the one that evicted the member, plus the time until it reconnected.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from sqlalchemy import Row, RowMapping, select

from coordinator_core.analytics.advice.evidence import (
    BY_MEMBERS,
    COMPLETED,
    EXIT_REASONS,
    GAP_BOUNDS_MS,
    REBALANCE_TIMEOUT,
    SESSION_EXPIRED,
    Day,
    Evidence,
    Rebalances,
    Rejoins,
    Startups,
    merged,
    rejoins_of,
)
from coordinator_core.analytics.advice.policy import (
    LATE_GRACE_MS,
    SIGNS_PER_SESSION,
    Advice,
    CurrentAssignment,
    is_live,
)
from coordinator_core.analytics.advice.recommend import Recommendation
from coordinator_core.analytics.advice.startup import count_startups
from coordinator_core.analytics.advice.steps import BEYOND, counted, place_of
from coordinator_core.analytics.advice.what_if import Eviction
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import SQL_MS, as_ms
from coordinator_core.state_store.report_tables import ADVISED, timeout_advice
from coordinator_core.state_store.rows import Json

DAY_MS: Final = 86_400_000

RECOMMENDATION_KEYS: Final = frozenset(each.name for each in fields(Recommendation))


@dataclass(frozen=True, slots=True)
class TuningQuery:
    """Selects a group and a time range, and limits the rows that are read."""

    group_id: str
    from_ms: int
    to_ms: int
    grace_ms: int
    """The time within which an evicted member is expected to reconnect; a live one, within LATE_GRACE_MS."""
    max_rows: int
    """The newest rows of member sessions, of rebalance members and of rebalances each, and others of the same time."""
    max_evictions: int
    """The newest evictions, and others of the same time as the oldest of them."""

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
    is_crash = session.end_reason == SESSION_EXPIRED and has_successor
    is_restart = is_soon if session.end_reason in EXIT_REASONS else is_crash
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


GAP_SUMS: Final = ", ".join(f"coalesce(sum(gaps[{place}]), 0)::bigint" for place in range(1, len(GAP_BOUNDS_MS) + 2))


_IDENTITY: Final = (
    "CASE WHEN group_instance_id IS NULL THEN ARRAY[client_id, client_host] ELSE ARRAY[group_instance_id] END"
)
"""Identifies a client across member ids: its instance id, or else its client id and host."""

_HEARD_AT: Final = "coalesce(last_heartbeat_at, started_at)"

_SILENT_MS: Final = f"{SQL_MS.format('ended_at')} - {SQL_MS.format(_HEARD_AT)}"

_SILENT_SINCE: Final = "least(ended.heard_at, ended.ended_at - interval '1 microsecond')"
"""A client that joined after that and before the end of the session is the successor of a dead member, no reconnect."""

_EVICTIONS: Final = f"""
WITH ended AS (
    SELECT *, {_IDENTITY} AS identity, {_HEARD_AT} AS heard_at, {_SILENT_MS} AS silent_ms,
        CASE WHEN end_reason = 'rebalance_timeout' AND ({_SILENT_MS}) * {SIGNS_PER_SESSION} <= session_timeout_ms
            THEN {LATE_GRACE_MS} ELSE %(grace_ms)s END AS own_grace_ms
    FROM member_sessions
    WHERE group_id = %(group_id)s
        AND (end_reason IN ('session_expired', 'rebalance_timeout')
            OR end_reason IN {EXIT_REASONS} AND group_instance_id IS NULL)
        AND ended_at >= to_timestamp(%(from_ms)s / 1000.0)
        AND ended_at < to_timestamp(%(to_ms)s / 1000.0)
    ORDER BY ended_at DESC
    FETCH FIRST %(max_evictions)s ROWS WITH TIES
), evaluated AS (
    SELECT count(*) AS number, {SQL_MS.format("min(ended_at)")} AS oldest_at_ms FROM ended
), arrivals AS (
    SELECT {_IDENTITY} AS identity, member_id, joined_at FROM members WHERE group_id = %(group_id)s
    UNION
    SELECT {_IDENTITY}, member_id, joined_at
    FROM member_sessions
    WHERE group_id = %(group_id)s
        AND ended_at >= to_timestamp(%(from_ms)s / 1000.0) AND joined_at >= to_timestamp(%(from_ms)s / 1000.0)
), arrived AS (
    SELECT ended.member_id, ended.ended_at,
        ended.end_reason NOT IN {EXIT_REASONS} AND min(arrivals.joined_at) < ended.ended_at AS has_successor,
        min(arrivals.joined_at) FILTER (WHERE arrivals.joined_at >= ended.ended_at) AS reconnected_at
    FROM ended
    JOIN arrivals ON arrivals.identity = ended.identity
        AND arrivals.member_id <> ended.member_id
        AND arrivals.joined_at > {_SILENT_SINCE}
        AND arrivals.joined_at <= ended.ended_at + ended.own_grace_ms * interval '1 millisecond'
    GROUP BY ended.member_id, ended.ended_at, ended.end_reason
), reconnects AS (
    SELECT member_id, ended_at, has_successor, CASE WHEN NOT has_successor THEN reconnected_at END AS reconnected_at
    FROM arrived
), waited AS (
    SELECT part.member_id, past.started_at, past.completed_at, part.waited_for_ms
    FROM rebalances AS past
    JOIN rebalance_members AS part
        ON (part.rebalance_id, part.completed_at) = (past.rebalance_id, past.completed_at)
        AND part.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
    WHERE past.group_id = %(group_id)s AND part.outcome = 'evicted'
        AND past.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
)
SELECT evaluated.number, evaluated.oldest_at_ms,
    ended.member_id, ended.group_instance_id, ended.client_id, ended.client_host, ended.end_reason,
    {SQL_MS.format("ended.ended_at")} AS at_ms, ended.silent_ms, ended.session_timeout_ms,
    CASE ended.end_reason WHEN 'rebalance_timeout' THEN waited.waited_for_ms ELSE ended.session_timeout_ms END
        AS limit_ms,
    {SQL_MS.format("reconnects.reconnected_at")} AS reconnected_at_ms,
    coalesce(reconnects.has_successor, false) AS has_successor
FROM ended
CROSS JOIN evaluated
LEFT JOIN reconnects ON (reconnects.member_id, reconnects.ended_at) = (ended.member_id, ended.ended_at)
LEFT JOIN waited ON waited.member_id = ended.member_id AND ended.end_reason = 'rebalance_timeout'
    AND ended.ended_at BETWEEN waited.started_at AND waited.completed_at
WHERE reconnects.reconnected_at IS NOT NULL OR ended.ended_at < to_timestamp((%(to_ms)s - ended.own_grace_ms) / 1000.0)
ORDER BY ended.ended_at DESC, ended.member_id
"""  # noqa: S608 - words of ours

_DAYS: Final = f"""
WITH looked_at AS (
    SELECT ended_at, heartbeat_count, heartbeat_gap_ms_max, heartbeat_gap_histogram AS gaps
    FROM member_sessions
    WHERE group_id = %(group_id)s
        AND ended_at >= to_timestamp(%(from_ms)s / 1000.0) AND ended_at < to_timestamp(%(to_ms)s / 1000.0)
    ORDER BY ended_at DESC
    FETCH FIRST %(max_rows)s ROWS WITH TIES
)
SELECT floor((extract(epoch FROM ended_at) * 1000 - %(to_ms)s) / {DAY_MS})::integer, count(*) AS row_count,
    {SQL_MS.format("min(ended_at)")} AS from_ms, coalesce(sum(heartbeat_count), 0)::bigint AS heartbeats,
    coalesce(max(heartbeat_gap_ms_max), 0) AS longest_gap_ms, {GAP_SUMS}
FROM looked_at
GROUP BY 1
ORDER BY 1
"""  # noqa: S608 - words of ours

_JOINED_MS: Final = (
    "CASE WHEN part.outcome = 'joined' THEN least(part.joined_after_ms, part.waited_for_ms) ELSE part.waited_for_ms END"
)
"""How long a rebalance waited for a member to join; `least` ignores the NULL of a member that did not join."""

_REJOINS: Final = f"""
SELECT array_agg(join_ms) FILTER (WHERE outcome = 'joined' AND joined_after_ms IS NOT NULL) AS rejoins_ms,
    max(join_ms) AS wait_ms
FROM (
    SELECT part.rebalance_id, part.outcome, part.joined_after_ms, {_JOINED_MS} AS join_ms
    FROM rebalances AS past
    JOIN rebalance_members AS part
        ON (part.rebalance_id, part.completed_at) = (past.rebalance_id, past.completed_at)
        AND part.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
        AND part.completed_at < to_timestamp(%(to_ms)s / 1000.0)
    WHERE past.group_id = %(group_id)s AND part.waited_for_ms > 0
        AND past.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
        AND past.completed_at < to_timestamp(%(to_ms)s / 1000.0)
    ORDER BY past.completed_at DESC
    FETCH FIRST %(max_rows)s ROWS WITH TIES
) AS waited_for
GROUP BY rebalance_id
"""  # noqa: S608 - words of ours

_REBALANCES: Final = f"""
SELECT {SQL_MS.format("started_at")}, {SQL_MS.format("joined_at")}, {SQL_MS.format("completed_at")}, trigger, outcome,
    restarts, member_count_before, partitions_moved
FROM rebalances
WHERE group_id = %(group_id)s
    AND completed_at >= to_timestamp(%(from_ms)s / 1000.0) AND completed_at < to_timestamp(%(to_ms)s / 1000.0)
ORDER BY completed_at DESC
FETCH FIRST %(max_rows)s ROWS WITH TIES
"""  # noqa: S608 - words of ours

_ASSIGNED: Final = """
SELECT
    (SELECT protocol_name FROM groups WHERE group_id = %(group_id)s),
    (SELECT coalesce(sum(jsonb_array_length(topic -> 'partitions')), 0)::bigint
        FROM members
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE WHEN jsonb_typeof(assignment) = 'array' THEN assignment ELSE '[]' END
        ) AS topic
        WHERE group_id = %(group_id)s)
"""

_ASKED: Final = """
SELECT coalesce(max(session_timeout_ms), (
        SELECT session_timeout_ms
        FROM member_sessions
        WHERE group_id = %(group_id)s
            AND ended_at >= to_timestamp(%(from_ms)s / 1000.0) AND ended_at < to_timestamp(%(to_ms)s / 1000.0)
        ORDER BY ended_at DESC, session_timeout_ms DESC
        LIMIT 1
    )), max(rebalance_timeout_ms)
FROM members
WHERE group_id = %(group_id)s
"""


def read_tuning_history(transaction: Transaction, query: TuningQuery) -> TuningHistory:
    """Return the history of a group, as early as the query's limits allow."""
    limits: dict[str, Any] = asdict(query)
    ended = transaction.execute(_EVICTIONS, limits).all()
    if ended and ended[0].number >= query.max_evictions:
        limits["from_ms"] = ended[0].oldest_at_ms
    days = transaction.execute(_DAYS, limits).all()
    if sum(day.row_count for day in days) >= query.max_rows:
        limits["from_ms"] = min(day.from_ms for day in days)
    requested_session_ms, requested_rebalance_ms = transaction.execute(_ASKED, limits).one()
    waits = transaction.execute(_REJOINS, limits).all()
    return TuningHistory(
        query=query,
        from_ms=limits["from_ms"],
        days=tuple(Day(day[0], day.heartbeats, tuple(day[5:]), day.longest_gap_ms) for day in days),
        evictions=tuple(_evictions(ended, limits["from_ms"])),
        rejoins_ms=tuple(length_ms for wait in waits for length_ms in wait.rejoins_ms or ()),
        waits_ms=tuple(wait.wait_ms for wait in waits),
        rebalances=tuple(reversed([PastRebalance(*row) for row in transaction.execute(_REBALANCES, limits)])),
        requested_session_ms=requested_session_ms,
        requested_rebalance_ms=requested_rebalance_ms,
        assigned=CurrentAssignment(*transaction.execute(_ASSIGNED, limits).one()),
        stored=_read_stored(transaction, query.group_id),
    )


def _evictions(ended: Iterable[Row[*tuple[Any, ...]]], from_ms: int) -> Iterator[Eviction]:
    """Yield evictions; those by the rebalance timeout only after their rebalance has ended."""
    for row in ended:
        if row.limit_ms is not None and row.at_ms >= from_ms:
            _, _, *columns, limit_ms, reconnected_at_ms, has_successor = row
            yield evicted(EndedSession(*columns), limit_ms, reconnected_at_ms, has_successor=has_successor)


def _read_stored(transaction: Transaction, group_id: str) -> StoredAdvice | None:
    columns = timeout_advice.c
    newest = select(
        timeout_advice,
        as_ms(columns.as_of).label("as_of_ms"),
        as_ms(columns.window_start).label("window_from_ms"),
        as_ms(columns.interval_end).label("window_to_ms"),
    ).where(columns.group_id == group_id)
    newest = newest.order_by(columns.interval_end.desc(), columns.as_of.desc()).limit(1)
    row = transaction.execute(newest).mappings().first()
    return None if row is None else _stored(row)


def _stored(row: RowMapping) -> StoredAdvice:
    return StoredAdvice(
        run_id=row["run_id"],
        as_of_ms=row["as_of_ms"],
        window_from_ms=row["window_from_ms"],
        window_to_ms=row["window_to_ms"],
        pieces={name: _piece(row, name) for name in ADVISED},
        back_test=row["back_test"],
        recommendations=tuple(_recommendations(row["recommendations"])),
    )


def _recommendations(stored: Json) -> Iterator[Recommendation]:
    """Yield the recommendations of a report that are complete; other keys are those of a newer release."""
    for each in stored:
        if each.keys() >= RECOMMENDATION_KEYS:
            yield Recommendation(**{key: each[key] for key in RECOMMENDATION_KEYS})


def _piece(row: RowMapping, name: str) -> Advice:
    return Advice(
        value_ms=row[f"{name}_advised_ms"],
        present_ms=row[f"{name}_present_ms"],
        verdict=row[f"{name}_verdict"],
        confidence=row[f"{name}_confidence"],
        because=row[f"{name}_reason"],
        effect=row[f"{name}_effect"],
    )
