"""Members' stays over HTTP: how each ended, how well it kept in touch, and whether its client was back at once.

Any node answers, of groups that are gone too.

Source: http-api.md "The ledger", for how history is paged; tables.md, `member_sessions`, for the columns.
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from api.http.call import ThisCall
from api.http.cursors import AtMs, Name, read_cursor, write_cursor
from api.http.express import REQUEST
from api.http.fields import GroupId, PageLimit
from api.http.times import instant, instant_or_none, moment_ms
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.reports.eviction_cause import EvictionCause
from coordinator_core.store.history import END_OF_TIME_MS
from coordinator_core.store.stay_lists import ListedStay, StayFilter, StayPlace

TAGS: Final = ["Operators: history"]


class StayShown(Struct):
    """A member's stay, or an hour of it (`end_reason` hour: it goes on)."""

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
    heartbeat_count: int
    heartbeat_gap_ms_max: int | None
    heartbeat_gap_histogram: list[int]
    """How many gaps were at most 1 ms, 2 ms, 4 ms … 2^21 ms long, each beyond the bound before; the last: longer."""
    back_at: datetime | None
    """When the same client joined again, if within a minute."""
    successor_at: datetime | None
    """Of who was put out: when the same client had joined again before that, so that this member was dead."""
    cause: EvictionCause | None
    """Of an evicted member: `silent`, or alive and `late_join` or `late_sync`; null: it was not evicted."""
    late_by_ms: int | None
    """Of a live member: how long after its eviction the client joined, if within a minute."""


class StaysAnswer(Struct):
    """A page of stays, the newest end first; `next_cursor` asks for the next one, and is null on the last."""

    stays: list[StayShown]
    next_cursor: str | None


FromAsked: TypeAlias = Annotated[str, QueryParameter(name="from", description="RFC 3339; ended then or later")]
ToAsked: TypeAlias = Annotated[str, QueryParameter(name="to", description="RFC 3339; ended before then")]
EndsAsked: TypeAlias = Annotated[
    list[str] | None, QueryParameter(name="end_reason", description="only stays that ended so; repeatable")
]


@get("/v1/groups/{group_id:str}/stays", tags=TAGS, opt={REQUEST: "ListStays"})
async def list_stays(
    call: ThisCall,
    group_id: GroupId,
    from_: FromAsked = "",
    to: ToAsked = "",
    end_reason: EndsAsked = None,
    limit: PageLimit = 100,
    cursor: FromQuery[str] = "",
) -> StaysAnswer:
    """List members' stays, the newest end first: how each ended, its heartbeats, and when its client was back."""
    which = StayFilter(
        group_id,
        from_ms=moment_ms(from_, "from") if from_ else 0,
        to_ms=moment_ms(to, "to") if to else END_OF_TIME_MS,
        end_reasons=tuple(end_reason or ()),
    )
    if which.from_ms > which.to_ms:
        raise InvalidRequest("from must not be after to")
    if any("\0" in reason for reason in which.end_reasons):
        raise InvalidRequest("an end_reason must not hold NUL")
    place = read_cursor(cursor, tuple[AtMs, Name])
    found = await call.coordinator.history.stays(which, place and StayPlace(*place), limit + 1)
    page = found[:limit]
    next_cursor = write_cursor(*page[-1].place) if len(found) > limit else None
    return StaysAnswer([_stay(each) for each in page], next_cursor)


def _stay(listed: ListedStay) -> StayShown:
    row = listed.row
    return StayShown(
        group_id=row.group_id,
        shard_id=row.shard_id,
        group_created_at=instant(row.group_created_at_ms),
        member_id=row.member_id,
        group_instance_id=row.group_instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        generation=row.generation,
        session_timeout_ms=row.session_timeout_ms,
        joined_at=instant(row.joined_at_ms),
        started_at=instant(row.started_at_ms),
        ended_at=instant(row.ended_at_ms),
        end_reason=row.end_reason,
        last_heartbeat_at=instant_or_none(row.last_heartbeat_at_ms),
        heartbeat_count=row.heartbeat_count,
        heartbeat_gap_ms_max=row.heartbeat_gap_ms_max,
        heartbeat_gap_histogram=list(row.heartbeat_gap_histogram),
        back_at=instant_or_none(listed.back_at_ms),
        successor_at=instant_or_none(listed.successor_at_ms),
        cause=listed.cause,
        late_by_ms=listed.late_by_ms,
    )
