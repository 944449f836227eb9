"""Endpoints for the lag of a group in records and in seconds, now and over time; any node answers.

Source: http-api.md "Lag"; the names are those of Confluent's API: current_offset, log_end_offset, lag.
"""

import asyncio
from datetime import datetime
from typing import Annotated, Final, NamedTuple, TypeAlias

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from api.http.cursors import AtMs, Int32, Int64, Name, read_cursor, write_cursor
from api.http.fast_path import REQUEST
from api.http.fields import GroupId, LongPageLimit
from api.http.limits import LONG_PAGE_MAX
from api.http.request_context import CurrentRequest
from api.http.times import MIN_INSTANT, epoch_ms, instant, instant_or_none, parse_instant_ms
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.log_ends import Lag
from coordinator_core.protocol.retention import NO_EXPIRY
from coordinator_core.protocol.setting_rules import INT32_MAX
from coordinator_core.queries.lag import PartitionLag, SampleTimes, TotalLag, read_lag, read_lag_history

TAGS: Final = ["Operators: lag"]
HOUR_MS: Final = 3_600_000
STEP_MIN_MS: Final = 60_000
"""The minimum of the default step: history keeps one committed offset per minute."""
DEFAULT_POINTS: Final = 120

# -- now --------------------------------------------------------------------------------------------------


class PartitionLagResponse(Struct):
    """A partition with a committed offset or an owner; unknown values are null."""

    topic: str
    partition: int
    member_id: str | None
    client_id: str | None
    current_offset: int | None
    log_end_offset: int | None
    """The highest log end offset reported by a trusted reporter of any group or by the group itself."""
    lag: int | None
    """Log end offset minus committed offset; a lower bound if the log end is stale, and null where that would be 0."""
    lag_seconds: float | None
    """The time since the log end passed the committed offset."""
    is_lag_lower_bound: bool
    """Whether the seconds are a lower bound: no older log end is known, or the log end is stale."""
    is_log_end_stale: bool
    """Whether the log end was last reported longer than `log_end_max_age_ms` ago."""
    committed_at: datetime | None
    log_end_at: datetime | None
    """When the log end was last reported."""
    expires_at: datetime | None
    """When the offset may expire if the state of the group does not change; null: never."""


class LagResponse(Struct):
    """A group's lag: the sum of the records, the maximum of the seconds; null if unknown for every partition."""

    group_id: str
    lag: int | None
    lag_seconds: float | None
    is_lag_lower_bound: bool
    """Whether the seconds are a lower bound."""
    is_log_end_stale: bool
    """Whether a log end is stale, so that the records are a lower bound as well."""
    log_end_at: datetime | None
    """The oldest of the times at which the log ends were last reported."""
    partitions: list[PartitionLagResponse]
    """A page of the partitions; the values above are those of all."""
    next_cursor: str | None
    """Null on the last page."""


class LagPlace(NamedTuple):
    """The last partition of a page, and the total of the first one."""

    topic: Name
    partition: Int32
    lag: tuple[Int64, Int64, bool, bool] | None
    """The fields of `Lag`."""
    log_end_at_ms: AtMs | None


@get("/v1/groups/{group_id:str}/lag", tags=TAGS, opt={REQUEST: "DescribeLag"})
async def describe_lag(
    context: CurrentRequest, group_id: GroupId, limit: LongPageLimit = LONG_PAGE_MAX, cursor: FromQuery[str] = ""
) -> LagResponse:
    """Describe a group's lag by partition, with the owner and the expiry of each committed offset."""
    place = read_cursor(cursor, LagPlace)
    coordinator = context.coordinator
    await coordinator.store_own_offsets(group_id)
    found = await context.query(
        read_lag,
        group_id,
        None if place is None else (place.topic, place.partition),
        limit,
        first_total=None if place is None else TotalLag(place.lag and Lag(*place.lag), place.log_end_at_ms),
        now_ms=coordinator.wall_ms(),
        lookback_ms=context.node.queries.limits.lag_lookback_ms,
        max_age_ms=coordinator.metadata_cache.log_end_max_age_ms(),
        # How long the mirrored cluster keeps offsets is not known.
        retention_ms=NO_EXPIRY if coordinator.is_mirror else coordinator.settings_of(group_id).retention_ms,
        max_partitions=context.node.queries.limits.max_lag_partitions,
    )
    total, log_end_at_ms = found.total
    lag, lag_seconds = _lag(total)
    await context.begin_response(len(found.partitions))
    last = found.partitions[-1].partition_offset if found.has_more else None
    return LagResponse(
        group_id,
        lag=lag,
        lag_seconds=lag_seconds,
        is_lag_lower_bound=total is not None and total.is_lower_bound,
        is_log_end_stale=total is not None and total.is_stale,
        log_end_at=instant_or_none(log_end_at_ms),
        partitions=await asyncio.to_thread(lambda: [_partition(each) for each in found.partitions]),
        next_cursor=None if last is None else write_cursor(last.topic, last.partition, total, log_end_at_ms),
    )


