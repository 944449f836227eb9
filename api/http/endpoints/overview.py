"""Endpoints for overviews: groups, sorted; topics, the highest lag first; the activity of a day by hour.

Any node answers.

Source: http-api.md "Lists"; docs/console.md.
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from api.http.cursors import Int64, Name, page_of, read_cursor
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit, StatesParam, state_names
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from api.shared.limits import GROUP_ID_MAX_CHARS, TOPIC_MAX_CHARS
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.queries.activity import read_activity
from coordinator_core.queries.overview import GroupOrder, OverviewCursor, OverviewFilter, read_overview
from coordinator_core.queries.topics import TopicOverviewFilter, read_topic_overview

TAGS: Final = ["Operators: groups"]

GroupIdTextParam: TypeAlias = Annotated[
    str, QueryParameter(name="q", max_length=GROUP_ID_MAX_CHARS, description="a part of the group id")
]
TopicTextParam: TypeAlias = Annotated[
    str, QueryParameter(name="q", max_length=TOPIC_MAX_CHARS, description="a part of the topic")
]
SortParam: TypeAlias = Annotated[
    str, QueryParameter(name="sort", description="attention, group_id, since, members, lag or rebalances")
]


class GroupSummaryResponse(Struct):
    """A group in the overview; lag is null if no log end is known, or if it is a lower bound of 0."""

    group_id: str
    state: str
    state_since: datetime
    generation: int
    protocol_type: str | None
    member_count: int
    node_id: str | None
    rebalance_started_at: datetime | None
    rebalance_trigger: str | None
    """The trigger of the rebalance in progress."""
    rebalances_last_hour: int
    lag: int | None
    is_lag_lower_bound: bool
    """Whether the lag is a lower bound, because a log end is stale."""
    log_end_at: datetime | None
    """The oldest of the times at which the log ends were last reported."""
    last_rebalance_trigger: str | None
    last_rebalance_at: datetime | None
    """When the last rebalance ended."""


class GroupOverviewResponse(Struct):
    """A page of groups; `counts` by state include all groups that match `q`, regardless of `state`."""

    groups: list[GroupSummaryResponse]
    counts: dict[str, int]
    next_cursor: str | None


@get("/v1/overview/groups", tags=TAGS, opt={REQUEST: "ListGroupOverview"})
async def list_group_overview(
    context: CurrentRequest,
    q: GroupIdTextParam = "",
    states: StatesParam = None,
    sort: SortParam = "attention",
    limit: PageLimit = 100,
    cursor: FromQuery[str] = "",
) -> GroupOverviewResponse:
    """List groups with members, lag and rebalances of the last hour, by default those first that need attention."""
    after = read_cursor(cursor, tuple[Int64, Name])
    overview_filter = OverviewFilter(
        text=q,
        states=state_names(states),
        patterns=context.covered_groups,
        order=_order(sort),
        after=after and OverviewCursor(*after),
        limit=limit + 1,
        fresh_since_ms=context.coordinator.wall_ms() - context.coordinator.metadata_cache.log_end_max_age_ms(),
    )
    found = await context.query(read_overview, overview_filter)
    page, next_cursor = page_of(found.groups, lambda each: (each.key, each.group_id), limit)
    return GroupOverviewResponse(
        [response_of(GroupSummaryResponse, each) for each in page], dict(found.counts), next_cursor
    )


class TopicSummaryResponse(Struct):
    """A topic in the overview; lag is the sum of its groups, null if no log end is known or a lower bound is 0."""

    topic: str
    partition_count: int | None
    """By the topic metadata; null: there is none."""
    group_count: int
    """Groups that subscribe to the topic, or have committed offsets in it, or both."""
    lag: int | None
    is_lag_lower_bound: bool
    """Whether the lag is a lower bound, because a log end is stale."""
    log_end_at: datetime | None
    """The oldest of the times at which the log ends were last reported."""


class TopicOverviewResponse(Struct):
    """A page of topics, the highest lag first; `topic_count` is that of all pages."""

    topics: list[TopicSummaryResponse]
    topic_count: int
    next_cursor: str | None


@get("/v1/overview/topics", tags=["Operators: topics"], opt={REQUEST: "ListTopicOverview"})
async def list_topic_overview(
    context: CurrentRequest, q: TopicTextParam = "", limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> TopicOverviewResponse:
    """List topics with the number of groups that read them and their lag; a token for some groups counts its groups."""
    overview_filter = TopicOverviewFilter(
        text=q,
        patterns=context.covered_groups,
        after=read_cursor(cursor, tuple[Int64, Name]),
        limit=limit + 1,
        fresh_since_ms=context.coordinator.wall_ms() - context.coordinator.metadata_cache.log_end_max_age_ms(),
    )
    found = await context.query(read_topic_overview, overview_filter)
    page, next_cursor = page_of(found.topics, lambda each: (each.key, each.topic), limit)
    topics = [response_of(TopicSummaryResponse, each) for each in page]
    return TopicOverviewResponse(topics, found.topic_count, next_cursor)


class HourlyActivityResponse(Struct):
    """What happened within an hour; `evictions` counts members that a timeout removed."""

    hour: datetime
    rebalances: int
    evictions: int


class ExpiringGroupResponse(Struct):
    """A group that loses offsets within a week if it stays as it is."""

    group_id: str
    within_a_day: int
    within_a_week: int
    next_expiry_at: datetime


class ExpiryForecastResponse(Struct):
    """How many offsets expire if their groups stay as they are, by the newest run of `offset_retention`."""

    as_of: datetime
    within_a_day: int
    within_a_week: int
    next_expiry_at: datetime
    groups: list[ExpiringGroupResponse]
    """The five groups that lose offsets first."""


class ActivityResponse(Struct):
    """The last 24 hours, the oldest first; `forecast` is null if no offset expires within a week."""

    hours: list[HourlyActivityResponse]
    flapping_groups: int
    """Stable groups with at least ten rebalances within the last hour."""
    forecast: ExpiryForecastResponse | None


@get("/v1/overview/activity", tags=TAGS, opt={REQUEST: "DescribeActivity"})
async def describe_activity(context: CurrentRequest) -> ActivityResponse:
    """Count rebalances and evictions of all groups by hour, flapping groups, and the offsets that expire next."""
    found = await context.query(read_activity, context.covered_groups)
    hours = [response_of(HourlyActivityResponse, each) for each in found.hours]
    if found.forecast is None:
        return ActivityResponse(hours, found.flapping_groups, None)
    expiring = [response_of(ExpiringGroupResponse, each) for each in found.forecast.groups]
    forecast = response_of(ExpiryForecastResponse, found.forecast, groups=expiring)
    return ActivityResponse(hours, found.flapping_groups, forecast)


def _order(sort: str) -> GroupOrder:
    try:
        return GroupOrder(sort)
    except ValueError:
        raise InvalidRequest(f"sort must be one of {', '.join(GroupOrder)}") from None
