"""Endpoint for offset resets of Empty groups, with a dry run.

Source: http-api.md "Resetting offsets"; Kafka's ``kafka-consumer-groups --reset-offsets``.
"""

from collections import Counter
from datetime import datetime
from typing import Annotated, Final, Literal

from litestar import post
from litestar.params import JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType

from api.http.fast_path import REQUEST
from api.http.fields import INT64_MAX, GroupId, Offset, Partition, RequiredReason, Topic
from api.http.request_context import CurrentRequest, RequestContext
from api.http.times import epoch_ms, in_utc
from api.shared.access_control import Operation
from api.shared.errors import TopicAuthorizationFailed
from coordinator_core.admin import offset_reset
from coordinator_core.admin.offset_reset import Reset
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.requests import ResetTo
from coordinator_core.protocol.responses import ResetOffsetsResponse

TAGS: Final = ["Operators: offsets"]
REQUIRED_FIELDS: Final = {
    ResetTo.OFFSET: "offset",
    ResetTo.SHIFT: "shift_by",
    ResetTo.DATETIME: "datetime",
    ResetTo.GIVEN: "offsets",
}
"""Target of a reset → the field that it requires; the other targets require none."""

ShiftBy = Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
Instant = Annotated[datetime, Meta(tz=True)]


class TopicToReset(Struct, forbid_unknown_fields=True):
    """A topic and its partitions; by default those in the topic metadata, else those with a committed offset."""

    topic: Topic
    partitions: Annotated[list[Partition], Meta(min_length=1)] | None = None


class PartitionOffset(Struct, forbid_unknown_fields=True):
    """The new offset of one partition."""

    topic: Topic
    partition: Partition
    offset: Offset


class ResetBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The target of a reset and its partitions; by default all with committed offsets of the group."""

    to: Literal["earliest", "latest", "offset", "shift", "datetime", "current", "given"]
    offset: Offset | UnsetType = UNSET
    shift_by: ShiftBy | UnsetType = UNSET
    datetime: Instant | UnsetType = UNSET
    offsets: Annotated[list[PartitionOffset], Meta(min_length=1)] | UnsetType = UNSET
    """Only with `given`, instead of `topics`: an offset for each partition."""
    topics: list[TopicToReset] = []
    dry_run: bool = True
    reason: RequiredReason | None = None
    """Required unless it is a dry run."""


class ResetOffsetResponse(Struct):
    """The old and new offset of a partition; `old_offset` is null if there was none."""

    topic: str
    partition: int
    old_offset: int | None
    new_offset: int
    note: str | None
    """Why the new offset differs from the requested one, or that the log end is out of date."""


class ResetResponse(Struct):
    """The result of a reset or a dry run; `change_id` names the change for an undo."""

    group_id: str
    dry_run: bool
    change_id: str | None
    offsets: list[ResetOffsetResponse]


@post("/v1/groups/{group_id:str}/offsets/reset", status_code=200, tags=TAGS, opt={REQUEST: "ResetOffsets"})
async def reset_offsets(context: CurrentRequest, group_id: GroupId, data: JSONBody[ResetBody]) -> ResetResponse:
    """Reset the offsets of an Empty group, and archive the old ones; by default a dry run."""
    reset = _read(data, context.server.limits.max_partitions_per_request)
    _check_topics(context, reset)
    coordinator, queries = context.coordinator, context.node.queries
    if data.dry_run:
        return _respond(group_id, await offset_reset.dry_run_reset_offsets(coordinator, queries, group_id, reset), None)
    if data.reason is None:
        raise InvalidRequest("reason: object missing required field reason")
    change = context.begin_change(data.reason)
    return _respond(
        group_id, await offset_reset.reset_offsets(coordinator, queries, group_id, reset, change), change.change_id
    )


def _check_topics(context: RequestContext, reset: Reset) -> None:
    """Check that the token allows to reset the topics; a reset that names none is of all topics."""
    named = {topic for topic, _ in reset.topics} | {topic for topic, _, _ in reset.given}
    context.check_topics(named, Operation.RESET)
    if not named and not context.can_access_all_topics(Operation.RESET):
        raise TopicAuthorizationFailed("the token does not allow RESET on every topic: name the topics to reset")


def _read(data: ResetBody, max_partitions: int) -> Reset:
    to = ResetTo(data.to)
    given = {name for name in REQUIRED_FIELDS.values() if getattr(data, name) is not UNSET}
    needed = {REQUIRED_FIELDS[to]} if to in REQUIRED_FIELDS else set()
    for name in sorted(needed - given):
        raise InvalidRequest(f'{name}: required if to is "{to}"')
    for name in sorted(given - needed):
        raise InvalidRequest(f'{name}: not allowed if to is "{to}"')
    _check_named(data, max_partitions)
    return Reset(
        to=to,
        amount=data.offset or data.shift_by or 0,
        at_ms=0 if data.datetime is UNSET else epoch_ms(in_utc(data.datetime, "datetime")),
        topics=tuple((each.topic, None if each.partitions is None else tuple(each.partitions)) for each in data.topics),
        given=_given(data),
        max_partitions=max_partitions,
    )


def _given(data: ResetBody) -> tuple[tuple[str, int, int], ...]:
    """Return the given offsets; raise `InvalidRequest` if a partition occurs twice."""
    given = () if data.offsets is UNSET else tuple((each.topic, each.partition, each.offset) for each in data.offsets)
    if given and data.topics:
        raise InvalidRequest('topics: not allowed if to is "given": offsets names the partitions')
    named = Counter((topic, partition) for topic, partition, _ in given)
    for (topic, partition), count in named.items():
        if count > 1:
            raise InvalidRequest(f"offsets: {topic} {partition} occurs more than once")
    return given


def _check_named(data: ResetBody, limit: int) -> None:
    count = sum(1 if each.partitions is None else len(each.partitions) for each in data.topics)
    count += 0 if data.offsets is UNSET else len(data.offsets)
    if count > limit:
        raise InvalidRequest(f"topics: {count} partitions; one request may have {limit}")


def _respond(group_id: str, done: ResetOffsetsResponse, change_id: str | None) -> ResetResponse:
    return ResetResponse(group_id, change_id is None, change_id, [ResetOffsetResponse(*each) for each in done.offsets])