def _lag(lag: Lag | None) -> tuple[int | None, float | None]:
    """Return records and seconds; both None for a lower bound of 0."""
    return (None, None) if lag is None or not lag.is_known else (lag.records, lag.ms / 1000)


def _partition(found: PartitionLag) -> PartitionLagResponse:
    partition_offset = found.partition_offset
    end = partition_offset.ends[-1] if partition_offset.ends else None
    lag, lag_seconds = _lag(found.lag)
    return PartitionLagResponse(
        topic=partition_offset.topic,
        partition=partition_offset.partition,
        member_id=partition_offset.member_id,
        client_id=partition_offset.client_id,
        current_offset=partition_offset.offset,
        log_end_offset=end and end.offset,
        lag=lag,
        lag_seconds=lag_seconds,
        is_lag_lower_bound=found.lag is not None and found.lag.is_lower_bound,
        is_log_end_stale=found.lag is not None and found.lag.is_stale,
        committed_at=instant_or_none(partition_offset.committed_at_ms),
        log_end_at=instant_or_none(end and end.at_ms),
        expires_at=instant_or_none(found.due_at_ms),
    )


# -- over time --------------------------------------------------------------------------------------------


class LagPointResponse(Struct):
    """A group's lag at one time; null if unknown."""

    at: datetime
    lag: int | None
    lag_seconds: float | None
    is_log_end_stale: bool
    """Whether a log end was stale at that time, so that both are estimates or, after its last report, lower bounds."""


class LagHistoryResponse(Struct):
    """A group's lag over time, in steps of `step_ms`."""

    group_id: str
    step_ms: int
    points: list[LagPointResponse]


FromParam: TypeAlias = Annotated[
    str, QueryParameter(name="from", description="RFC 3339; by default an hour before `to`")
]
ToParam: TypeAlias = Annotated[str, QueryParameter(name="to", description="RFC 3339; by default and at most now")]
StepParam: TypeAlias = Annotated[int | None, QueryParameter(name="step_ms", ge=1, le=INT32_MAX)]


@get("/v1/groups/{group_id:str}/lag/history", tags=TAGS, opt={REQUEST: "ListLag"})
async def list_lag(
    context: CurrentRequest, group_id: GroupId, from_: FromParam = "", to: ToParam = "", step_ms: StepParam = None
) -> LagHistoryResponse:
    """List a group's lag over time; by default of the last hour."""
    points = _points(from_, to, step_ms, context.coordinator.wall_ms())
    if len(points) > context.node.queries.limits.max_lag_points:
        raise InvalidRequest(
            f"the range has more than {context.node.queries.limits.max_lag_points} points; use a longer step"
        )
    await context.coordinator.store_own_offsets(group_id)
    found = await context.query(
        read_lag_history,
        group_id,
        points,
        max_offsets=context.node.queries.limits.max_lag_positions,
        max_age_ms=context.coordinator.metadata_cache.log_end_max_age_ms(),
    )
    responses = [LagPointResponse(instant(at), *_lag(lag), lag is not None and lag.is_stale) for at, lag in found]
    return LagHistoryResponse(group_id, points.step_ms, responses)


def _points(from_text: str, to_text: str, step_ms: int | None, now_ms: int) -> SampleTimes:
    to_ms = min(parse_instant_ms(to_text, "to"), now_ms) if to_text else now_ms
    from_ms = parse_instant_ms(from_text, "from") if from_text else to_ms - HOUR_MS
    if from_ms < epoch_ms(MIN_INSTANT):
        raise InvalidRequest("to must be at least an hour after the start of the year 1, unless from is given")
    if from_ms > to_ms:
        raise InvalidRequest("from must not be after to, or in the future")
    return SampleTimes(from_ms, to_ms, step_ms or _step_ms(to_ms - from_ms))


def _step_ms(length_ms: int) -> int:
    """Return a step of whole minutes that divides the range into at most DEFAULT_POINTS steps."""
    return max(STEP_MIN_MS, -(-length_ms // (DEFAULT_POINTS * STEP_MIN_MS)) * STEP_MIN_MS)
