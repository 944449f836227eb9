"""Endpoints for the reports of maintenance jobs: the newest row of each group, with the columns of its table.

Any node answers. A further report is a response type with its columns, a page type, and an endpoint.

Source: http-api.md "Reports"; docs/tables.md for the columns.
"""

from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from litestar import get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct, convert

from api.http.cursors import Name, read_cursor, write_cursor
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit
from api.http.limits import GROUP_ID_MAX_CHARS
from api.http.request_context import CurrentRequest, RequestContext
from coordinator_core.analytics.advice.policy import Confidence, Verdict
from coordinator_core.store.reports import Report, ReportFilter, ReportKind

TAGS: Final = ["Operators: reports"]

GroupIdParam: TypeAlias = Annotated[str | None, QueryParameter(name="group_id", max_length=GROUP_ID_MAX_CHARS)]

ResponseT = TypeVar("ResponseT", bound=Struct)


class ReportResponse(Struct, kw_only=True):
    """The first columns of every report; unknown values are null."""

    group_id: str
    interval_start: datetime
    interval_end: datetime
    run_id: str
    as_of: datetime


# -- rebalances ------------------------------------------------------------------------------------------------


class RebalanceReportResponse(ReportResponse, kw_only=True):
    """A group's rebalances that ended within the interval, and whether the group churns."""

    rebalances: int
    completed: int
    emptied: int
    abandoned: int
    by_trigger: dict[str, int]
    restarts: int
    took_p50_ms: int | None
    took_p95_ms: int | None
    """The 95th percentile."""
    took_max_ms: int | None
    took_total_ms: int
    rebalancing_ms: int
    """The time within the interval in which the group rebalanced."""
    existed_ms: int | None
    """The time within the interval in which the group existed; null in reports older than the column."""
    rebalancing_share: float
    """The share of `existed_ms` in which the group rebalanced."""
    evicted: int
    spuriously_evicted: int
    """Evicted members whose client reconnected within the grace period."""
    waited_for_member_id: str | None
    waited_for_instance_id: str | None
    waited_for_client_id: str | None
    waited_for_client_host: str | None
    waited_for_members: int | None
    """The number of member ids of that consumer."""
    waited_for_ms: int | None
    churn_periods: int
    churn_rebalances: int
    rebalancing_since: datetime | None
    is_churning: bool


class RebalanceReportsResponse(Struct):
    """A page of reports, by group; `next_cursor` is null on the last page."""

    reports: list[RebalanceReportResponse]
    next_cursor: str | None


@get("/v1/reports/rebalances", tags=TAGS, opt={REQUEST: "ListRebalanceReports"})
async def list_rebalance_reports(
    context: CurrentRequest, group_id: GroupIdParam = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> RebalanceReportsResponse:
    """List the newest rebalance report of each group: number, duration, triggers, and the slowest consumer."""
    report_filter = _report_filter(ReportKind.REBALANCES, group_id, limit, cursor)
    return RebalanceReportsResponse(*await _newest(context, report_filter, RebalanceReportResponse))


# -- assignment balance ----------------------------------------------------------------------------------------


class AssignmentBalance(Struct, kw_only=True):
    """How evenly partitions and lag are distributed over the members."""

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
    """Partitions that a better assignment would give to other members."""
    has_better: bool
    score: int
    """From 0 to 100; 100: no better assignment exists."""
    moved: int
    moves_needed: int


class TopicBalance(AssignmentBalance, kw_only=True):
    """The balance of one topic, with the other topics as they are."""

    topic: str


class AssignmentReportResponse(AssignmentBalance, kw_only=True):
    """The balance of a group's assignment at the time of the audit."""

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
    by_topic: list[TopicBalance]


class AssignmentReportsResponse(Struct):
    """A page of reports, by group; `next_cursor` is null on the last page."""

    reports: list[AssignmentReportResponse]
    next_cursor: str | None


@get("/v1/reports/assignments", tags=TAGS, opt={REQUEST: "ListAssignmentReports"})
async def list_assignment_reports(
    context: CurrentRequest, group_id: GroupIdParam = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> AssignmentReportsResponse:
    """List the newest assignment audit of each group: its balance, and whether a better assignment exists."""
    report_filter = _report_filter(ReportKind.ASSIGNMENTS, group_id, limit, cursor)
    return AssignmentReportsResponse(*await _newest(context, report_filter, AssignmentReportResponse))


# -- timeout advice --------------------------------------------------------------------------------------------


class TimeoutReportResponse(ReportResponse, kw_only=True):
    """Advice on a group's timeouts from its history, in milliseconds; null if there is too little history."""

    window_start: datetime
    """The start of the analysed history, which ends at `interval_end`."""
    heartbeats: int
    session_present_ms: int | None
    session_advised_ms: int | None
    session_verdict: Verdict
    session_confidence: Confidence
    session_reason: str
    session_effect: dict[str, int]
    rebalance_present_ms: int | None
    rebalance_advised_ms: int | None
    rebalance_verdict: Verdict
    rebalance_confidence: Confidence
    rebalance_reason: str
    rebalance_effect: dict[str, int]
    initial_delay_present_ms: int
    initial_delay_advised_ms: int | None
    initial_delay_verdict: Verdict
    initial_delay_confidence: Confidence
    initial_delay_reason: str
    initial_delay_effect: dict[str, int]
    back_test: dict[str, Any] | None
    """The session timeout advice tested on held-back days, compared with the effective value and with 10 and 45 s."""
    recommendations: list[dict[str, Any]] | None
    """Changes of the clients' configuration: `name`, `because`, `effect`; null in reports older than the column."""


class TimeoutReportsResponse(Struct):
    """A page of reports, by group; `next_cursor` is null on the last page."""

    reports: list[TimeoutReportResponse]
    next_cursor: str | None


@get("/v1/reports/timeouts", tags=TAGS, opt={REQUEST: "ListTimeoutReports"})
async def list_timeout_reports(
    context: CurrentRequest, group_id: GroupIdParam = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> TimeoutReportsResponse:
    """List the newest timeout advice for each group, with its estimated effect."""
    return TimeoutReportsResponse(
        *await _newest(context, _report_filter(ReportKind.TIMEOUTS, group_id, limit, cursor), TimeoutReportResponse)
    )


# -- shared ----------------------------------------------------------------------------------------------------


def _report_filter(kind: ReportKind, group_id: str | None, limit: int, cursor: str) -> ReportFilter:
    """Return the filter of a request, with one row more, which shows whether there is another page."""
    after = read_cursor(cursor, tuple[Name])
    return ReportFilter(kind, group_id, after[0] if after else None, limit + 1)


async def _newest(
    context: RequestContext, report_filter: ReportFilter, response_type: type[ResponseT]
) -> tuple[list[ResponseT], str | None]:
    """Return a page of reports and the next cursor; a token for some groups gets the reports of its groups only."""
    found = await context.coordinator.reports(report_filter)
    page = found[: report_filter.limit - 1]
    next_cursor = write_cursor(page[-1]["group_id"]) if len(found) > len(page) else None
    return [
        _to_response(report, response_type) for report in page if context.can_access(report["group_id"])
    ], next_cursor


def _to_response(report: Report, response_type: type[ResponseT]) -> ResponseT:
    """Convert a report to a response type, which selects its columns."""
    return convert(report, response_type)
