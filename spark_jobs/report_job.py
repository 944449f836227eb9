"""Steps shared by the reporting jobs: parse, read, apply the rules, stage, and replace an interval's rows.

A `ReportingJob` is a job's entry, and how it finds the rows. A report proposes nothing and has no
maintenance run; its rows carry the run's id. Rules:

* A run replaces all rows of its interval in one transaction; concurrent runs wait for each other.
* The same transaction deletes reports of intervals that ended too long before this one. So that none is deleted too
  early, an interval that ends in the future is refused.
* A dry run reads, evaluates and counts, and does not change the tables.
* A report on the current state reads Postgres in one snapshot, so that its rows describe one instant.
* Archived history is read from the archive. If a day was dropped or restored meanwhile, everything is read again.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession

from coordinator_core.jobs import JobSpec
from spark_jobs.arguments import add_common_arguments, add_options
from spark_jobs.database import Database, one_snapshot
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.jdbc import shard_predicates, write_staging
from spark_jobs.job_runner import Result, run_job
from spark_jobs.publish import ReportTable, count_shards, discard_staged, lock_report, new_attempt_id, staging_of
from spark_jobs.submit import OWN_CLUSTER, archive_uri

READINGS_MAX: Final = 3
CLOCKS_DIFFER_BY: Final = timedelta(minutes=5)
"""Tolerated difference between the clocks of the job's machine and of Airflow."""
LEAST_TIME_TO_READ: Final = timedelta(hours=1)
"""A report on the current state accepts an interval for this long after its end, or for its own length if longer."""


@dataclass(frozen=True, slots=True)
class ReportArguments:
    """Arguments of a report; an instant is an interval whose start equals its end."""

    run_id: str
    as_of: datetime
    interval_start: datetime
    interval_end: datetime
    is_dry_run: bool
    read_partitions: int
    options: Mapping[str, int]
    """The job's options, by name."""
    archive: str = ""
    """The archive's directory; empty without one."""
    cluster: str = OWN_CLUSTER


@dataclass(frozen=True, slots=True)
class ReportingJob:
    """A reporting job.

    `find` returns one DataFrame for each of `spec.reports`, in their order and with the columns that the job fills, and
    raises JobError if the interval cannot be reported. `nothing_when` says what no group had if there are no rows.
    """

    spec: JobSpec
    find: Callable[[History, ReportArguments], Sequence[DataFrame]]
    nothing_when: str


def run(job: ReportingJob, command_line: Sequence[str] | None = None) -> int:
    """Run a reporting job; return the exit status."""
    arguments = read_report_arguments(job, command_line)

    def work(spark: SparkSession, database: Database, connection: pg.connection) -> Result:
        counts = report(job, spark, database, connection, arguments)
        reason = None if any(counts) else why_nothing(job, connection, arguments)
        values = {
            "run_id": arguments.run_id,
            "interval_start": arguments.interval_start.isoformat(),
            "interval_end": arguments.interval_end.isoformat(),
            "counts": dict(zip(job.spec.reports, counts, strict=True)),
            "why_nothing": reason,
        }
        return Result(describe(job, arguments, counts, reason), values)

    return run_job(job.spec.name, work, arguments.cluster)


def report(
    job: ReportingJob, spark: SparkSession, database: Database, connection: pg.connection, arguments: ReportArguments
) -> list[int]:
    """Find the rows with Spark, stage them, and replace the interval's rows; return the counts by table.

    Raises:
        JobError: The interval cannot be reported; its rows are unchanged.
    """
    predicates = shard_predicates(count_shards(connection), arguments.read_partitions)
    for _ in range(READINGS_MAX):
        with one_snapshot(database) if job.spec.is_of_now else nullcontext(database) as read_from:
            history = History(spark, read_from, connection, predicates, arguments.archive)
            counts = _report_once(job, history, arguments)
        if counts is not None:
            return counts
    moved = f"Days of history were archived or restored during each of {READINGS_MAX} reads"
    raise JobError(f"{moved}; run it again when history_archive has finished.")


def _report_once(job: ReportingJob, history: History, arguments: ReportArguments) -> list[int] | None:
    """Return the counts by table; None if days were archived or restored meanwhile and nothing was replaced."""
    database, connection = history.database, history.connection
    started_at_ms = time.time_ns() // 1_000_000
    attempt_id = new_attempt_id(started_at_ms)
    if job.spec.is_of_now:
        arguments = replace(arguments, as_of=datetime.fromtimestamp(started_at_ms / 1000, UTC))
    try:
        frames = dict(zip(job.spec.reports, job.find(history, arguments), strict=True))
        for table, frame in frames.items():
            write_staging(frame, database, staging_of(table), attempt_id, arguments.read_partitions)
        if history.has_moved():
            return None
        tables = [ReportTable(table, tuple(frame.columns)) for table, frame in frames.items()]
        return replace_interval(connection, tables, arguments, attempt_id)
    finally:
        for table in job.spec.reports:
            discard_staged(connection, table, attempt_id, started_at_ms)
        # The session belongs to this job, so clearing its cache is safe.
        history.spark.catalog.clearCache()


