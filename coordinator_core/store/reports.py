"""Queries of reports: the newest row of each group, with the columns of the table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Table

from coordinator_core.store.advice_tables import timeout_advice
from coordinator_core.store.report_tables import (
    assignment_balance_audits,
    assignment_balance_topics,
    rebalance_frequency_reports,
)

Report = Mapping[str, Any]
"""Column → value; times are datetimes in UTC."""

PARTS: Final = "by_topic"
"""The key of a report under which its parts are: a list of rows in the order of their keys."""


class ReportKind(StrEnum):
    """The kind of a report."""

    ASSIGNMENTS = "assignments"
    REBALANCES = "rebalances"
    TIMEOUTS = "timeouts"


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """Selects reports."""

    kind: ReportKind
    group_id: str | None = None
    """None: all groups."""
    after: str | None = None
    """The last group of the previous page."""
    limit: int = 100


REPORTS: Final[Mapping[ReportKind, Table]] = {
    ReportKind.ASSIGNMENTS: assignment_balance_audits,
    ReportKind.REBALANCES: rebalance_frequency_reports,
    ReportKind.TIMEOUTS: timeout_advice,
}
"""The table of each kind of report; all have group_id, interval_start and interval_end."""

REPORT_PARTS: Final[Mapping[ReportKind, Table]] = {ReportKind.ASSIGNMENTS: assignment_balance_topics}
"""The table of the parts of a report, one row per topic."""


def key_of(report: Report) -> tuple[Any, ...]:
    """Return the key that a report and its parts have in common."""
    return report["group_id"], report["interval_end"], report["interval_start"]


def with_parts(reports: Iterable[Report], parts: Iterable[Report]) -> list[Report]:
    """Return the reports with their parts, whose order is kept."""
    by_report: dict[tuple[Any, ...], list[Report]] = {}
    for part in parts:
        by_report.setdefault(key_of(part), []).append(part)
    return [{**report, PARTS: by_report.get(key_of(report), [])} for report in reports]
