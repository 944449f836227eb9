"""Queries of the history that timeout advice is computed from, for one group.

Each names the column by which its table is partitioned, reads a limited number of rows, the newest, and aggregates in
the database where possible.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Row, RowMapping, select

from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS, Day
from coordinator_core.analytics.advice.policy import LATE_GRACE_MS, SIGNS_PER_SESSION, Advice, CurrentAssignment
from coordinator_core.analytics.advice.recommend import Recommendation
from coordinator_core.analytics.advice.what_if import Eviction
from coordinator_core.store.advice_tables import ADVISED, timeout_advice
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.timestamps import as_ms
from coordinator_core.store.tuning import (
    DAY_MS,
    EndedSession,
    PastRebalance,
    StoredAdvice,
    TuningHistory,
    TuningQuery,
    evicted,
)

GAP_SUMS: Final = ", ".join(f"coalesce(sum(gaps[{place}]), 0)::bigint" for place in range(1, len(GAP_BOUNDS_MS) + 2))

_MS: Final = "floor(extract(epoch FROM {}) * 1000)::bigint"

_IDENTITY: Final = (
    "CASE WHEN group_instance_id IS NULL THEN ARRAY[client_id, client_host] ELSE ARRAY[group_instance_id] END"
)
"""Identifies a client across member ids: its instance id, or else its client id and host."""

_HEARD_AT: Final = "coalesce(last_heartbeat_at, started_at)"

_SILENT_MS: Final = f"{_MS.format('ended_at')} - {_MS.format(_HEARD_AT)}"

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
            OR end_reason = 'left' AND group_instance_id IS NULL)
        AND ended_at >= to_timestamp(%(from_ms)s / 1000.0)
        AND ended_at < to_timestamp(%(to_ms)s / 1000.0)
    ORDER BY ended_at DESC
    LIMIT %(max_evictions)s
), arrivals AS (
    SELECT {_IDENTITY} AS identity, member_id, joined_at FROM members WHERE group_id = %(group_id)s
    UNION
    SELECT {_IDENTITY}, member_id, joined_at
    FROM member_sessions
    WHERE group_id = %(group_id)s
        AND ended_at >= to_timestamp(%(from_ms)s / 1000.0) AND joined_at >= to_timestamp(%(from_ms)s / 1000.0)
), arrived AS (
    SELECT ended.member_id, ended.ended_at,
        ended.end_reason <> 'left' AND min(arrivals.joined_at) < ended.ended_at AS has_successor,
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
SELECT ended.member_id, ended.group_instance_id, ended.client_id, ended.client_host, ended.end_reason,
    {_MS.format("ended.ended_at")} AS at_ms, ended.silent_ms, ended.session_timeout_ms,
    CASE ended.end_reason WHEN 'rebalance_timeout' THEN waited.waited_for_ms ELSE ended.session_timeout_ms END
        AS limit_ms,
    {_MS.format("reconnects.reconnected_at")} AS reconnected_at_ms,
    coalesce(reconnects.has_successor, false) AS has_successor
FROM ended
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
    LIMIT %(max_rows)s
)
SELECT floor((extract(epoch FROM ended_at) * 1000 - %(to_ms)s) / {DAY_MS})::integer, count(*) AS row_count,
    {_MS.format("min(ended_at)")} AS from_ms, sum(heartbeat_count)::bigint AS heartbeats,
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
    LIMIT %(max_rows)s
) AS waited_for
GROUP BY rebalance_id
"""  # noqa: S608 - words of ours

_REBALANCES: Final = f"""
SELECT {_MS.format("started_at")}, {_MS.format("joined_at")}, {_MS.format("completed_at")}, trigger, outcome, restarts,
    member_count_before, partitions_moved
FROM rebalances
WHERE group_id = %(group_id)s
    AND completed_at >= to_timestamp(%(from_ms)s / 1000.0) AND completed_at < to_timestamp(%(to_ms)s / 1000.0)
ORDER BY completed_at DESC
LIMIT %(max_rows)s
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


def read_past(transaction: Transaction, query: TuningQuery) -> TuningHistory:
    """Return the history of a group, as early as the query's limits allow."""
    limits: dict[str, Any] = asdict(query)
    ended = transaction.execute(_EVICTIONS, limits).all()
    if len(ended) == query.max_evictions:
        limits["from_ms"] = ended[-1].at_ms
    days = transaction.execute(_DAYS, limits).all()
    if sum(day.row_count for day in days) == query.max_rows:
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
            *columns, limit_ms, reconnected_at_ms, has_successor = row
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
        recommendations=tuple(Recommendation(**each) for each in row["recommendations"] or ()),
    )


def _piece(row: RowMapping, name: str) -> Advice:
    return Advice(
        value_ms=row[f"{name}_advised_ms"],
        present_ms=row[f"{name}_present_ms"],
        verdict=row[f"{name}_verdict"],
        confidence=row[f"{name}_confidence"],
        because=row[f"{name}_reason"],
        effect=row[f"{name}_effect"],
    )
