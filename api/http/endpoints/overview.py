"""The overview over HTTP: all groups on one screen, sorted by what an operator looks for; any node answers.

Source: the console's list of groups; docs/console.md.
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from api.http.call import ThisCall
from api.http.cursors import Int64, Name, read_cursor, write_cursor
from api.http.express import REQUEST
from api.http.fields import PageLimit, StatesAsked
from api.http.limits import GROUP_ID_MAX_CHARS
from api.http.times import instant, instant_or_none
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.states import GroupState
from coordinator_core.store.overview import GroupGlance, GroupOrder, OverviewFilter, OverviewPlace

TAGS: Final = ["Operators: groups"]
STATE_NAMES: Final = {state.lower(): str(state) for state in GroupState}

TextAsked: TypeAlias = Annotated[
    str, QueryParameter(name="q", max_length=GROUP_ID_MAX_CHARS, description="what the group's id holds somewhere")
]
OrderAsked: TypeAlias = Annotated[
    str, QueryParameter(name="sort", description="attention, group_id, since, members, lag or rebalances")
]


class GlanceShown(Struct):
    """A group in the overview; lag is null where no end of a log is known, or where it is a lower bound of 0."""

    group_id: str
    state: str
    state_since: datetime
    generation: int
    protocol_type: str | None
    member_count: int
    node_id: str | None
    rebalance_started_at: datetime | None
    rebalance_trigger: str | None
    """Of the rebalance under way."""
    rebalances_last_hour: int
    lag: int | None
    is_lag_at_least: bool
    """Whether the lag is a lower bound, because the end of a log is stale."""
    log_end_at: datetime | None
    """When the ends of its logs were last reported: the oldest of these instants."""
    last_rebalance_trigger: str | None
    last_rebalance_at: datetime | None
    """When it was over."""


class GroupOverview(Struct):
    """A page of groups; `counts` by state are of all that `q` lets through, whatever `state` says."""

    groups: list[GlanceShown]
    counts: dict[str, int]
    next_cursor: str | None


@get("/v1/overview/groups", tags=TAGS, opt={REQUEST: "ListGroupOverview"})
async def list_group_overview(
    call: ThisCall,
    q: TextAsked = "",
    states: StatesAsked = None,
    sort: OrderAsked = "attention",
    limit: PageLimit = 100,
    cursor: FromQuery[str] = "",
) -> GroupOverview:
    """List groups with members, lag and rebalances of the last hour, those first that want to be looked at."""
    place = read_cursor(cursor, tuple[Int64, Name])
    which = OverviewFilter(
        text=q,
        states=frozenset(STATE_NAMES.get(name.lower(), name) for name in states or () if name),
        prefixes=None if call.identity is None else tuple(call.identity.prefixes_within("")),
        order=_order(sort),
        after=place and OverviewPlace(*place),
        limit=limit + 1,
    )
    found = await call.coordinator.overview(which)
    page = found.groups[:limit]
    next_cursor = write_cursor(page[-1].key, page[-1].group_id) if len(found.groups) > limit else None
    return GroupOverview([_shown(each) for each in page], dict(found.counts), next_cursor)


def _order(sort: str) -> GroupOrder:
    try:
        return GroupOrder(sort)
    except ValueError:
        raise InvalidRequest(f"sort must be one of {', '.join(GroupOrder)}") from None


def _shown(one: GroupGlance) -> GlanceShown:
    return GlanceShown(
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
        is_lag_at_least=one.is_lag_at_least,
        log_end_at=instant_or_none(one.log_end_at_ms),
        last_rebalance_trigger=one.last_trigger,
        last_rebalance_at=instant_or_none(one.last_completed_at_ms),
    )
