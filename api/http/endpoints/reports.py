"""What jobs report, over HTTP: the newest row of each group, with the columns of its table; any node answers.

A further report is a shape with the columns to show, an answer, and an endpoint of one line.

Source: http-api.md "Reports"; docs/tables.md for the columns.
"""

from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct, convert

from api.http.call import Call, ThisCall
from api.http.cursors import Name, read_cursor, write_cursor
from api.http.express import REQUEST
from api.http.fields import PageLimit
from api.http.limits import GROUP_ID_MAX_CHARS
from coordinator_core.protocol.advice.policy import Confidence, Verdict
from coordinator_core.store.reports import Report, ReportFilter, ReportKind

TAGS: Final = ["Operators: reports"]

GroupAsked: TypeAlias = Annotated[str | None, QueryParameter(name="group_id", max_length=GROUP_ID_MAX_CHARS)]

Shape = TypeVar("Shape", bound=Struct)


class ReportShown(Struct, kw_only=True):
    """What a report begins with; what is not known is null."""

    group_id: str
    interval_start: datetime
    interval_end: datetime
    run_id: str
    as_of: datetime


# -- how often, how long and why groups rebalance --------------------------------------------------------------


class RebalanceReport(ReportShown, kw_only=True):
    """A group's rebalances that were over within the interval, and whether it settled."""

    rebalances: int
    completed: int
    emptied: int
    abandoned: int
    by_trigger: dict[str, int]
    restarts: int
    took_ms_p50: int | None
    took_ms_p95: int | None
    """19 of 20 took no longer."""
    took_ms_max: int | None
    took_ms_total: int
    rebalancing_ms: int
    """How long of the interval the group rebalanced."""
    lived_ms: int | None
    """How long of the interval the group lived; null in reports that are older than the column."""
    rebalancing_share: float
    """The share of `lived_ms` in which the group rebalanced."""
    evicted: int
    spuriously_evicted: int
    """Those that were back within the grace."""
    waited_for_member_id: str | None
    waited_for_instance_id: str | None
    waited_for_client_id: str | None
    waited_for_client_host: str | None
    waited_for_members: int | None
    """Under how many member ids."""
    waited_for_ms: int | None
    storms: int
    stormy_rebalances: int
    unsettled_since: datetime | None
    never_settles: bool


class RebalanceReports(Struct):
    """A page of reports, by group; `next_cursor` asks for the next one, and is null on the last."""

    reports: list[RebalanceReport]
    next_cursor: str | None


@get("/v1/reports/rebalances", tags=TAGS, opt={REQUEST: "ListRebalanceReports"})
async def list_rebalance_reports(
    call: ThisCall, group_id: GroupAsked = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> RebalanceReports:
    """List the newest report on each group's rebalances: how often, how long, why, and who held them up."""
    which = _which(ReportKind.REBALANCES, group_id, limit, cursor)
    return RebalanceReports(*await _newest(call, which, RebalanceReport))


# -- how evenly groups' partitions are spread ------------------------------------------------------------------


class Spread(Struct, kw_only=True):
    """How evenly partitions, and records not yet read, are spread over members."""

    members: int
    idle_members: int
    partitions: int
    unassigned: int
    partitions_max: int
    partitions_mean: float
    lag_max: int | None
    lag_mean: float | None
    best_partitions_max: int
    misplaced: int
    """Partitions that a better assignment would have elsewhere."""
    has_better: bool
    score: int
    """From 0 to 100; 100: nothing better exists."""
    moved: int
    moves_needed: int


class TopicSpread(Spread, kw_only=True):
    """How one topic of the group is spread, as everything else lies."""

    topic: str


class AssignmentReport(Spread, kw_only=True):
    """How evenly a group's partitions were spread when it was looked at."""

    group_id: str
    interval_start: datetime
    interval_end: datetime
    run_id: str
    as_of: datetime
    generation: int
    topics: int
    score_before: int | None
    trend: str
    """`first`, `better`, `worse` or `same`."""
    by_topic: list[TopicSpread]


class AssignmentReports(Struct):
    """A page of reports, by group; `next_cursor` asks for the next one, and is null on the last."""

    reports: list[AssignmentReport]
    next_cursor: str | None


@get("/v1/reports/assignments", tags=TAGS, opt={REQUEST: "ListAssignmentReports"})
async def list_assignment_reports(
    call: ThisCall, group_id: GroupAsked = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> AssignmentReports:
    """List the newest audit of each group's assignment: how even it is, and whether a better one exists."""
    which = _which(ReportKind.ASSIGNMENTS, group_id, limit, cursor)
    return AssignmentReports(*await _newest(call, which, AssignmentReport))


# -- which timeouts groups should have -------------------------------------------------------------------------


class TimeoutReport(ReportShown, kw_only=True):
    """What a group's own history says of its timeouts; all of them in milliseconds, null where too little is known."""

    window_start: datetime
    """From when on history was looked at, until the interval's end."""
    heartbeats: int
    session_present_ms: int | None
    session_advised_ms: int | None
    session_verdict: Verdict
    session_confidence: Confidence
    session_because: str
    session_effect: dict[str, int]
    rebalance_present_ms: int | None
    rebalance_advised_ms: int | None
    rebalance_verdict: Verdict
    rebalance_confidence: Confidence
    rebalance_because: str
    rebalance_effect: dict[str, int]
    initial_delay_present_ms: int
    initial_delay_advised_ms: int | None
    initial_delay_verdict: Verdict
    initial_delay_confidence: Confidence
    initial_delay_because: str
    initial_delay_effect: dict[str, int]
    back_test: dict[str, Any] | None
    """How such advice on the session timeout did on days held back, beside what is in force and 10 and 45 seconds."""
    recommendations: list[dict[str, Any]] | None
    """Changes of the clients' configuration with `name`, `because` and `effect`; null in reports older than these."""


class TimeoutReports(Struct):
    """A page of reports, by group; `next_cursor` asks for the next one, and is null on the last."""

    reports: list[TimeoutReport]
    next_cursor: str | None


@get("/v1/reports/timeouts", tags=TAGS, opt={REQUEST: "ListTimeoutReports"})
async def list_timeout_reports(
    call: ThisCall, group_id: GroupAsked = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> TimeoutReports:
    """List the newest advice on each group's timeouts, with what it would have done."""
    return TimeoutReports(*await _newest(call, _which(ReportKind.TIMEOUTS, group_id, limit, cursor), TimeoutReport))


# -- what all reports share ------------------------------------------------------------------------------------


def _which(kind: ReportKind, group_id: str | None, limit: int, cursor: str) -> ReportFilter:
    """Return what is asked for, and one more, which tells whether there is another page."""
    place = read_cursor(cursor, tuple[Name])
    return ReportFilter(kind, group_id, place[0] if place else None, limit + 1)


async def _newest(call: Call, which: ReportFilter, shape: type[Shape]) -> tuple[list[Shape], str | None]:
    """Return a page of reports and its cursor; a token for some groups sees theirs, on shorter pages."""
    found = await call.coordinator.reports(which)
    page = found[: which.limit - 1]
    next_cursor = write_cursor(page[-1]["group_id"]) if len(found) > len(page) else None
    return [_shown(report, shape) for report in page if call.sees(report["group_id"])], next_cursor


def _shown(report: Report, shape: type[Shape]) -> Shape:
    """Return the columns that a shape names."""
    return convert(report, shape)
