"""Endpoints for the reports of maintenance jobs: the newest row of each group, with the columns of its table.

Any node answers. Every report of `coordinator_core.jobs` has an endpoint; its response type is derived from its table.

Source: http-api.md "Reports"; docs/tables.md for the columns.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeAlias

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct, convert, defstruct

from api.http.authorization import report_request
from api.http.cursors import Name, read_cursor, write_cursor
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit
from api.http.request_context import CurrentRequest, RequestContext
from api.shared.limits import GROUP_ID_MAX_CHARS
from coordinator_core.jobs import JOBS, JobSpec
from coordinator_core.queries.reports import PARTS, Report, ReportFilter, read_reports
from coordinator_core.state_store.report_tables import column_types

TAGS: Final = ["Operators: reports"]

GroupIdParam: TypeAlias = Annotated[str | None, QueryParameter(name="group_id", max_length=GROUP_ID_MAX_CHARS)]

KEY: Final = ("group_id", "interval_start", "interval_end", "run_id", "as_of")
"""The columns that a report and its parts share."""
OMITTED: Final = "shard_id"


def report_lists() -> Iterator[HTTPRouteHandler]:
    """Yield the endpoint of each report."""
    return (_report_list(job) for job in JOBS.values() if job.is_report)


def _report_list(job: JobSpec) -> HTTPRouteHandler:
    what = job.subject.removesuffix("s")
    response_type = _response_type(job, what.title())
    page_type = defstruct(
        f"{what.title()}ReportsResponse",
        [("reports", list[response_type]), ("next_cursor", str | None)],  # type: ignore[valid-type]  # made above
        namespace={"__doc__": "A page of reports, by group; `next_cursor` is null on the last page."},
    )

    async def list_reports(
        context: CurrentRequest, group_id: GroupIdParam = None, limit: PageLimit = 100, cursor: FromQuery[str] = ""
    ) -> Struct:
        report_filter = _report_filter(job.subject, group_id, limit, cursor)
        return page_type(*await _newest(context, report_filter, response_type))

    list_reports.__name__ = f"list_{what}_reports"
    list_reports.__doc__ = f"List the newest report of each group that the job {job.name} has written."
    list_reports.__annotations__["return"] = page_type
    return get(f"/v1/reports/{job.subject}", tags=TAGS, opt={REQUEST: report_request(job)})(list_reports)


# -- response types --------------------------------------------------------------------------------------------


def _response_type(job: JobSpec, what: str) -> type[Struct]:
    """Return the type of a report: its columns, and a list of its parts if it has any."""
    table, *parts = job.reports
    fields = {name: kind for name, kind in column_types(table).items() if name != OMITTED}
    for part in parts:
        own = {name: kind for name, kind in column_types(part).items() if name not in {OMITTED, *KEY}}
        fields[PARTS] = list[_struct(f"{what}ReportPart", part, own)]  # type: ignore[misc]  # made at run time
    return _struct(f"{what}ReportResponse", table, fields)


def _struct(name: str, table: str, fields: dict[str, Any]) -> type[Struct]:
    text = f"A row of `{table}`; docs/tables.md describes the columns. Unknown values are null."
    return defstruct(name, fields.items(), namespace={"__doc__": text})


# -- pages -----------------------------------------------------------------------------------------------------


def _report_filter(subject: str, group_id: str | None, limit: int, cursor: str) -> ReportFilter:
    """Return the filter of a request, with one row more, which shows whether there is another page."""
    after = read_cursor(cursor, tuple[Name])
    return ReportFilter(subject, group_id, after[0] if after else None, limit + 1)


async def _newest(
    context: RequestContext, report_filter: ReportFilter, response_type: type[Struct]
) -> tuple[list[Struct], str | None]:
    """Return a page of reports and the next cursor; a token for some groups gets the reports of its groups only."""
    found = await context.query(read_reports, report_filter)
    page = found[: report_filter.limit - 1]
    next_cursor = write_cursor(page[-1]["group_id"]) if len(found) > len(page) else None
    return [
        _to_response(report, response_type) for report in page if context.can_access(report["group_id"])
    ], next_cursor


def _to_response(report: Report, response_type: type[Struct]) -> Struct:
    """Convert a report to a response type, which selects its columns."""
    return convert(report, response_type)
