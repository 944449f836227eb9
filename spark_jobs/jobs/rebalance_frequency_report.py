"""How often, how long and why groups rebalanced within an interval, and who held them up, is told.

Run by spark-submit; `spark_jobs.submit` makes the command line. Its rows depend on the interval only, so intervals of
the past can be told of in any order; running it again for the same interval replaces the rows.
"""

import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame

from coordinator_core.protocol.reports.frequency import Thresholds
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.publish import ReportTable
from spark_jobs.report_relations import (
    evictions_within,
    joins_within,
    lives_within,
    rebalances_within,
    waits_within,
)
from spark_jobs.reporting import ReportArguments, ReportingJob, run
from spark_jobs.transforms.rebalance_frequency import (
    EVICTION_COLUMNS,
    JOIN_COLUMNS,
    LIFE_COLUMNS,
    REBALANCE_COLUMNS,
    REPORT_COLUMNS,
    WAIT_COLUMNS,
    Interval,
    rebalance_frequency,
)

SILENCE_MAX = timedelta(hours=2)
"""Of whoever had been silent for longer when it was put out nobody sees that it was followed."""


def find(history: History, arguments: ReportArguments) -> Sequence[DataFrame]:
    """Read what happened within the interval, and tell of it group by group."""
    start, end, options = arguments.interval_start, arguments.interval_end, arguments.options
    back_by = end + timedelta(milliseconds=options["grace_ms"])
    _require_over(start, end, back_by)
    rebalances = history.read(rebalances_within(start, end), REBALANCE_COLUMNS)
    lives = history.read(lives_within(start, end), LIFE_COLUMNS)
    waits = history.read(waits_within(start, end), WAIT_COLUMNS)
    evictions = history.read(evictions_within(start, end), EVICTION_COLUMNS)
    joins = history.read(joins_within(start - SILENCE_MAX, back_by), JOIN_COLUMNS)
    thresholds = Thresholds(**{field.name: options[field.name] for field in fields(Thresholds)})
    told = rebalance_frequency(rebalances, lives, waits, evictions, joins, Interval(start, end), thresholds)
    return (told,)


def _require_over(start: datetime, end: datetime, back_by: datetime) -> None:
    """Refuse an interval of which not everything is known: what is told of it must not change any more.

    Raises:
        JobError: It is empty, or whoever was put out in it may still come back.
    """
    if start >= end:
        raise JobError("The report tells of an interval, and this one is empty.")
    if back_by > datetime.now(UTC):
        raise JobError(f"The interval until {end.isoformat()} can be told of from {back_by.isoformat()} on.")


JOB = ReportingJob(
    kind="rebalance_frequency_report",
    find=find,
    tables=(ReportTable("rebalance_frequency_reports", REPORT_COLUMNS),),
    is_of_a_day=True,
)


def main(command_line: Sequence[str] | None = None) -> int:
    """Tell of the interval; return the exit status."""
    return run(JOB, command_line)


if __name__ == "__main__":
    sys.exit(main())
