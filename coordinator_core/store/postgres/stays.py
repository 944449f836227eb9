"""A page of a group's stays is one statement over what the index on group and time finds.

A client that was back within a minute has a row that ends within the hour after, or is a member to this day, so no more
than that is looked at. One that joined again while its member was silent, before that was put out, is no return.
"""

from dataclasses import replace
from typing import Any, Final

from coordinator_core.protocol.reports.frequency import SILENCES
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.rows import MemberSessionRow
from coordinator_core.store.stay_lists import BACK_WITHIN_MS, GOES_ON, ListedStay, StayFilter, StayPlace

TOLD_EVERY_MS: Final = 3_600_000
"""A stay that goes on has a row an hour; a late one is allowed for by as much again."""

_MS: Final = "floor(extract(epoch FROM {}) * 1000)::bigint"

_SILENT_SINCE: Final = "least(coalesce(page.last_heartbeat_at, page.started_at), page.ended_at)"


def _page(after: str) -> str:
    return f"""
WITH page AS (
    SELECT *
    FROM member_sessions
    WHERE group_id = %(group_id)s
        AND ended_at >= to_timestamp(%(from_ms)s / 1000.0) AND ended_at < to_timestamp(%(to_ms)s / 1000.0)
        AND (%(end_reasons)s::text[] = '{{}}' OR end_reason = ANY(%(end_reasons)s::text[]))
        {after}
    ORDER BY ended_at DESC, member_id COLLATE "C" DESC
    LIMIT %(limit)s
), comers AS MATERIALIZED (
    SELECT member_id, group_instance_id, client_id, client_host, joined_at FROM members WHERE group_id = %(group_id)s
    UNION
    SELECT member_id, group_instance_id, client_id, client_host, joined_at
    FROM member_sessions
    WHERE group_id = %(group_id)s AND ended_at >= (SELECT min({_SILENT_SINCE}) FROM page)
        AND ended_at <= (SELECT max(ended_at) FROM page) + %(told_within_ms)s * interval '1 millisecond'
        AND joined_at >= (SELECT min({_SILENT_SINCE}) FROM page)
)
SELECT group_id, shard_id, {_MS.format("group_created_at")}, member_id, group_instance_id, client_id, client_host,
    generation, session_timeout_ms, {_MS.format("joined_at")}, {_MS.format("started_at")}, {_MS.format("ended_at")},
    end_reason, {_MS.format("last_heartbeat_at")}, heartbeat_count, heartbeat_gap_ms_max, heartbeat_gap_histogram,
    CASE WHEN came.as_successor_at IS NULL THEN {_MS.format("came.back_at")} END, {_MS.format("came.as_successor_at")}
FROM page
LEFT JOIN LATERAL (
    SELECT min(comers.joined_at) FILTER (WHERE comers.joined_at >= page.ended_at) AS back_at,
        min(comers.joined_at) FILTER (WHERE comers.joined_at < page.ended_at) AS as_successor_at
    FROM comers
    WHERE page.end_reason <> '{GOES_ON}'
        AND comers.member_id <> page.member_id
        AND comers.group_instance_id IS NOT DISTINCT FROM page.group_instance_id
        AND (page.group_instance_id IS NOT NULL
            OR (comers.client_id, comers.client_host) = (page.client_id, page.client_host))
        AND (comers.joined_at >= page.ended_at
            OR (page.end_reason = ANY(%(silences)s::text[]) AND comers.joined_at > {_SILENT_SINCE}))
        AND comers.joined_at <= page.ended_at + %(back_within_ms)s * interval '1 millisecond'
) AS came ON true
ORDER BY ended_at DESC, member_id COLLATE "C" DESC
"""  # noqa: S608 - words of ours


_FIRST: Final = _page("")
_NEXT: Final = _page(
    """AND ended_at <= to_timestamp(%(after_ms)s / 1000.0)
        AND (ended_at, member_id COLLATE "C") < (to_timestamp(%(after_ms)s / 1000.0), %(after_id)s)"""
)


def read_stays(transaction: Transaction, which: StayFilter, after: StayPlace | None, limit: int) -> list[ListedStay]:
    """Return a page of stays, the newest first."""
    parameters = {
        "group_id": which.group_id,
        "from_ms": which.from_ms,
        "to_ms": which.to_ms,
        "end_reasons": list(which.end_reasons),
        "limit": limit,
        "silences": list(SILENCES),
        "back_within_ms": BACK_WITHIN_MS,
        "told_within_ms": BACK_WITHIN_MS + 2 * TOLD_EVERY_MS,
    }
    if after is not None:
        parameters |= {"after_ms": after.ended_at_ms, "after_id": after.member_id}
    rows = transaction.execute(_FIRST if after is None else _NEXT, parameters)
    return [_listed(*row) for row in rows]


def _listed(*found: Any) -> ListedStay:  # noqa: ANN401 - columns of several types
    *columns, back_at_ms, successor_at_ms = found
    row = MemberSessionRow(*columns)
    told = replace(row, heartbeat_gap_histogram=tuple(row.heartbeat_gap_histogram))
    return ListedStay(told, back_at_ms, successor_at_ms)
