"""What a group's past says of its timeouts is found by a few statements that look at that group's rows only.

Each names the column by which its table is partitioned, looks at a bounded number of rows, the newest, and adds up in
the database whatever can be added up there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Row, RowMapping, select

from coordinator_core.protocol.advice.evidence import GAP_BOUNDS_MS, Day
from coordinator_core.protocol.advice.policy import LATE_GRACE_MS, SIGNS_PER_SESSION, Advice, Assigned
from coordinator_core.protocol.advice.recommend import Recommendation
from coordinator_core.protocol.advice.what_if import Eviction
from coordinator_core.store.advice_tables import ADVISED, timeout_advice
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.instants import as_ms
from coordinator_core.store.tuning import (
    DAY_MS,
    EndedStay,
    PastRebalance,
    StoredAdvice,
    TuningPast,
    TuningQuestion,
    evicted,
)

GAP_SUMS: Final = ", ".join(f"coalesce(sum(gaps[{place}]), 0)::bigint" for place in range(1, len(GAP_BOUNDS_MS) + 2))

_MS: Final = "floor(extract(epoch FROM {}) * 1000)::bigint"

_IDENTITY: Final = (
    "CASE WHEN group_instance_id IS NULL THEN ARRAY[client_id, client_host] ELSE ARRAY[group_instance_id] END"
)
"""Who a member is, whatever its id: its instance, or else its client id and host."""

_HEARD_AT: Final = "coalesce(last_heartbeat_at, started_at)"

_SILENT_MS: Final = f"{_MS.format('ended_at')} - {_MS.format(_HEARD_AT)}"

_SILENT_SINCE: Final = "least(gone.heard_at, gone.ended_at - interval '1 microsecond')"
"""Who joined after that and before the end is the successor of a dead member: that one is not back."""

_EVICTIONS: Final = f"""
WITH gone AS (
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
), came AS (
    SELECT gone.member_id, gone.ended_at,
        gone.end_reason <> 'left' AND min(arrivals.joined_at) < gone.ended_at AS has_successor,
        min(arrivals.joined_at) FILTER (WHERE arrivals.joined_at >= gone.ended_at) AS back_at
    FROM gone
    JOIN arrivals ON arrivals.identity = gone.identity
        AND arrivals.member_id <> gone.member_id
        AND arrivals.joined_at > {_SILENT_SINCE}
        AND arrivals.joined_at <= gone.ended_at + gone.own_grace_ms * interval '1 millisecond'
    GROUP BY gone.member_id, gone.ended_at, gone.end_reason
), back AS (
    SELECT member_id, ended_at, has_successor, CASE WHEN NOT has_successor THEN back_at END AS back_at
    FROM came
), waited AS (
    SELECT part.member_id, past.started_at, past.completed_at, part.waited_for_ms
    FROM rebalances AS past
    JOIN rebalance_members AS part
        ON (part.rebalance_id, part.completed_at) = (past.rebalance_id, past.completed_at)
        AND part.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
    WHERE past.group_id = %(group_id)s AND part.outcome = 'evicted'
        AND past.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
)
SELECT gone.member_id, gone.group_instance_id, gone.client_id, gone.client_host, gone.end_reason,
    {_MS.format("gone.ended_at")} AS at_ms, gone.silent_ms, gone.session_timeout_ms,
    CASE gone.end_reason WHEN 'rebalance_timeout' THEN waited.waited_for_ms ELSE gone.session_timeout_ms END
        AS limit_ms,
    {_MS.format("back.back_at")} AS back_at_ms,
    coalesce(back.has_successor, false) AS has_successor
FROM gone
LEFT JOIN back ON (back.member_id, back.ended_at) = (gone.member_id, gone.ended_at)
LEFT JOIN waited ON waited.member_id = gone.member_id AND gone.end_reason = 'rebalance_timeout'
    AND gone.ended_at BETWEEN waited.started_at AND waited.completed_at
WHERE back.back_at IS NOT NULL OR gone.ended_at < to_timestamp((%(to_ms)s - gone.own_grace_ms) / 1000.0)
ORDER BY gone.ended_at DESC, gone.member_id
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
"""How long a rebalance waited for a member to join; `least` leaves NULL out, of a member that never did."""

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


def read_past(transaction: Transaction, question: TuningQuestion) -> TuningPast:
    """Return what was found, from as early on as may be looked at."""
    limits: dict[str, Any] = asdict(question)
    gone = transaction.execute(_EVICTIONS, limits).all()
    if len(gone) == question.max_evictions:
        limits["from_ms"] = gone[-1].at_ms
    days = transaction.execute(_DAYS, limits).all()
    if sum(day.row_count for day in days) == question.max_rows:
        limits["from_ms"] = min(day.from_ms for day in days)
    asked_session_ms, asked_rebalance_ms = transaction.execute(_ASKED, limits).one()
    waits = transaction.execute(_REJOINS, limits).all()
    return TuningPast(
        question=question,
        from_ms=limits["from_ms"],
        days=tuple(Day(day[0], day.heartbeats, tuple(day[5:]), day.longest_gap_ms) for day in days),
        evictions=tuple(_evictions(gone, limits["from_ms"])),
        rejoins_ms=tuple(length_ms for wait in waits for length_ms in wait.rejoins_ms or ()),
        waits_ms=tuple(wait.wait_ms for wait in waits),
        rebalances=tuple(reversed([PastRebalance(*row) for row in transaction.execute(_REBALANCES, limits)])),
        asked_session_ms=asked_session_ms,
        asked_rebalance_ms=asked_rebalance_ms,
        assigned=Assigned(*transaction.execute(_ASSIGNED, limits).one()),
        stored=_read_stored(transaction, question.group_id),
    )


def _evictions(gone: Iterable[Row[*tuple[Any, ...]]], from_ms: int) -> Iterator[Eviction]:
    """Read evictions; one by a limit on rejoining is known when its rebalance is over."""
    for row in gone:
        if row.limit_ms is not None and row.at_ms >= from_ms:
            *columns, limit_ms, back_at_ms, has_successor = row
            yield evicted(EndedStay(*columns), limit_ms, back_at_ms, has_successor=has_successor)


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
        because=row[f"{name}_because"],
        effect=row[f"{name}_effect"],
    )
