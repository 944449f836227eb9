"""Endpoint for the member sessions of a group: how each ended, its heartbeats, and whether its client reconnected.

Any node answers, also for deleted groups.

Source: http-api.md "History"; tables.md, `member_sessions`, for the columns.
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from api.http.cursors import AtMs, Name, page_of, read_cursor
from api.http.fast_path import REQUEST
from api.http.fields import GroupId, PageLimit
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from api.http.times import instant_or_none, parse_instant_ms
from coordinator_core.analytics.eviction_cause import EvictionCause
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.queries.member_sessions import (
    ListedMemberSession,
    MemberSessionCursor,
    MemberSessionFilter,
    read_member_sessions,
)
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS

TAGS: Final = ["Operators: history"]


class MemberSessionResponse(Struct):
    """A member session, or an hour of it (`end_reason` hour: the session continues)."""

    group_id: str
    shard_id: int
    group_created_at: datetime
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    generation: int
    session_timeout_ms: int
    joined_at: datetime
    started_at: datetime
    ended_at: datetime
    end_reason: str
    last_heartbeat_at: datetime | None
    heartbeat_count: int | None
    """Null: not measured, as of a mirrored group."""
    heartbeat_gap_ms_max: int | None
    heartbeat_gap_histogram: list[int] | None
    """The number of gaps by length: up to 1 ms, 2 ms, 4 ms … 2^21 ms, and longer. Null as above."""
    reconnected_at: datetime | None
    """When the same client joined again, if within a minute."""
    successor_at: datetime | None
    """When the same client joined again before this member was evicted, which shows that this member was dead."""
    cause: EvictionCause | None
    """Of an evicted member: `silent`, or of a live one `late_join` or `late_sync`; null: not evicted."""
    late_by_ms: int | None
    """Of a live evicted member: how long after its eviction the client joined, if within a minute."""


class MemberSessionsResponse(Struct):
    """A page of member sessions, the latest end first; `next_cursor` is null on the last page."""

    member_sessions: list[MemberSessionResponse]
    next_cursor: str | None


FromParam: TypeAlias = Annotated[
    str, QueryParameter(name="from", description="RFC 3339; sessions that ended then or later")
]
ToParam: TypeAlias = Annotated[str, QueryParameter(name="to", description="RFC 3339; sessions that ended before")]
EndReasonParam: TypeAlias = Annotated[
    list[str] | None, QueryParameter(name="end_reason", description="only sessions with this end reason; repeatable")
]


@get("/v1/groups/{group_id:str}/member-sessions", tags=TAGS, opt={REQUEST: "ListMemberSessions"})
async def list_member_sessions(
    context: CurrentRequest,
    group_id: GroupId,
    from_: FromParam = "",
    to: ToParam = "",
    end_reason: EndReasonParam = None,
    limit: PageLimit = 100,
    cursor: FromQuery[str] = "",
) -> MemberSessionsResponse:
    """List member sessions, the latest end first, with end reason, heartbeats and reconnection."""
    session_filter = MemberSessionFilter(
        group_id,
        from_ms=parse_instant_ms(from_, "from") if from_ else 0,
        to_ms=parse_instant_ms(to, "to") if to else END_OF_TIME_MS,
        end_reasons=tuple(end_reason or ()),
    )
    if session_filter.from_ms > session_filter.to_ms:
        raise InvalidRequest("from must not be after to")
    if any("\0" in reason for reason in session_filter.end_reasons):
        raise InvalidRequest("an end_reason must not hold NUL")
    after = read_cursor(cursor, tuple[AtMs, Name, AtMs])
    found = await context.query(read_member_sessions, session_filter, after and MemberSessionCursor(*after), limit + 1)
    page, next_cursor = page_of(found, lambda each: each.cursor, limit)
    return MemberSessionsResponse([_member_session(each) for each in page], next_cursor)


def _member_session(listed: ListedMemberSession) -> MemberSessionResponse:
    return response_of(
        MemberSessionResponse,
        listed.row,
        reconnected_at=instant_or_none(listed.reconnected_at_ms),
        successor_at=instant_or_none(listed.successor_at_ms),
        cause=listed.cause,
        late_by_ms=listed.late_by_ms,
    )
