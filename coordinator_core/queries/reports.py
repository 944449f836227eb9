"""Queries of reports: the newest row of each group, or every row of some days, with the columns of the table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import FromClause, Select, Table, and_, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on

from coordinator_core.jobs import JOBS
from coordinator_core.queries.group_patterns import GroupPatterns, covers
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import as_ms, from_ms
from coordinator_core.state_store.report_tables import INTERVAL_KEY, report_table

Report = Mapping[str, Any]
"""Column → value; times are datetimes in UTC."""

PARTS: Final = "by_topic"
"""The key of a report under which its parts are: a list of rows in the order of their keys."""


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """Selects reports."""

    subject: str
    """A key of REPORTS."""
    group_ids: Sequence[str] | None = None
    """None: all groups."""
    after: str | None = None
    """The last group of the previous page."""
    limit: int = 100
    patterns: GroupPatterns | None = None
    """None: every group."""


@dataclass(frozen=True, slots=True)
class ReportHistoryFilter:
    """Selects reports by their interval."""

    subject: str
    """A key of REPORTS."""
    since_ms: int
    """Reports whose interval ended after this time, in wall time."""
    group_ids: Sequence[str] | None = None
    """None: all groups."""
    after: tuple[int, int, str] | None = None
    """End and start of the interval, in wall time, and group of the last report of the previous page."""
    limit: int = 100
    patterns: GroupPatterns | None = None
    """None: every group."""


_REPORTING: Final = [job for job in JOBS.values() if job.is_report]

REPORTS: Final[Mapping[str, Table]] = {job.subject: report_table(job.reports[0]) for job in _REPORTING}
"""The table of each report by the subject of its job; all have group_id, interval_start and interval_end."""

REPORT_PARTS: Final[Mapping[str, Table]] = {
    job.subject: report_table(job.reports[1]) for job in _REPORTING if len(job.reports) > 1
}
"""The table of the parts of a report, one row per topic."""


def read_reports(transaction: Transaction, which: ReportFilter) -> list[Report]:
    """Return the newest report of each group, by group."""
    newest = _newest(which)
    parts = REPORT_PARTS.get(which.subject)
    if parts is None:
        return [_named(REPORTS[which.subject], row) for row in transaction.execute(newest)]
    # One statement, because a job may replace report and parts between two.
    reports = newest.subquery()
    is_part = and_(*(parts.c[name] == reports.c[name] for name in INTERVAL_KEY))
    both = select(reports, parts).outerjoin(parts, is_part).order_by(reports.c.group_id, parts.c.topic)
    by_group = groupby(transaction.execute(both), attrgetter("group_id"))
    return [_with_parts(list(rows), reports, parts) for _, rows in by_group]


def _newest(which: ReportFilter) -> Select[Any]:
    table = REPORTS[which.subject]
    wanted = select(table).ext(distinct_on(table.c.group_id)).where(*covers(table.c.group_id, which.patterns))
    if which.group_ids is not None:
        wanted = wanted.where(table.c.group_id.in_(which.group_ids))
    if which.after is not None:
        wanted = wanted.where(table.c.group_id > which.after)
    newest_first = (table.c.group_id, table.c.interval_end.desc(), table.c.interval_start.desc(), table.c.as_of.desc())
    return wanted.order_by(*newest_first).limit(which.limit)


def read_report_history(transaction: Transaction, which: ReportHistoryFilter) -> list[Report]:
    """Return a page of the reports of every interval, the newest first, without their parts."""
    table = REPORTS[which.subject]
    newest_first = (table.c.interval_end, table.c.interval_start, table.c.group_id)
    is_recent = table.c.interval_end > from_ms(which.since_ms)
    wanted = select(table).where(is_recent, *covers(table.c.group_id, which.patterns))
    if which.group_ids is not None:
        wanted = wanted.where(table.c.group_id.in_(which.group_ids))
    if which.after is not None:
        place = tuple_(as_ms(table.c.interval_end), as_ms(table.c.interval_start), table.c.group_id)
        wanted = wanted.where(place < which.after)
    rows = transaction.execute(wanted.order_by(*(column.desc() for column in newest_first)).limit(which.limit))
    return [_named(table, row) for row in rows]


def _with_parts(rows: Sequence[Sequence[Any]], reports: FromClause, parts: Table) -> Report:
    """Return a report of its rows, each with the values of the report and those of a part, if it has any."""
    size = len(reports.columns)
    given = [_named(parts, row[size:]) for row in rows]
    return {**_named(reports, rows[0][:size]), PARTS: [part for part in given if part["topic"] is not None]}


def _named(table: FromClause, values: Iterable[Any]) -> Report:
    # SQLAlchemy's names are a subclass of str.
    return {str(column.name): _value(value) for column, value in zip(table.columns, values, strict=True)}


def _value(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    return value.astimezone(UTC) if isinstance(value, datetime) else value
