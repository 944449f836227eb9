"""Lists of member sessions, the newest first, each with the time at which the same client reconnected.

The same client is the same instance id, or without one the same client id from the same host, under another member id.
If it joined again while the old member was silent, before the eviction, the old member was dead: this join is the
*successor*, and there is no reconnect.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from coordinator_core.analytics.eviction_cause import EvictionCause, eviction_cause
from coordinator_core.analytics.frequency import EVICTION_REASONS
from coordinator_core.queries.groups import OF_PRESENT_GROUP, known
from coordinator_core.state_store.ledger import ONGOING
from coordinator_core.state_store.member_sessions import INTERVAL_MS
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS, SQL_MS
from coordinator_core.state_store.rows import MemberSessionRow

RECONNECT_WINDOW_MS: Final = 60_000
"""A later join after the end of a session is no reconnect. The view `spurious_evictions` uses the same limit."""


class MemberSessionCursor(NamedTuple):
    """The last row of a page of member sessions."""

    ended_at_ms: int
    member_id: str
    started_at_ms: int
    """A member has two rows that end at one time, if one has no length."""


@dataclass(frozen=True, slots=True)
class MemberSessionFilter:
    """Selects rows of `member_sessions`."""

    group_id: str
    from_ms: int = 0
    to_ms: int = END_OF_TIME_MS
    """The end of the time range, exclusive; rows are selected by `ended_at`."""
    end_reasons: tuple[str, ...] = ()
    """Empty: any."""
    present_only: bool = False
    """Whether rows of former groups of that name are left out; none is left out if the group is deleted."""


@dataclass(frozen=True, slots=True)
class ListedMemberSession:
    """A row of `member_sessions`, and when its client reconnected."""

    row: MemberSessionRow
    reconnected_at_ms: int | None
    """None: not within RECONNECT_WINDOW_MS, or the session continues, or the member had a successor already."""
    successor_at_ms: int | None = None
    """Of an evicted member: when its client had joined again before the eviction, after the last heartbeat."""

    @property
    def silent_ms(self) -> int:
        """Return the time from the member's last activity in this row to the end of its session."""
        since_ms = self.row.started_at_ms if self.row.last_heartbeat_at_ms is None else self.row.last_heartbeat_at_ms
        return max(0, self.row.ended_at_ms - since_ms)

    @property
    def cause(self) -> EvictionCause | None:
        """Return why the member was evicted; None if it was not."""
        row = self.row
        return eviction_cause(row.end_reason, self.silent_ms, row.heartbeat_gap_ms_max, row.session_timeout_ms)

    @property
    def late_by_ms(self) -> int | None:
        """Return how long after its eviction a live member joined; None unless it was evicted alive and reconnected."""
        is_late = self.cause in {EvictionCause.LATE_JOIN, EvictionCause.LATE_SYNC}
        return self.reconnected_at_ms - self.row.ended_at_ms if is_late and self.reconnected_at_ms is not None else None

    @property
    def cursor(self) -> MemberSessionCursor:
        """Return the cursor of a page that ends here."""
        return MemberSessionCursor(self.row.ended_at_ms, self.row.member_id, self.row.started_at_ms)


_NEWEST_FIRST: Final = 'ended_at DESC, member_id COLLATE "C" DESC, started_at DESC'
_SILENT_SINCE: Final = "least(coalesce(page.last_heartbeat_at, page.started_at), page.ended_at)"


