"""Resets over HTTP: put an Empty group to other positions, or see what that would do.

Source: http-api.md "Resetting a group"; Kafka's ``kafka-consumer-groups --reset-offsets``.
"""

from collections import Counter
from datetime import datetime
from typing import Annotated, Final, Literal

from litestar import post
from litestar.params import JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.fields import INT64_MAX, GivenReason, GroupId, Offset, Partition, Topic
from api.http.times import as_ms, in_utc
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.replies import OffsetsReset
from coordinator_core.protocol.requests import ResetTo
from coordinator_core.runtime.resetting import Reset

TAGS: Final = ["Operators: offsets"]
NEEDS: Final = {
    ResetTo.OFFSET: "offset",
    ResetTo.SHIFT: "shift_by",
    ResetTo.DATETIME: "datetime",
    ResetTo.GIVEN: "offsets",
}
"""Where to → the field that says it more closely; the other ways need none."""

ShiftBy = Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
Instant = Annotated[datetime, Meta(tz=True)]


class TopicToReset(Struct, forbid_unknown_fields=True):
    """A topic, and which of its partitions; without `partitions` all that are catalogued, else all committed."""

    topic: Topic
    partitions: list[Partition] | None = None


class OffsetGiven(Struct, forbid_unknown_fields=True):
    """Where one partition is to stand."""

    topic: Topic
    partition: Partition
    offset: Offset


class ResetBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Where to put which partitions. Without `topics`: every topic that the group has committed in."""

    to: Literal["earliest", "latest", "offset", "shift", "datetime", "current", "given"]
    offset: Offset | UnsetType = UNSET
    shift_by: ShiftBy | UnsetType = UNSET
    datetime: Instant | UnsetType = UNSET
    offsets: Annotated[list[OffsetGiven], Meta(min_length=1)] | UnsetType = UNSET
    """With `given`, and instead of topics: each partition its own offset."""
    topics: list[TopicToReset] = []
    dry_run: bool = True
    reason: GivenReason | None = None
    """Needed unless it is a dry run."""


class ResetShown(Struct):
    """A partition's old and new position; `old_offset` is null where nothing was committed."""

    topic: str
    partition: int
    old_offset: int | None
    new_offset: int
    note: str | None
    """What is to be said about the new one: that it was moved into the log."""


class ResetAnswer(Struct):
    """What was done, or (dry_run) would be; `change_id` is what to undo."""

    group_id: str
    dry_run: bool
    change_id: str | None
    offsets: list[ResetShown]


@post("/v1/groups/{group_id:str}/offsets/reset", status_code=200, tags=TAGS, opt={REQUEST: "ResetOffsets"})
async def reset_offsets(call: ThisCall, group_id: GroupId, data: JSONBody[ResetBody]) -> ResetAnswer:
    """Put an Empty group to other positions; by default only tell which. What stood there goes to the archive."""
    reset = _read(data, call.door.limits.max_partitions_per_request)
    operators = call.coordinator.operators
    if data.dry_run:
        return _answer(group_id, await operators.try_reset(group_id, reset), None)
    if data.reason is None:
        raise InvalidRequest("reason: object missing required field reason")
    act = call.act(data.reason)
    return _answer(group_id, await operators.reset_offsets(group_id, reset, act), act.change_id)


def _read(data: ResetBody, max_partitions: int) -> Reset:
    to = ResetTo(data.to)
    given = {name for name in NEEDS.values() if getattr(data, name) is not UNSET}
    needed = {NEEDS[to]} if to in NEEDS else set()
    for name in sorted(needed - given):
        raise InvalidRequest(f'{name}: is needed with to "{to}"')
    for name in sorted(given - needed):
        raise InvalidRequest(f'{name}: does not belong to to "{to}"')
    _check_named(data, max_partitions)
    return Reset(
        to=to,
        amount=data.offset or data.shift_by or 0,
        at_ms=0 if data.datetime is UNSET else as_ms(in_utc(data.datetime, "datetime")),
        topics=tuple((each.topic, None if each.partitions is None else tuple(each.partitions)) for each in data.topics),
        given=_given(data),
        max_partitions=max_partitions,
    )


def _given(data: ResetBody) -> tuple[tuple[str, int, int], ...]:
    """Return the partitions that have an offset of their own; none of them twice."""
    given = () if data.offsets is UNSET else tuple((each.topic, each.partition, each.offset) for each in data.offsets)
    if given and data.topics:
        raise InvalidRequest('topics: does not belong to to "given", whose offsets name them')
    named = Counter((topic, partition) for topic, partition, _ in given)
    for (topic, partition), count in named.items():
        if count > 1:
            raise InvalidRequest(f"offsets: {topic} {partition} is named twice")
    return given


def _check_named(data: ResetBody, limit: int) -> None:
    count = sum(1 if each.partitions is None else len(each.partitions) for each in data.topics)
    count += 0 if data.offsets is UNSET else len(data.offsets)
    if count > limit:
        raise InvalidRequest(f"topics: {count} partitions, and one request may name {limit}")


def _answer(group_id: str, done: OffsetsReset, change_id: str | None) -> ResetAnswer:
    return ResetAnswer(group_id, change_id is None, change_id, [ResetShown(*each) for each in done.offsets])
