"""What jobs report is asked for group by group: the newest row of each, with the columns of the table as they are."""

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
"""A row by the names of its columns; instants are datetimes in UTC."""

PARTS: Final = "by_topic"
"""Where a report with parts has them: a list of rows in the order of their keys."""


class ReportKind(StrEnum):
    """What is reported on."""

    ASSIGNMENTS = "assignments"
    REBALANCES = "rebalances"
    TIMEOUTS = "timeouts"


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """Which reports are asked for."""

    kind: ReportKind
    group_id: str | None = None
    """None: of every group."""
    after: str | None = None
    """The page begins after this group."""
    limit: int = 100


REPORTS: Final[Mapping[ReportKind, Table]] = {
    ReportKind.ASSIGNMENTS: assignment_balance_audits,
    ReportKind.REBALANCES: rebalance_frequency_reports,
    ReportKind.TIMEOUTS: timeout_advice,
}
"""Where each kind of report is kept: tables that have group_id, interval_start and interval_end."""

REPORT_PARTS: Final[Mapping[ReportKind, Table]] = {ReportKind.ASSIGNMENTS: assignment_balance_topics}
"""Where the parts of a report are kept, which is told apart by topic."""


def key_of(report: Report) -> tuple[Any, ...]:
    """Return what a report and its parts have in common."""
    return report["group_id"], report["interval_end"], report["interval_start"]


def with_parts(reports: Iterable[Report], parts: Iterable[Report]) -> list[Report]:
    """Put parts, which are in order, to their reports."""
    by_report: dict[tuple[Any, ...], list[Report]] = {}
    for part in parts:
        by_report.setdefault(key_of(part), []).append(part)
    return [{**report, PARTS: by_report.get(key_of(report), [])} for report in reports]
