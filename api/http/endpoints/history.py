"""Endpoints for the history of a group: rebalances, their members, state transitions, partition ownership.

Rows have the columns of the tables of the same names. Any node answers, also for deleted groups.

Source: http-api.md "History".
"""

import re
from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Meta, Struct

from api.http.cursors import UUID_LETTERS, AtMs, Int32, Name, UuidText, page_after, page_of, read_cursor, write_cursor
from api.http.fast_path import REQUEST
from api.http.fields import GroupId, LongPageLimit, PageLimit, PartitionParam
from api.http.limits import LONG_PAGE_MAX
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from api.http.times import epoch_ms, parse_instant
from api.shared.limits import TOPIC_MAX_CHARS
from coordinator_core.analytics.waiting import Wait, rank_waits
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.queries.ownership import (
    Moment,
    OffsetAtTime,
    PartitionOwnership,
    read_offsets_at,
    read_ownership,
)
from coordinator_core.queries.rebalances import (
    RebalanceCursor,
    read_rebalance_members,
    read_rebalances,
    rebalance_cursor,
)
from coordinator_core.queries.transitions import TransitionCursor, cursor_of, read_transitions
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS
from coordinator_core.state_store.rows import RebalanceMemberRow

TAGS: Final = ["Operators: history"]

# -- rebalances -------------------------------------------------------------------------------------------


class RebalanceResponse(Struct):
    """A rebalance; in progress while `completed_at` is null."""

    rebalance_id: str
    group_id: str
    shard_id: int
    group_created_at: datetime
    generation: int
    trigger: str
    trigger_member_id: str | None
    client_reason: str | None
    started_at: datetime
    joined_at: datetime | None
    completed_at: datetime | None
    outcome: str | None
    restarts: int
    member_count_before: int
    member_count_after: int | None
    partitions_moved: int | None
    is_trigger_inferred: bool
    """Whether the trigger is inferred from the members before and after, as of a mirrored group."""
    is_start_inferred: bool
    """Whether `started_at` is the end of the join phase, because its start was not observed."""


class RebalancesResponse(Struct):
    """A page of rebalances, the newest first; `next_cursor` is null on the last page."""

    rebalances: list[RebalanceResponse]
    next_cursor: str | None


