"""How far a group is behind, in records and in time, now and over time; any node answers.

Source: http-api.md "Lag"; the names are those of Confluent's API: current_offset, log_end_offset, lag.
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.fields import INT32_MAX, GroupId
from api.http.times import FIRST, as_ms, instant, instant_or_none, moment_ms
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.log_ends import Behind, total
from coordinator_core.runtime.behind import PartitionLag, Points

TAGS: Final = ["Operators: lag"]
HOUR_MS: Final = 3_600_000
STEP_MIN_MS: Final = 60_000
"""The default step is no shorter: history keeps a position a minute."""
POINTS_BY_DEFAULT: Final = 120

# -- now --------------------------------------------------------------------------------------------------


class PartitionLagShown(Struct):
    """A partition that the group has committed, or that a member holds; what is not known is null."""

    topic: str
    partition: int
    member_id: str | None
    client_id: str | None
    current_offset: int | None
    log_end_offset: int | None
    """The furthest end that a trusted reporter of any group or the group itself named."""
    lag: int | None
    """Records behind that end; a lower bound where the end is stale, and null where that would be 0."""
    lag_seconds: float | None
    """How long ago the log went past the committed offset."""
    is_lag_at_least: bool
    """Whether the seconds are a lower bound: no older end is known, or the end is stale."""
    is_log_end_stale: bool
    """Whether that end has not been reported for longer than `log_end_max_age_ms`."""
    committed_at: datetime | None
    log_end_at: datetime | None
    """When that end was last reported."""
    expires_at: datetime | None
    """When the offset may expire if the group stays as it is; null: never."""


class LagAnswer(Struct):
    """A group's lag: records added up, seconds of the partition furthest behind; null where none is known."""

    group_id: str
    lag: int | None
    lag_seconds: float | None
    is_lag_at_least: bool
    """Whether the seconds are a lower bound."""
    is_log_end_stale: bool
    """Whether the end of a log is stale, so that the records are a lower bound as well."""
    log_end_at: datetime | None
    """When the ends of the logs were last reported: the oldest of these instants."""
    partitions: list[PartitionLagShown]


@get("/v1/groups/{group_id:str}/lag", tags=TAGS, opt={REQUEST: "DescribeLag"})
async def describe_lag(call: ThisCall, group_id: GroupId) -> LagAnswer:
    """Say how far a group is behind, partition by partition, who holds each, and when its offset may expire."""
    found = await call.coordinator.lag.now(group_id, call.door.limits.lag_lookback_ms)
    known = [each for each in found if each.behind is not None]
    behind = total(each.behind for each in known if each.behind is not None)
    lag, lag_seconds = _lag(behind)
    return LagAnswer(
        group_id,
        lag=lag,
        lag_seconds=lag_seconds,
        is_lag_at_least=behind is not None and behind.is_at_least,
        is_log_end_stale=behind is not None and behind.is_stale,
        log_end_at=instant_or_none(min((each.position.ends[-1].at_ms for each in known), default=None)),
        partitions=[_partition(each) for each in found],
    )


def _lag(behind: Behind | None) -> tuple[int | None, float | None]:
    """Return records and seconds; a lower bound of 0 is not known."""
    return (None, None) if behind is None or not behind.is_known else (behind.records, behind.ms / 1000)


def _partition(found: PartitionLag) -> PartitionLagShown:
    position, behind = found.position, found.behind
    end = position.ends[-1] if position.ends else None
    lag, lag_seconds = _lag(behind)
    return PartitionLagShown(
        topic=position.topic,
        partition=position.partition,
        member_id=position.member_id,
        client_id=position.client_id,
        current_offset=position.offset,
        log_end_offset=end and end.offset,
        lag=lag,
        lag_seconds=lag_seconds,
        is_lag_at_least=behind is not None and behind.is_at_least,
        is_log_end_stale=behind is not None and behind.is_stale,
        committed_at=instant_or_none(position.committed_at_ms),
        log_end_at=instant_or_none(end and end.at_ms),
        expires_at=instant_or_none(found.due_at_ms),
    )


# -- over time --------------------------------------------------------------------------------------------


class LagPointShown(Struct):
    """A group's lag at one moment; null where nothing was known."""

    at: datetime
    lag: int | None
    lag_seconds: float | None
    is_log_end_stale: bool
    """Whether the end of a log was stale by then, so that both are lower bounds."""


class LagHistoryAnswer(Struct):
    """A group's lag over time; the steps are `step_ms` long."""

    group_id: str
    step_ms: int
    points: list[LagPointShown]


FromAsked: TypeAlias = Annotated[str, QueryParameter(name="from", description="RFC 3339; an hour before `to`")]
ToAsked: TypeAlias = Annotated[str, QueryParameter(name="to", description="RFC 3339; now")]
StepAsked: TypeAlias = Annotated[int | None, QueryParameter(name="step_ms", ge=1, le=INT32_MAX)]


@get("/v1/groups/{group_id:str}/lag/history", tags=TAGS, opt={REQUEST: "ListLag"})
async def list_lag(
    call: ThisCall, group_id: GroupId, from_: FromAsked = "", to: ToAsked = "", step_ms: StepAsked = None
) -> LagHistoryAnswer:
    """Say how far a group was behind, step by step; the last hour, if nothing else is asked for."""
    points = _points(from_, to, step_ms, call.coordinator.lag.wall_ms())
    if len(points) > call.door.limits.max_lag_points:
        raise InvalidRequest(f"these are more than {call.door.limits.max_lag_points} points; ask for longer steps")
    found = await call.coordinator.lag.over_time(group_id, points, call.door.limits.max_lag_positions)
    shown = [LagPointShown(instant(at), *_lag(behind), behind is not None and behind.is_stale) for at, behind in found]
    return LagHistoryAnswer(group_id, points.step_ms, shown)


def _points(from_text: str, to_text: str, step_ms: int | None, now_ms: int) -> Points:
    to_ms = moment_ms(to_text, "to") if to_text else now_ms
    from_ms = moment_ms(from_text, "from") if from_text else to_ms - HOUR_MS
    if from_ms < as_ms(FIRST):
        raise InvalidRequest("to must be at least an hour after the year 1 begins, unless from is given")
    if from_ms > to_ms:
        raise InvalidRequest("from must not be after to")
    return Points(from_ms, to_ms, step_ms or _step_ms(to_ms - from_ms))


def _step_ms(length_ms: int) -> int:
    """Return whole minutes, so many that there are no more points than people can see."""
    return max(STEP_MIN_MS, -(-length_ms // (POINTS_BY_DEFAULT * STEP_MIN_MS)) * STEP_MIN_MS)
