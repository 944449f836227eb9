"""Queries of reports: the newest of each group, from the tables that jobs write."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import RowMapping, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on

from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.reports import REPORT_PARTS, REPORTS, Report, ReportFilter, key_of, with_parts


def read_reports(transaction: Transaction, which: ReportFilter) -> list[Report]:
    """Return the newest report of each group, by group."""
    reports = _newest(transaction, which)
    if which.kind not in REPORT_PARTS or not reports:
        return reports
    return with_parts(reports, _parts(transaction, which, reports))


def _newest(transaction: Transaction, which: ReportFilter) -> list[Report]:
    table = REPORTS[which.kind]
    wanted = select(table).ext(distinct_on(table.c.group_id))
    if which.group_id is not None:
        wanted = wanted.where(table.c.group_id == which.group_id)
    if which.after is not None:
        wanted = wanted.where(table.c.group_id > which.after)
    newest_first = (table.c.group_id, table.c.interval_end.desc(), table.c.interval_start.desc(), table.c.as_of.desc())
    rows = transaction.execute(wanted.order_by(*newest_first).limit(which.limit))
    return [_in_utc(row) for row in rows.mappings()]


def _parts(transaction: Transaction, which: ReportFilter, reports: list[Report]) -> list[Report]:
    parts = REPORT_PARTS[which.kind]
    key = tuple_(parts.c.group_id, parts.c.interval_end, parts.c.interval_start)
    wanted = select(parts).where(key.in_([key_of(report) for report in reports]))
    rows = transaction.execute(wanted.order_by(parts.c.group_id, parts.c.topic))
    return [_in_utc(row) for row in rows.mappings()]


def _in_utc(row: RowMapping) -> Report:
    # SQLAlchemy's names are a subclass of str.
    return {str(name): _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    return value.astimezone(UTC) if isinstance(value, datetime) else value
