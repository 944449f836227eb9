"""Options of the reports, from which DAG params, command lines and environment variables are derived.

Every option is a whole number with bounds. Its default comes from `MUSTER_<JOB>_<OPTION>`, such as
`MUSTER_REBALANCE_FREQUENCY_REPORT_GRACE_MS`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.errors import JobError

HOUR_MS = 3_600_000
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Option:
    """A report's option: a whole number with bounds."""

    name: str
    default: int
    least: int
    most: int
    meaning: str

    @property
    def flag(self) -> str:
        """Return the option's command-line flag."""
        return f"--{self.name.replace('_', '-')}"


REPORT_DAYS = Option("report_days", 400, 1, 3_650, "Days for which reports are kept")

OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "assignment_balance_audit": (REPORT_DAYS,),
    "rebalance_frequency_report": (
        Option("grace_ms", 60_000, 0, HOUR_MS, "Rejoins within this time make an eviction spurious, in milliseconds"),
        Option("churn_min_rebalances", 5, 2, 1_000, "Rebalances within the window that count as churn"),
        Option("churn_window_ms", 600_000, 1, DAY_MS, "Window in which rebalances count as churn, in milliseconds"),
        Option("stuck_ms", 600_000, 1, 7 * DAY_MS, "Duration from which a rebalance is stuck, in milliseconds"),
        Option("stuck_restarts", 10, 1, 1_000_000, "Restarts from which a rebalance is stuck"),
        REPORT_DAYS,
    ),
    "timeout_advice": (
        Option("window_days", 28, 3, 365, "Days to analyse, before the interval's end"),
        Option("held_back_days", 7, 1, 90, "Last days of them reserved for the back-test; at most a quarter"),
        Option("spurious_per_week", 1, 0, 1_000_000, "Accepted spurious evictions per group and week"),
        Option("grace_ms", 60_000, 0, HOUR_MS, "Rejoins within this time make an eviction spurious, in milliseconds"),
        REPORT_DAYS,
    ),
}
"""The options of each report."""


def default_options(job: str) -> dict[str, int]:
    """Return a report's default options, from the environment or built in.

    Raises:
        JobError: A setting is not a whole number within its bounds.
    """
    return {option.name: _setting(job, option) for option in OPTIONS[job]}


def _setting(job: str, option: Option) -> int:
    variable = f"MUSTER_{job.upper()}_{option.name.upper()}"
    text = os.environ.get(variable, "").strip() or str(option.default)
    try:
        value = int(text)
    except ValueError:
        value = option.least - 1
    if not option.least <= value <= option.most:
        raise JobError(f"{variable} is {text!r}; it must be a whole number from {option.least} to {option.most}.")
    return value
