"""The ledger over HTTP: how a group rebalanced, which states it went through, who owned what and when.

Rows are those of the tables of the same names, column by column. Any node answers, of groups that are gone too.

Source: http-api.md "The ledger".
"""

import re
from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Struct

from api.http.call import ThisCall
from api.http.cursors import UUID_LETTERS, AtMs, Int32, UuidText, read_cursor, write_cursor
from api.http.express import REQUEST
from api.http.fields import GroupId, PageLimit, PartitionAsked
from api.http.limits import TOPIC_MAX_CHARS
from api.http.times import as_ms, instant, instant_or_none, moment
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.reports.waiting import Wait, rank_waits
from coordinator_core.store.history import (
    END_OF_TIME_MS,
    ListedRebalance,
    Moment,
    OwnedSpan,
    PositionThen,
    RebalancePlace,
    TransitionPlace,
    place_of,
)
from coordinator_core.store.rows import RebalanceMemberRow, TransitionRow

TAGS: Final = ["Operators: history"]

# -- rebalances -------------------------------------------------------------------------------------------


class RebalanceShown(Struct):
    """A rebalance; under way while `completed_at` is null."""

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


class RebalancesAnswer(Struct):
    """A page of rebalances, the newest first; `next_cursor` asks for the next one, and is null on the last."""

    rebalances: list[RebalanceShown]
    next_cursor: str | None


