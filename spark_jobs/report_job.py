"""Steps shared by the reporting jobs: parse, read, apply the rules, stage, and replace an interval's rows.

A `ReportingJob` describes a job: its name, its tables, and how it finds the rows. A report proposes nothing and has no
maintenance run; its rows carry the run's id. Rules:

* A run replaces all rows of its interval in one transaction; concurrent runs wait for each other.
* The same transaction deletes reports of intervals that ended too long before this one. So that none is deleted too
  early, an interval that ends in the future is refused.
* A dry run reads, evaluates and counts, and does not change the tables.
* Archived history is read from the archive. If a day was dropped or restored meanwhile, everything is read again.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.arguments import add_common_arguments, whole_number
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.jdbc import shard_predicates, write_staging
from spark_jobs.job_runner import run_job
from spark_jobs.publish import ReportTable, count_shards, discard_staged, lock_report, new_attempt_id
from spark_jobs.submit import OPTIONS, Option, archive_uri

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


@dataclass(frozen=True, slots=True)
class ReportingJob:
    """A reporting job; `kind` is also the name of its file and its DAG.

    `find` returns one DataFrame for each of `tables`, in their order and with their columns, and raises JobError if the
    interval cannot be reported.
    """

    kind: str
    find: Callable[[History, ReportArguments], Sequence[DataFrame]]
    tables: tuple[ReportTable, ...]
    is_of_a_day: bool = False
    """Whether a run without an interval reports the last whole day (UTC) before its instant."""
    is_of_now: bool = False
    """Whether the report describes the time of its read, which its rows record whatever the run's interval."""


def run(job: ReportingJob, command_line: Sequence[str] | None = None) -> int:
    """Run a reporting job; return the exit status."""
    arguments = read_report_arguments(job, command_line)

    def work(spark: SparkSession, database: Database, connection: pg.connection) -> str:
        return describe(job, arguments, report(job, spark, database, connection, arguments))

    return run_job(job.kind, work)


def report(
    job: ReportingJob, spark: SparkSession, database: Database, connection: pg.connection, arguments: ReportArguments
) -> list[int]:
    """Find the rows with Spark, stage them, and replace the interval's rows; return the counts by table.

    Raises:
        JobError: The interval cannot be reported; its rows are unchanged.
    """
    predicates = shard_predicates(count_shards(connection), arguments.read_partitions)
    for _ in range(READINGS_MAX):
        counts = _report_once(job, History(spark, database, connection, predicates, arguments.archive), arguments)
        if counts is not None:
            return counts
    moved = f"Days of history were archived or restored during each of {READINGS_MAX} reads"
    raise JobError(f"{moved}; run it again when history_archive has finished.")


def _report_once(job: ReportingJob, history: History, arguments: ReportArguments) -> list[int] | None:
    """Return the counts by table; None if days were archived or restored meanwhile and nothing was replaced."""
    database, connection = history.database, history.connection
    started_at_ms = time.time_ns() // 1_000_000
    attempt_id = new_attempt_id(started_at_ms)
    if job.is_of_now:
        arguments = replace(arguments, as_of=datetime.fromtimestamp(started_at_ms / 1000, UTC))
    try:
        for frame, table in zip(job.find(history, arguments), job.tables, strict=True):
            write_staging(frame.select(*table.columns), database, table.staging, attempt_id, arguments.read_partitions)
        if history.has_moved():
            return None
        return replace_interval(connection, job.tables, arguments, attempt_id)
    finally:
        for table in job.tables:
            discard_staged(connection, table, attempt_id, started_at_ms)
        # The session belongs to this job, so clearing its cache is safe.
        history.spark.catalog.clearCache()


def describe(job: ReportingJob, arguments: ReportArguments, counts: Sequence[int]) -> str:
    """Return the result in one line."""
    counts_text = ", ".join(f"{table.name} {count}" for table, count in zip(job.tables, counts, strict=True))
    start, end = arguments.interval_start.isoformat(), arguments.interval_end.isoformat()
    verb = "would write" if arguments.is_dry_run else "wrote"
    return f"{job.kind}: {verb} the report of {start} to {end}: {counts_text}."


# -- the command line -----------------------------------------------------------------------------------------


def read_report_arguments(job: ReportingJob, command_line: Sequence[str] | None = None) -> ReportArguments:
    """Parse the command line of a report; on an error, exit with status 2 and a message."""
    options = OPTIONS[job.kind]
    parser = argparse.ArgumentParser(prog=job.kind, allow_abbrev=False)
    add_common_arguments(parser)
    parser.add_argument("--archive", default=archive_uri(), help="the archive's directory, if there is one")
    for option in options:
        parser.add_argument(option.flag, default=option.default, type=_within(option), help=option.meaning)
    found = parser.parse_args(command_line)
    if (found.interval_start is None) != (found.interval_end is None):
        parser.error("an interval has a start and an end")
    start, end = found.interval_start or found.as_of, found.interval_end or found.as_of
    if found.interval_end is None and job.is_of_a_day:
        start, end = _last_whole_day(found.as_of)
    if start > end:
        parser.error(f"the interval ends ({end.isoformat()}) before it starts ({start.isoformat()})")
    if end > datetime.now(UTC) + CLOCKS_DIFFER_BY:
        parser.error(f"the interval ends ({end.isoformat()}) in the future; run the report after its end")
    if job.is_of_now and datetime.now(UTC) > end + max(end - start, LEAST_TIME_TO_READ):
        parser.error(f"the interval ended ({end.isoformat()}) too long ago; {job.kind} reports the current state")
    given = {option.name: getattr(found, option.name) for option in options}
    return ReportArguments(
        found.run_id, found.as_of, start, end, found.dry_run, found.read_partitions, given, found.archive
    )


def _last_whole_day(as_of: datetime) -> tuple[datetime, datetime]:
    end = as_of.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return end - timedelta(days=1), end


def _within(option: Option) -> Callable[[str], int]:
    def read(text: str) -> int:
        return whole_number(text, option.least, option.most)

    return read


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
        staging=Identifier(table.staging),
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
