"""Endpoints for the reports of maintenance jobs: the newest of each group, or those of some days.

Any node answers. Every report of `coordinator_core.jobs` has an endpoint; its response type is derived from its table,
and has its columns.

Source: http-api.md "Reports"; docs/tables.md for the columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypeAlias

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, QueryParameter
from msgspec import UNSET, Struct, UnsetType, convert, defstruct

from api.http.authorization import report_request
from api.http.cursors import AtMs, Name, read_cursor, write_cursor
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit
from api.http.request_context import CurrentRequest, RequestContext
from api.http.times import epoch_ms
from coordinator_core.jobs import DAY_MS, JOBS, REPORT_DAYS, JobSpec
from coordinator_core.queries.reports import (
    PARTS,
    Report,
    ReportFilter,
    ReportHistoryFilter,
    read_report_history,
    read_reports,
)
from coordinator_core.state_store.report_tables import column_types

TAGS: Final = ["Operators: reports"]

GroupIdsParam: TypeAlias = Annotated[
    list[str] | None, QueryParameter(name="group_id", description="only reports of this group; repeatable")
]
DaysParam: TypeAlias = Annotated[
    int | None,
    QueryParameter(
        name="days",
        ge=1,
        le=REPORT_DAYS.most,
        description="instead, every report whose interval ended within so many days, the newest first",
    ),
]

Field: TypeAlias = tuple[str, Any] | tuple[str, Any, Any]
"""Name, type and default of a field of a response."""

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
        namespace={
            "__doc__": "A page of reports, by group or the newest first; `next_cursor` is null on the last page."
        },
    )

    async def list_reports(
        context: CurrentRequest,
        group_ids: GroupIdsParam = None,
        days: DaysParam = None,
        limit: PageLimit = 100,
        cursor: FromQuery[str] = "",
    ) -> Struct:
        if days is None:
            newest = ReportFilter(job.subject, group_ids, limit=limit + 1, patterns=context.covered_groups)
            found, next_cursor = await _newest(context, newest, cursor)
        else:
            since_ms = context.coordinator.wall_ms() - days * DAY_MS
            history = ReportHistoryFilter(
                job.subject, since_ms, group_ids, limit=limit + 1, patterns=context.covered_groups
            )
            found, next_cursor = await _history(context, history, cursor)
        return page_type([convert(report, response_type) for report in found], next_cursor)

    list_reports.__name__ = f"list_{what}_reports"
    list_reports.__doc__ = f"List reports of the job {job.name}: the newest of each group, or those of some days."
    list_reports.__annotations__["return"] = page_type
    return get(f"/v1/reports/{job.subject}", tags=TAGS, opt={REQUEST: report_request(job)})(list_reports)


# -- response types --------------------------------------------------------------------------------------------


def _response_type(job: JobSpec, what: str) -> type[Struct]:
    """Return the type of a report: its columns, and a list of its parts if it has any."""
    table, *parts = job.reports
    fields: list[Field] = [(name, kind) for name, kind in column_types(table).items() if name != OMITTED]
    for part in parts:
        own = [(name, kind) for name, kind in column_types(part).items() if name not in {OMITTED, *KEY}]
        part_type = _struct(f"{what}ReportPart", part, own)
        fields.append((PARTS, list[part_type] | UnsetType, UNSET))  # type: ignore[valid-type]  # made at run time
    return _struct(f"{what}ReportResponse", table, fields)


def _struct(name: str, table: str, fields: Sequence[Field]) -> type[Struct]:
    text = f"A row of `{table}`; docs/tables.md describes the columns. Unknown values are null."
    return defstruct(name, fields, namespace={"__doc__": text})


# -- pages -----------------------------------------------------------------------------------------------------


async def _newest(context: RequestContext, wanted: ReportFilter, cursor: str) -> tuple[list[Report], str | None]:
    """Return a page of the newest reports, and the next cursor; the filter's limit is one more than the page's."""
    after = read_cursor(cursor, tuple[Name])
    found = await context.query(read_reports, replace(wanted, after=after[0] if after else None))
    page = found[: wanted.limit - 1]
    return page, write_cursor(page[-1]["group_id"]) if len(found) > len(page) else None


async def _history(
    context: RequestContext, wanted: ReportHistoryFilter, cursor: str
) -> tuple[list[Report], str | None]:
    """Return a page of the reports of some days, and the next cursor; the limit is as for `_newest`."""
    after = read_cursor(cursor, tuple[AtMs, AtMs, Name])
    found = await context.query(read_report_history, replace(wanted, after=after))
    page = found[: wanted.limit - 1]
    return page, write_cursor(*_place(page[-1])) if len(found) > len(page) else None


def _place(report: Report) -> tuple[int, int, str]:
    """Return what the history is sorted by."""
    return epoch_ms(report["interval_end"]), epoch_ms(report["interval_start"]), report["group_id"]