@get("/v1/groups/{group_id:str}/rebalances", tags=TAGS, opt={REQUEST: "ListRebalances"})
async def list_rebalances(
    call: ThisCall, group_id: GroupId, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> RebalancesAnswer:
    """List a group's rebalances, the newest first: why each began, how long it took, what came of it."""
    place = read_cursor(cursor, tuple[AtMs, UuidText])
    found = await call.coordinator.history.rebalances(group_id, place and RebalancePlace(*place), limit + 1)
    page = found[:limit]
    next_cursor = write_cursor(*page[-1].place) if len(found) > limit else None
    return RebalancesAnswer([_rebalance(each) for each in page], next_cursor)


def _rebalance(row: ListedRebalance) -> RebalanceShown:
    return RebalanceShown(
        rebalance_id=row.rebalance_id,
        group_id=row.group_id,
        shard_id=row.shard_id,
        group_created_at=instant(row.group_created_at_ms),
        generation=row.generation,
        trigger=row.trigger,
        trigger_member_id=row.trigger_member_id,
        client_reason=row.client_reason,
        started_at=instant(row.started_at_ms),
        joined_at=instant_or_none(row.joined_at_ms),
        completed_at=instant_or_none(row.completed_at_ms),
        outcome=row.outcome,
        restarts=row.restarts,
        member_count_before=row.member_count_before,
        member_count_after=row.member_count_after,
        partitions_moved=row.partitions_moved,
    )


# -- parts in them ----------------------------------------------------------------------------------------


class PartShown(Struct):
    """One member's part in a rebalance that is over; lengths count from the rebalance's start."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str | None
    joined_after_ms: int | None
    synced_after_ms: int | None
    waited_for_ms: int
    outcome: str


class ConsumerWaitShown(Struct):
    """How long the rebalance waited for one consumer: an instance id, or else a client id and a host."""

    member_id: str
    """Its member that was waited for longest; `outcome` is that member's."""
    group_instance_id: str | None
    client_id: str
    client_host: str | None
    member_count: int
    """Under how many member ids it was waited for."""
    waited_for_ms: int
    outcome: str


class PartsAnswer(Struct):
    """The members of a rebalance, and the consumers that it waited for; the longest wait comes first in both."""

    group_id: str
    rebalance_id: str
    members: list[PartShown]
    waited_for: list[ConsumerWaitShown]


@get(
    "/v1/groups/{group_id:str}/rebalances/{rebalance_id:str}/members",
    tags=TAGS,
    opt={REQUEST: "ListRebalanceMembers"},
)
async def list_rebalance_members(call: ThisCall, group_id: GroupId, rebalance_id: FromPath[str]) -> PartsAnswer:
    """Say who took part in a rebalance and who held it up; a rebalance that is not over has no members yet."""
    if re.fullmatch(UUID_LETTERS, rebalance_id) is None:
        raise InvalidRequest("a rebalance id is a UUID, in small letters")
    found = await call.coordinator.history.rebalance_members(group_id, rebalance_id)
    return PartsAnswer(group_id, rebalance_id, [_part(row) for row in found], _waited_for(found))


def _part(row: RebalanceMemberRow) -> PartShown:
    return PartShown(
        member_id=row.member_id,
        group_instance_id=row.group_instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        joined_after_ms=row.joined_after_ms,
        synced_after_ms=row.synced_after_ms,
        waited_for_ms=row.waited_for_ms,
        outcome=row.outcome,
    )


def _waited_for(rows: list[RebalanceMemberRow]) -> list[ConsumerWaitShown]:
    waits = (
        Wait(row.member_id, row.group_instance_id, row.client_id, row.client_host, row.waited_for_ms, row.outcome)
        for row in rows
    )
    return [
        ConsumerWaitShown(
            member_id=each.longest.member_id,
            group_instance_id=each.longest.group_instance_id,
            client_id=each.longest.client_id,
            client_host=each.longest.client_host,
            member_count=each.member_count,
            waited_for_ms=each.waited_for_ms,
            outcome=each.longest.outcome,
        )
        for each in rank_waits(waits)
    ]


# -- transitions ------------------------------------------------------------------------------------------


class TransitionShown(Struct):
    """One change of a group's state; `from_state` is null where a life of the group began."""

    group_id: str
    shard_id: int
    group_created_at: datetime
    at: datetime
    generation: int
    from_state: str | None
    to_state: str
    reason: str
    member_id: str | None


class TransitionsAnswer(Struct):
    """A page of transitions, the newest first; `next_cursor` asks for the next one, and is null on the last."""

    transitions: list[TransitionShown]
    next_cursor: str | None


@get("/v1/groups/{group_id:str}/transitions", tags=TAGS, opt={REQUEST: "ListTransitions"})
async def list_transitions(
    call: ThisCall, group_id: GroupId, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> TransitionsAnswer:
    """List the changes of a group's state, the newest first, and why each happened."""
    place = read_cursor(cursor, tuple[AtMs, AtMs, Int32, Int32])
    found = await call.coordinator.history.transitions(group_id, place and TransitionPlace(*place), limit + 1)
    page = found[:limit]
    next_cursor = write_cursor(*place_of(page[-1])) if len(found) > limit else None
    return TransitionsAnswer([_transition(each) for each in page], next_cursor)


def _transition(row: TransitionRow) -> TransitionShown:
    return TransitionShown(
        group_id=row.group_id,
        shard_id=row.shard_id,
        group_created_at=instant(row.group_created_at_ms),
        at=instant(row.at_ms),
        generation=row.generation,
        from_state=row.from_state,
        to_state=row.to_state,
        reason=row.reason,
        member_id=row.member_id,
    )


# -- who owned what ---------------------------------------------------------------------------------------


class AssignmentShown(Struct):
    """Partitions of one topic that a member held at the moment asked about; `valid_to` is null while it lasts."""

    member_id: str
    topic: str
    partitions: list[int]
    generation: int
    rebalance_id: str
    valid_from: datetime
    valid_to: datetime | None


class PositionShown(Struct):
    """What was committed for a partition as of the moment asked about; history knows the last position of a minute."""

    topic: str
    partition: int
    offset: int
    log_end_offset: int | None
    committed_at: datetime
    member_id: str | None
    """Who committed it; "" is a consumer in no group, null is not known."""


class AssignmentsAnswer(Struct):
    """Who owned what, and what was committed; `at` is the moment that was asked about, null for now."""

    group_id: str
    at: datetime | None
    assignments: list[AssignmentShown]
    offsets: list[PositionShown]


TopicNarrowing: TypeAlias = Annotated[
    str | None, QueryParameter(name="topic", min_length=1, max_length=TOPIC_MAX_CHARS)
]


@get("/v1/groups/{group_id:str}/assignments", tags=TAGS, opt={REQUEST: "ListAssignments"})
async def list_assignments(
    call: ThisCall,
    group_id: GroupId,
    at: FromQuery[str] = "",
    topic: TopicNarrowing = None,
    partition: PartitionAsked = None,
) -> AssignmentsAnswer:
    """Say who owned which partitions at a moment (now, if none is named), and what was committed by then."""
    at_moment = moment(at, "at") if at else None
    at_ms = END_OF_TIME_MS if at_moment is None else as_ms(at_moment)
    owned, committed = await call.coordinator.history.as_of(Moment(group_id, at_ms, topic, partition))
    return AssignmentsAnswer(
        group_id, at_moment, [_assignment(each) for each in owned], [_position(each) for each in committed]
    )


def _assignment(span: OwnedSpan) -> AssignmentShown:
    return AssignmentShown(
        member_id=span.member_id,
        topic=span.topic,
        partitions=list(span.partitions),
        generation=span.generation,
        rebalance_id=span.rebalance_id,
        valid_from=instant(span.valid_from_ms),
        valid_to=instant_or_none(span.valid_to_ms),
    )


def _position(then: PositionThen) -> PositionShown:
    return PositionShown(
        topic=then.topic,
        partition=then.partition,
        offset=then.offset,
        log_end_offset=then.log_end_offset,
        committed_at=instant(then.committed_at_ms),
        member_id=then.member_id,
    )