@get("/v1/groups/{group_id:str}/rebalances", tags=TAGS, opt={REQUEST: "ListRebalances"})
async def list_rebalances(
    context: CurrentRequest, group_id: GroupId, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> RebalancesResponse:
    """List a group's rebalances, the newest first, with trigger, duration and outcome."""
    after = read_cursor(cursor, tuple[AtMs, UuidText])
    found = await context.query(read_rebalances, group_id, after and RebalanceCursor(*after), limit + 1)
    page, next_cursor = page_of(found, rebalance_cursor, limit)
    return RebalancesResponse([response_of(RebalanceResponse, each) for each in page], next_cursor)


# -- members of a rebalance -------------------------------------------------------------------------------

Place = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""The number of members on the pages before: a rebalance that is over does not change."""


class RebalanceMemberResponse(Struct):
    """A member of a completed rebalance; `…_after_ms` count from the start of the rebalance."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    joined_after_ms: int | None
    synced_after_ms: int | None
    waited_for_ms: int | None
    """Null: not measured, as of a mirrored group."""
    outcome: str


class ConsumerWaitResponse(Struct):
    """How long the rebalance waited for one consumer, which is an instance id, or else a client id and a host."""

    member_id: str
    """The member of the consumer that was waited for longest; `outcome` is that member's."""
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_count: int
    """The number of member ids of the consumer that the rebalance waited for."""
    waited_for_ms: int
    outcome: str


class RebalanceMembersResponse(Struct):
    """A page of the members of a rebalance, and one of the consumers that it waited for; the longest waits first."""

    group_id: str
    rebalance_id: str
    members: list[RebalanceMemberResponse]
    waited_for: list[ConsumerWaitResponse]
    next_cursor: str | None
    """Null on the last page."""


@get(
    "/v1/groups/{group_id:str}/rebalances/{rebalance_id:str}/members",
    tags=TAGS,
    opt={REQUEST: "ListRebalanceMembers"},
)
async def list_rebalance_members(
    context: CurrentRequest,
    group_id: GroupId,
    rebalance_id: FromPath[str],
    limit: LongPageLimit = LONG_PAGE_MAX,
    cursor: FromQuery[str] = "",
) -> RebalanceMembersResponse:
    """List the members of a completed rebalance, and how long it waited for each; empty while it is in progress."""
    if re.fullmatch(UUID_LETTERS, rebalance_id) is None:
        raise InvalidRequest("the rebalance id must be a UUID in lower case")
    (start,) = read_cursor(cursor, tuple[Place]) or (0,)
    end = start + limit
    found = await context.query(read_rebalance_members, group_id, rebalance_id)
    return RebalanceMembersResponse(
        group_id,
        rebalance_id,
        [response_of(RebalanceMemberResponse, row) for row in found[start:end]],
        _waited_for(found)[start:end],
        write_cursor(end) if len(found) > end else None,  # a consumer is a member or more
    )


def _waited_for(rows: list[RebalanceMemberRow]) -> list[ConsumerWaitResponse]:
    waits = (
        Wait(row.member_id, row.group_instance_id, row.client_id, row.client_host, row.waited_for_ms or 0, row.outcome)
        for row in rows
    )
    return [
        response_of(
            ConsumerWaitResponse, each.longest, member_count=each.member_count, waited_for_ms=each.waited_for_ms
        )
        for each in rank_waits(waits)
    ]


# -- transitions ------------------------------------------------------------------------------------------


class TransitionResponse(Struct):
    """A state transition of a group; `from_state` is null at the creation of the group."""

    group_id: str
    shard_id: int
    group_created_at: datetime
    at: datetime
    generation: int
    from_state: str | None
    to_state: str
    reason: str
    member_id: str | None


class TransitionsResponse(Struct):
    """A page of transitions, the newest first; `next_cursor` is null on the last page."""

    transitions: list[TransitionResponse]
    next_cursor: str | None


@get("/v1/groups/{group_id:str}/transitions", tags=TAGS, opt={REQUEST: "ListTransitions"})
async def list_transitions(
    context: CurrentRequest, group_id: GroupId, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> TransitionsResponse:
    """List a group's state transitions, the newest first, with their reasons."""
    after = read_cursor(cursor, tuple[AtMs, AtMs, Int32, Int32])
    found = await context.query(read_transitions, group_id, after and TransitionCursor(*after), limit + 1)
    page, next_cursor = page_of(found, cursor_of, limit)
    return TransitionsResponse([response_of(TransitionResponse, each) for each in page], next_cursor)


# -- ownership --------------------------------------------------------------------------------------------


class PartitionOwnershipResponse(Struct):
    """Partitions of one topic that a member owned at the requested time; `valid_to` is null if it still owns them."""

    member_id: str
    topic: str
    partitions: list[int]
    generation: int
    rebalance_id: str
    valid_from: datetime
    valid_to: datetime | None


class CommittedOffsetResponse(Struct):
    """The committed offset of a partition at the requested time; history keeps the last commit of each minute."""

    topic: str
    partition: int
    offset: int
    log_end_offset: int | None
    committed_at: datetime
    member_id: str | None
    """The member that committed it; "": a consumer outside a generation; null: unknown."""
    token_id: str | None
    """The token that committed it, if that was below the commit before, the partition's first, or without a member."""
    client_address: str | None
    """The address from which it was committed, in the same cases."""


class OwnershipResponse(Struct):
    """A page of partition ownership, and then committed offsets, at the requested time `at`; null: now."""

    group_id: str
    at: datetime | None
    ownership: list[PartitionOwnershipResponse]
    offsets: list[CommittedOffsetResponse]
    next_cursor: str | None
    """Null on the last page."""


TopicFilterParam: TypeAlias = Annotated[
    str | None, QueryParameter(name="topic", min_length=1, max_length=TOPIC_MAX_CHARS)
]


@get("/v1/groups/{group_id:str}/ownership", tags=TAGS, opt={REQUEST: "ListOwnership"})
async def list_ownership(
    context: CurrentRequest,
    group_id: GroupId,
    at: FromQuery[str] = "",
    topic: TopicFilterParam = None,
    partition: PartitionParam = None,
    limit: LongPageLimit = LONG_PAGE_MAX,
    cursor: FromQuery[str] = "",
) -> OwnershipResponse:
    """List the owners of partitions and the committed offsets at a time; without `at`, now."""
    after = read_cursor(cursor, tuple[Int32, Name, Int32, Name])
    at_instant = parse_instant(at, "at") if at else None
    at_ms = END_OF_TIME_MS if at_instant is None else epoch_ms(at_instant)
    moment = Moment(group_id, at_ms, topic, partition)
    owned = await context.query(read_ownership, moment)
    await context.coordinator.store_own_offsets(group_id)
    committed = await context.query(read_offsets_at, moment)
    rows: list[PartitionOwnership | OffsetAtTime] = [*owned, *committed]
    page, next_cursor = page_after(rows, _place_of, after, limit)
    return OwnershipResponse(
        group_id,
        at_instant,
        [response_of(PartitionOwnershipResponse, each) for each in page if isinstance(each, PartitionOwnership)],
        [response_of(CommittedOffsetResponse, each) for each in page if isinstance(each, OffsetAtTime)],
        next_cursor,
    )


def _place_of(row: PartitionOwnership | OffsetAtTime) -> tuple[int, str, int, str]:
    """Return the sort key of a row: ownership before offsets, topic, first partition, member."""
    if isinstance(row, PartitionOwnership):
        return 0, row.topic, min(row.partitions, default=-1), row.member_id
    return 1, row.topic, row.partition, ""