def _page(after: str) -> str:
    return f"""
WITH page AS (
    SELECT *
    FROM member_sessions
    WHERE group_id = %(group_id)s
        AND ended_at >= to_timestamp(%(from_ms)s / 1000.0) AND ended_at < to_timestamp(%(to_ms)s / 1000.0)
        AND (%(end_reasons)s::text[] = '{{}}' OR end_reason = ANY(%(end_reasons)s::text[]))
        AND (NOT %(present_only)s OR {OF_PRESENT_GROUP})
        {after}
    ORDER BY {_NEWEST_FIRST}
    LIMIT %(limit)s
), joiners AS MATERIALIZED (
    SELECT member_id, group_instance_id, client_id, client_host, joined_at FROM members WHERE group_id = %(group_id)s
    UNION
    SELECT member_id, group_instance_id, client_id, client_host, joined_at
    FROM member_sessions
    WHERE group_id = %(group_id)s AND ended_at >= (SELECT min({_SILENT_SINCE}) FROM page)
        AND ended_at <= (SELECT max(ended_at) FROM page) + %(written_within_ms)s * interval '1 millisecond'
        AND joined_at >= (SELECT min({_SILENT_SINCE}) FROM page)
)
SELECT group_id, shard_id, {SQL_MS.format("group_created_at")}, member_id, group_instance_id, client_id, client_host,
    generation, session_timeout_ms, {SQL_MS.format("joined_at")}, {SQL_MS.format("started_at")},
    {SQL_MS.format("ended_at")}, end_reason, {SQL_MS.format("last_heartbeat_at")}, heartbeat_count,
    heartbeat_gap_ms_max, heartbeat_gap_histogram,
    CASE WHEN reconnect.successor_at IS NULL THEN {SQL_MS.format("reconnect.reconnected_at")} END,
    {SQL_MS.format("reconnect.successor_at")}
FROM page
LEFT JOIN LATERAL (
    SELECT min(joiners.joined_at) FILTER (WHERE joiners.joined_at >= page.ended_at) AS reconnected_at,
        min(joiners.joined_at) FILTER (WHERE joiners.joined_at < page.ended_at) AS successor_at
    FROM joiners
    WHERE page.end_reason <> '{ONGOING}'
        AND joiners.member_id <> page.member_id
        AND joiners.group_instance_id IS NOT DISTINCT FROM page.group_instance_id
        AND (page.group_instance_id IS NOT NULL
            OR (joiners.client_id, joiners.client_host) = (page.client_id, page.client_host))
        AND (joiners.joined_at >= page.ended_at
            OR (page.end_reason = ANY(%(silences)s::text[]) AND joiners.joined_at > {_SILENT_SINCE}))
        AND joiners.joined_at <= page.ended_at + %(back_within_ms)s * interval '1 millisecond'
) AS reconnect ON true
ORDER BY {_NEWEST_FIRST}
"""  # noqa: S608 - words of ours


_FIRST: Final = _page("")
_NEXT: Final = _page(
    """AND ended_at <= to_timestamp(%(after_ms)s / 1000.0)
        AND (ended_at, member_id COLLATE "C", started_at)
            < (to_timestamp(%(after_ms)s / 1000.0), %(after_id)s, to_timestamp(%(after_start_ms)s / 1000.0))"""
)


def read_member_sessions(
    transaction: Transaction, which: MemberSessionFilter, after: MemberSessionCursor | None, limit: int
) -> list[ListedMemberSession]:
    """Return at most `limit` member sessions after a cursor, the newest first, then by member id and start backwards.

    Each page is one statement that uses the index on group and time. A client that reconnected within a minute is a
    member now, or has a row that ends within the next hour, so no later rows are read.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
    parameters = {
        **asdict(which),
        "end_reasons": list(which.end_reasons),
        "limit": limit,
        "silences": list(EVICTION_REASONS),
        "back_within_ms": RECONNECT_WINDOW_MS,
        "written_within_ms": RECONNECT_WINDOW_MS + 2 * INTERVAL_MS,  # An interval may be stored as late as it is long.
    }
    if after is not None:
        place = {"after_ms": after.ended_at_ms, "after_id": after.member_id, "after_start_ms": after.started_at_ms}
        parameters |= place
    rows = transaction.execute(_FIRST if after is None else _NEXT, parameters)
    return known(transaction, which.group_id, [_listed(*row) for row in rows])


def _listed(*found: Any) -> ListedMemberSession:  # noqa: ANN401 - columns of several types
    *columns, reconnected_at_ms, successor_at_ms = found
    row = MemberSessionRow(*columns)
    if row.heartbeat_gap_histogram is not None:
        row = replace(row, heartbeat_gap_histogram=tuple(row.heartbeat_gap_histogram))
    return ListedMemberSession(row, reconnected_at_ms, successor_at_ms)
