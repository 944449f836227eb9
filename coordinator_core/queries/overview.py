"""The overview of groups: its filter, its orders, and its result: a page of groups, and the number of groups by state.

An order assigns an integer key to each group; groups are sorted by key and then by id. A page ends at a *cursor* of
both, and the next page starts after it. A group whose key changes in between may be on both pages or on neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from coordinator_core.protocol.log_ends import LAG_MAX_RECORDS
from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.queries.group_patterns import COVERED_GROUPS, GroupPatterns, pattern_parameters
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import SQL_MS

RECENT_MS: Final = 3_600_000
"""Rebalances that ended within this time are counted."""
REBALANCING_STATES: Final = (PREPARING, COMPLETING)
"""The states of a rebalance in progress."""
LAG_UNKNOWN_KEY: Final = 1
"""The key of a group with an unknown lag: after those without lag."""


class GroupOrder(StrEnum):
    """The order of the groups."""

    ATTENTION = "attention"
    """Rebalancing groups, then those that rebalanced most often within the last hour, then those with members."""
    GROUP_ID = "group_id"
    SINCE = "since"
    """Groups that have been in their state for longest come first."""
    MEMBERS = "members"
    LAG = "lag"
    REBALANCES = "rebalances"


class OverviewCursor(NamedTuple):
    """The last group of a page."""

    key: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewFilter:
    """Selects groups that are not dead."""

    text: str = ""
    """A substring of the id; ASCII letters match in either case."""
    states: frozenset[str] = frozenset()
    """Empty: every state."""
    patterns: GroupPatterns | None = None
    """The groups that are covered; None: all."""
    order: GroupOrder = GroupOrder.ATTENTION
    after: OverviewCursor | None = None
    limit: int = 100
    fresh_since_ms: int = 0
    """A log end that was last reported before this time is stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in the overview."""

    key: int
    group_id: str
    state: str
    state_since_ms: int
    generation: int
    protocol_type: str | None
    member_count: int
    node_id: str | None
    rebalance_started_at_ms: int | None
    rebalance_trigger: str | None
    """Of the rebalance in progress."""
    rebalances_last_hour: int
    """The number that ended within the last hour."""
    lag: int | None
    """None: no log end is known, or it is a lower bound of 0."""
    is_lag_lower_bound: bool
    """Whether it is a lower bound, because a log end is stale."""
    log_end_at_ms: int | None
    """When the log ends of its partitions were last reported: the oldest of these times."""
    last_rebalance_trigger: str | None
    last_rebalance_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Overview:
    """A page of groups, and the number of groups by state, including states that the filter leaves out."""

    counts: Mapping[str, int]
    groups: list[GroupSummary]


def _shown(column: str) -> str:
    """Return a time within the range of Python: a row that was edited by hand may have infinity."""
    return f"least(greatest({column}, '1970-01-01 00:00:00+00'), '9999-12-31 23:59:59+00')"


_RECENT: Final = """
LEFT JOIN (
    SELECT group_id, group_created_at AS created_at, count(*) AS rebalances FROM rebalances
    WHERE completed_at > now() - %(recent_ms)s * interval '1 ms' GROUP BY 1, 2
) AS recent USING (group_id, created_at)
"""
LAG_COLUMNS: Final = f"""
        CASE WHEN sum(greatest(log_end_offset - committed_offset, 0)) > 0
                OR min(log_end_at) >= to_timestamp(%(fresh_since_ms)s / 1000.0)
            THEN least(sum(greatest(log_end_offset - committed_offset, 0)), {LAG_MAX_RECORDS})::bigint END AS lag,
        coalesce(min(log_end_at) < to_timestamp(%(fresh_since_ms)s / 1000.0), false) AS is_lag_lower_bound,
        floor(extract(epoch FROM min(log_end_at)) * 1000)::bigint AS log_end_at_ms
