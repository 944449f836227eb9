"""Report how often, how long and why groups rebalanced within an interval, and their slowest members.

Run by spark-submit; `spark_jobs.submit` builds the command line. The rows depend on the interval only, so past
intervals can be reported in any order. Running it again for the same interval replaces the rows.
"""

import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame

from coordinator_core.analytics.frequency import Thresholds
from coordinator_core.jobs import JOBS
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.report_job import ReportArguments, ReportingJob, run
from spark_jobs.report_relations import (
    evictions_within,
    joins_within,
    lifetimes_within,
    rebalances_within,
    waits_within,
)
from spark_jobs.transforms.rebalance_frequency import (
    EVICTION_COLUMNS,
    JOIN_COLUMNS,
    LIFETIME_COLUMNS,
    REBALANCE_COLUMNS,
    WAIT_COLUMNS,
    Interval,
    rebalance_frequency,
)

SILENCE_MAX = timedelta(hours=2)
"""The successor of an evicted member is found if the gap since its last heartbeat was at most this long."""


def find(history: History, arguments: ReportArguments) -> Sequence[DataFrame]:
    """Read the interval's history, and return one row per group."""
    start, end, options = arguments.interval_start, arguments.interval_end, arguments.options
    back_by = end + timedelta(milliseconds=options["grace_ms"])
    _require_over(start, end, back_by)
    rebalances = history.read(rebalances_within(start, end), REBALANCE_COLUMNS)
    lifetimes = history.read(lifetimes_within(start, end), LIFETIME_COLUMNS)
    waits = history.read(waits_within(start, end), WAIT_COLUMNS)
    evictions = history.read(evictions_within(start, end), EVICTION_COLUMNS)
    joins = history.read(joins_within(start - SILENCE_MAX, back_by), JOIN_COLUMNS)
    thresholds = Thresholds(**{field.name: options[field.name] for field in fields(Thresholds)})
    report = rebalance_frequency(rebalances, lifetimes, waits, evictions, joins, Interval(start, end), thresholds)
    return (report,)


def _require_over(start: datetime, end: datetime, back_by: datetime) -> None:
    """Refuse an interval whose report could still change.

    Raises:
        JobError: It is empty, or members evicted in it may still rejoin within the grace.
    """
    if start >= end:
        raise JobError("The interval is empty; the report needs a start and a later end.")
    if back_by > datetime.now(UTC):
        raise JobError(f"The interval until {end.isoformat()} can be reported from {back_by.isoformat()} on.")


JOB = ReportingJob(
    JOBS["rebalance_frequency_report"], find, "no group was created, deleted or rebalanced in the interval"
)

if __name__ == "__main__":
    sys.exit(run(JOB))
