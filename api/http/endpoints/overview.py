"""Endpoint for the group overview: groups with state, members, lag and rebalances, sorted; any node answers.

Source: http-api.md "Lists"; docs/console.md.
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from api.http.cursors import Int64, Name, read_cursor, write_cursor
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit, StatesParam
from api.http.limits import GROUP_ID_MAX_CHARS
from api.http.request_context import CurrentRequest
from api.http.times import instant, instant_or_none
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.states import GroupState
from coordinator_core.store.overview import GroupOrder, GroupSummary, OverviewCursor, OverviewFilter

TAGS: Final = ["Operators: groups"]
STATE_NAMES: Final = {state.lower(): str(state) for state in GroupState}

GroupIdTextParam: TypeAlias = Annotated[
    str, QueryParameter(name="q", max_length=GROUP_ID_MAX_CHARS, description="a part of the group id")
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
        states=frozenset(STATE_NAMES.get(name.lower(), name) for name in states or () if name),
        prefixes=None if context.identity is None else tuple(context.identity.prefixes_within("")),
        order=_order(sort),
        after=after and OverviewCursor(*after),
        limit=limit + 1,
    )
    found = await context.coordinator.overview(overview_filter)
    page = found.groups[:limit]
    next_cursor = write_cursor(page[-1].key, page[-1].group_id) if len(found.groups) > limit else None
    return GroupOverviewResponse([_to_response(each) for each in page], dict(found.counts), next_cursor)


def _order(sort: str) -> GroupOrder:
    try:
        return GroupOrder(sort)
    except ValueError:
        raise InvalidRequest(f"sort must be one of {', '.join(GroupOrder)}") from None


def _to_response(one: GroupSummary) -> GroupSummaryResponse:
    return GroupSummaryResponse(
        group_id=one.group_id,
        state=one.state,
        state_since=instant(one.state_since_ms),
        generation=one.generation,
        protocol_type=one.protocol_type,
        member_count=one.member_count,
        node_id=one.node_id,
        rebalance_started_at=instant_or_none(one.rebalance_started_at_ms),
        rebalance_trigger=one.rebalance_trigger,
        rebalances_last_hour=one.rebalances,
        lag=one.lag_records,
        is_lag_lower_bound=one.is_lag_lower_bound,
        log_end_at=instant_or_none(one.log_end_at_ms),
        last_rebalance_trigger=one.last_trigger,
        last_rebalance_at=instant_or_none(one.last_completed_at_ms),
    )