"""
"""Of `known_log_ends`: the sum over partitions with a known log end; a lower bound of 0 becomes null."""
_LAG: Final = f"SELECT group_id, {LAG_COLUMNS} FROM dashboards.known_log_ends"  # noqa: S608 - all of it is written here
_LAG_BY_GROUP: Final = f"""
LEFT JOIN (
    {_LAG} GROUP BY group_id
) AS behind USING (group_id)
"""
_REBALANCES: Final = "coalesce(recent.rebalances, 0)"
_ATTENTION: Final = (
    "-((state = ANY(%(rebalancing)s::text[]))::int::bigint * 1000000000000"
    f" + {_REBALANCES} * 10 + (member_count > 0)::int)"
)
_KEYS: Final[dict[GroupOrder, tuple[str, str]]] = {
    GroupOrder.ATTENTION: (_ATTENTION, _RECENT),
    GroupOrder.GROUP_ID: ("0", ""),
    GroupOrder.SINCE: (SQL_MS.format(_shown("state_since")), ""),
    GroupOrder.MEMBERS: ("-member_count", ""),
    GroupOrder.LAG: ("coalesce(-behind.lag, %(lag_unknown)s)", _LAG_BY_GROUP),
    GroupOrder.REBALANCES: (f"-{_REBALANCES}", _RECENT),
}
"""An order → the SQL expression of its key, and the joins that it needs."""

_OVERVIEW: Final = """
WITH matching AS (
    SELECT groups.*, ({key})::bigint AS key
    FROM groups {joins}
    WHERE state <> 'Dead' AND strpos(lower(group_id), %(text)s) > 0
        AND {covered}
),
page AS (
    SELECT * FROM matching
    WHERE (%(states)s::text[] = '{{}}' OR state = ANY(%(states)s::text[]))
        AND (%(after_key)s::bigint IS NULL OR (key, group_id) > (%(after_key)s::bigint, %(after_id)s::text COLLATE "C"))
    ORDER BY key, group_id LIMIT %(limit)s
),
counts AS (
    SELECT coalesce(jsonb_object_agg(state, number), '{{}}') AS counts
    FROM (SELECT state, count(*) AS number FROM matching GROUP BY state) AS by_state
)
SELECT counts.counts, page.key, page.group_id, page.state, {since},
    page.generation, page.protocol_type, page.member_count, shard_leases.node_id,
    CASE WHEN page.rebalance_started_at IS NOT NULL THEN {started} END, page.rebalance_trigger,
    (SELECT count(*) FROM rebalances
        WHERE group_id = page.group_id AND group_created_at = page.created_at
            AND completed_at > now() - %(recent_ms)s * interval '1 ms'),
    lag.lag, coalesce(lag.is_lag_lower_bound, false), lag.log_end_at_ms,
    last.trigger, floor(extract(epoch FROM last.completed_at) * 1000)::bigint
FROM counts
LEFT JOIN page ON true
LEFT JOIN shard_leases USING (shard_id)
LEFT JOIN LATERAL (
    {lag} WHERE group_id = page.group_id GROUP BY group_id
) AS lag ON true
LEFT JOIN LATERAL (
    SELECT trigger, completed_at FROM rebalances
    WHERE rebalances.group_id = page.group_id AND rebalances.group_created_at = page.created_at
    ORDER BY completed_at DESC LIMIT 1
) AS last ON true
ORDER BY page.key, page.group_id
"""

_STATEMENTS: Final = {
    order: _OVERVIEW.format(
        key=key,
        joins=joins,
        covered=COVERED_GROUPS,
        lag=_LAG,
        since=SQL_MS.format(_shown("page.state_since")),
        started=SQL_MS.format(_shown("page.rebalance_started_at")),
    )
    for order, (key, joins) in _KEYS.items()
}


def read_overview(transaction: Transaction, which: OverviewFilter) -> Overview:
    """Return a page of groups, and the number of groups by state that match text and patterns."""
    rows = list(transaction.execute(_STATEMENTS[which.order], _parameters(which)))
    return Overview(rows[0][0], [_summary(*row[1:]) for row in rows if row[2] is not None])


def _parameters(which: OverviewFilter) -> dict[str, Any]:
    return {
        "text": which.text.encode().lower().decode(),
        "states": sorted(which.states),
        **pattern_parameters(which.patterns),
        "after_key": which.after and which.after.key,
        "after_id": which.after and which.after.group_id,
        "limit": which.limit,
        "recent_ms": RECENT_MS,
        "rebalancing": [str(state) for state in REBALANCING_STATES],
        "lag_unknown": LAG_UNKNOWN_KEY,
        "fresh_since_ms": which.fresh_since_ms,
    }


def _summary(*row: Any) -> GroupSummary:  # noqa: ANN401 - columns of a row
    return GroupSummary(**dict(zip(_SUMMARY, row, strict=True)))


_SUMMARY: Final = tuple(GroupSummary.__dataclass_fields__)