_HAS_GROUPS_AND_HISTORY = """
SELECT EXISTS (SELECT FROM groups),
    EXISTS (SELECT FROM group_transitions WHERE at < %(end)s)
    OR EXISTS (SELECT FROM archived_partitions WHERE day < %(end)s)
"""


def why_nothing(job: ReportingJob, connection: pg.connection, arguments: ReportArguments) -> str:
    """Return why a report has no rows: there are no groups, no history, or nothing to report."""
    with connection, connection.cursor() as cursor:
        cursor.execute(_HAS_GROUPS_AND_HISTORY, {"end": arguments.interval_end})
        has_groups, has_history = cursor.fetchone() or (False, False)
    if not has_groups:
        return "there are no groups"
    if not has_history:
        return f"history begins after {arguments.interval_end.isoformat()}"
    return job.nothing_when


def describe(
    job: ReportingJob, arguments: ReportArguments, counts: Sequence[int], why_nothing: str | None = None
) -> str:
    """Return the result in one line."""
    counts_text = ", ".join(f"{table} {count}" for table, count in zip(job.spec.reports, counts, strict=True))
    start, end = arguments.interval_start.isoformat(), arguments.interval_end.isoformat()
    reason = "" if why_nothing is None else f" ({why_nothing})"
    verb = "would write" if arguments.is_dry_run else "wrote"
    return f"{job.spec.name}: {verb} the report of {start} to {end}: {counts_text}{reason}."


# -- the command line -----------------------------------------------------------------------------------------


def read_report_arguments(job: ReportingJob, command_line: Sequence[str] | None = None) -> ReportArguments:
    """Parse the command line of a report; on an error, exit with status 2 and a message."""
    spec = job.spec
    parser = argparse.ArgumentParser(prog=spec.name, allow_abbrev=False)
    add_common_arguments(parser)
    parser.add_argument("--archive", default=archive_uri(), help="the archive's directory, if there is one")
    add_options(parser, spec.options)
    found = parser.parse_args(command_line)
    if (found.interval_start is None) != (found.interval_end is None):
        parser.error("an interval has a start and an end")
    start, end = found.interval_start or found.as_of, found.interval_end or found.as_of
    if found.interval_end is None and spec.is_of_a_day:
        start, end = _last_whole_day(found.as_of)
    if start > end:
        parser.error(f"the interval ends ({end.isoformat()}) before it starts ({start.isoformat()})")
    if end > datetime.now(UTC) + CLOCKS_DIFFER_BY:
        parser.error(f"the interval ends ({end.isoformat()}) in the future; run the report after its end")
    if spec.is_of_now and datetime.now(UTC) > end + max(end - start, LEAST_TIME_TO_READ):
        parser.error(f"the interval ended ({end.isoformat()}) too long ago; {spec.name} reports the current state")
    given = {option.name: getattr(found, option.name) for option in spec.options}
    return ReportArguments(
        found.run_id,
        found.as_of,
        start,
        end,
        found.is_dry_run,
        found.read_partitions,
        given,
        found.archive,
        found.cluster,
    )


def _last_whole_day(as_of: datetime) -> tuple[datetime, datetime]:
    end = as_of.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return end - timedelta(days=1), end


# -- publishing -----------------------------------------------------------------------------------------------

_REPLACE = """
DELETE FROM {table} WHERE (interval_end = %(end)s AND interval_start = %(start)s)
    OR interval_end < least(%(end)s, now()) - %(days)s * interval '1 day';
INSERT INTO {table} (interval_start, interval_end, run_id, as_of, {columns})
SELECT %(start)s, %(end)s, %(run_id)s, %(as_of)s, {columns} FROM {staging} WHERE attempt_id = %(attempt_id)s
ON CONFLICT DO NOTHING
"""
"""Spark may write a partition to staging twice: only one row of each key is inserted."""


def replace_interval(
    connection: pg.connection, tables: Sequence[ReportTable], arguments: ReportArguments, attempt_id: str
) -> list[int]:
    """Replace the interval's rows by the attempt's in all tables, in one transaction; a dry run rolls back.

    Concurrent replacements wait, so that an interval never has rows of two runs.
    """
    with connection, connection.cursor() as cursor:
        lock_report(cursor, tables[0])
        counts = [_replace(cursor, table, arguments, attempt_id) for table in tables]
        if arguments.is_dry_run:
            connection.rollback()
    return counts


def _replace(cursor: pg.cursor, table: ReportTable, arguments: ReportArguments, attempt_id: str) -> int:
    statement = SQL(_REPLACE).format(
        table=Identifier(table.name),
        staging=Identifier(staging_of(table.name)),
        columns=SQL(", ").join(map(Identifier, table.columns)),
    )
    given = {
        "start": arguments.interval_start.astimezone(UTC),
        "end": arguments.interval_end.astimezone(UTC),
        "days": arguments.options["report_days"],
        "run_id": arguments.run_id,
        "as_of": arguments.as_of,
        "attempt_id": attempt_id,
    }
    cursor.execute(statement, given)
    return int(cursor.rowcount)
