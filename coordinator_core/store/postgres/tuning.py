"""What a group's past tells of its timeouts is found by a few statements that look at that group's rows only.

Each names the column by which its table is partitioned, looks at a bounded number of rows, the newest, and adds up in
the database whatever can be added up there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Row, RowMapping, select

from coordinator_core.protocol.advice.evidence import GAP_BOUNDS_MS, Day
from coordinator_core.protocol.advice.policy import Advice
from coordinator_core.protocol.advice.what_if import Eviction
from coordinator_core.store.advice_tables import ADVISED, timeout_advice
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.instants import as_ms
from coordinator_core.store.tuning import DAY_MS, Start, StoredAdvice, TuningPast, TuningQuestion, evicted

GAP_SUMS: Final = ", ".join(f"coalesce(sum(gaps[{place}]), 0)::bigint" for place in range(1, len(GAP_BOUNDS_MS) + 2))

_MS: Final = "floor(extract(epoch FROM {}) * 1000)::bigint"

_IDENTITY: Final = (
    "CASE WHEN group_instance_id IS NULL THEN ARRAY[client_id, client_host] ELSE ARRAY[group_instance_id] END"
)
"""Who a member is, whatever its id: its instance, or else its client id and host."""

_SILENT_SINCE: Final = (
    "least(coalesce(gone.last_heartbeat_at, gone.started_at), gone.ended_at - interval '1 microsecond')"
)
"""Who joined after that and before the eviction is the successor of a dead member: that one is not back."""

_EVICTIONS: Final = f"""
WITH gone AS (
    SELECT *, {_IDENTITY} AS identity
    FROM member_sessions
    WHERE group_id = %(group_id)s AND end_reason IN ('session_expired', 'rebalance_timeout')
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
), back AS (
    SELECT gone.member_id, gone.ended_at,
        CASE WHEN min(arrivals.joined_at) >= gone.ended_at THEN min(arrivals.joined_at) END AS back_at
    FROM gone
    JOIN arrivals ON arrivals.identity = gone.identity
        AND arrivals.member_id <> gone.member_id
        AND arrivals.joined_at > {_SILENT_SINCE}
        AND arrivals.joined_at <= gone.ended_at + %(grace_ms)s * interval '1 millisecond'
    GROUP BY gone.member_id, gone.ended_at
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
    {_MS.format("gone.ended_at")} AS at_ms,
    CASE gone.end_reason WHEN 'session_expired' THEN gone.session_timeout_ms ELSE waited.waited_for_ms END AS limit_ms,
    {_MS.format("back.back_at")} AS back_at_ms
FROM gone
LEFT JOIN back ON (back.member_id, back.ended_at) = (gone.member_id, gone.ended_at)
LEFT JOIN waited ON waited.member_id = gone.member_id AND gone.end_reason = 'rebalance_timeout'
    AND gone.ended_at BETWEEN waited.started_at AND waited.completed_at
WHERE back.back_at IS NOT NULL OR gone.ended_at < to_timestamp((%(to_ms)s - %(grace_ms)s) / 1000.0)
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

_REJOINS: Final = """
SELECT least(part.joined_after_ms, part.waited_for_ms)
FROM rebalances AS past
JOIN rebalance_members AS part
    ON (part.rebalance_id, part.completed_at) = (past.rebalance_id, past.completed_at)
    AND part.completed_at >= to_timestamp(%(from_ms)s / 1000.0) AND part.completed_at < to_timestamp(%(to_ms)s / 1000.0)
WHERE past.group_id = %(group_id)s AND part.outcome = 'joined' AND part.waited_for_ms > 0
    AND part.joined_after_ms IS NOT NULL
    AND past.completed_at >= to_timestamp(%(from_ms)s / 1000.0) AND past.completed_at < to_timestamp(%(to_ms)s / 1000.0)
ORDER BY past.completed_at DESC
LIMIT %(max_rows)s
"""

_STARTS: Final = f"""
SELECT {_MS.format("started_at")}, {_MS.format("joined_at")}, trigger, restarts, member_count_before
FROM rebalances
WHERE group_id = %(group_id)s
    AND completed_at >= to_timestamp(%(from_ms)s / 1000.0) AND completed_at < to_timestamp(%(to_ms)s / 1000.0)
ORDER BY completed_at DESC
LIMIT %(max_rows)s
"""  # noqa: S608 - words of ours

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
    return TuningPast(
        question=question,
        from_ms=limits["from_ms"],
        days=tuple(Day(day[0], day.heartbeats, tuple(day[5:]), day.longest_gap_ms) for day in days),
        evictions=tuple(_evictions(gone, limits["from_ms"])),
        rejoins_ms=tuple(length_ms for (length_ms,) in transaction.execute(_REJOINS, limits)),
        starts=tuple(reversed([Start(*row) for row in transaction.execute(_STARTS, limits)])),
        asked_session_ms=asked_session_ms,
        asked_rebalance_ms=asked_rebalance_ms,
        stored=_read_stored(transaction, question.group_id),
    )


def _evictions(gone: Iterable[Row[*tuple[Any, ...]]], from_ms: int) -> Iterator[Eviction]:
    """Read evictions; one by a limit on rejoining is known when its rebalance is over."""
    for row in gone:
        if row.limit_ms is not None and row.at_ms >= from_ms:
            yield evicted(*row)


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
