"""What a report can be told is declared once: the DAG's params, the command line and the environment follow from it.

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
    """One whole number that a report goes by."""

    name: str
    default: int
    least: int
    most: int
    meaning: str

    @property
    def flag(self) -> str:
        """Return the option as the command line has it."""
        return f"--{self.name.replace('_', '-')}"


REPORT_DAYS = Option("report_days", 400, 1, 3_650, "How long reports are kept, in days")

OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "assignment_balance_audit": (REPORT_DAYS,),
    "rebalance_frequency_report": (
        Option("grace_ms", 60_000, 0, HOUR_MS, "Who is back within this time was put out spuriously"),
        Option("storm_rebalances", 5, 2, 1_000, "So many rebalances within the window are a storm"),
        Option("storm_window_ms", 600_000, 1, DAY_MS, "The window in which so many rebalances are a storm"),
        Option("unsettled_ms", 600_000, 1, 7 * DAY_MS, "A rebalance that goes on for longer does not settle"),
        Option("unsettled_restarts", 10, 1, 1_000_000, "A rebalance that falls back so often does not settle"),
        REPORT_DAYS,
    ),
    "timeout_advice": (
        Option("window_days", 28, 3, 365, "How many days before the interval's end are looked at"),
        Option("held_back_days", 7, 1, 90, "On how many of them, the last, advice is tested; at most a quarter"),
        Option("spurious_per_week", 1, 0, 1_000_000, "How many spurious evictions a week a group may have"),
        Option("grace_ms", 60_000, 0, HOUR_MS, "Who is back within this time was put out spuriously"),
        REPORT_DAYS,
    ),
}
"""The options of each report."""


def default_options(job: str) -> dict[str, int]:
    """Return what a report goes by where nothing else is said.

    Raises:
        JobError: A setting is no whole number within its bounds.
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
