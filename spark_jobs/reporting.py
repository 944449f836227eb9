"""Every report goes the same way: parse, read, apply its rules, stage, and replace its interval in one transaction.

What is its own is a `ReportingJob`: what it is called, which tables it fills, and how it finds the rows. A report
proposes nothing and has no maintenance run; its rows carry the run's id. Rules:

* The rows of an interval are replaced as a whole, by whatever run came last; two that come at once take turns.
* Reports of intervals that ended too long ago, counted from the one that is told, go with the same transaction. So that
  none goes too early, an interval that ends in the future is refused.
* A dry run reads, judges and counts, and leaves the tables as they are.
* History that lies in the archive is read there. Where a day moved while it was read, everything is read again.
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
from spark_jobs.publish import ReportTable, count_shards, discard_staged, new_attempt_id, take_turn
from spark_jobs.running import run_job
from spark_jobs.submit import OPTIONS, Option, archive_uri

READINGS_MAX: Final = 3
CLOCKS_DIFFER_BY: Final = timedelta(minutes=5)
"""An interval may end so much later than it is by the clock of the job's machine."""
LEAST_TIME_TO_READ: Final = timedelta(hours=1)
"""For so long after its end, or for as long as it lasted, an interval is told of by what stands now."""


@dataclass(frozen=True, slots=True)
class ReportArguments:
    """What a report is about; a moment is an interval whose start is its end."""

    run_id: str
    as_of: datetime
    interval_start: datetime
    interval_end: datetime
    is_dry_run: bool
    read_partitions: int
    options: Mapping[str, int]
    """The job's own, each by its name."""
    archive: str = ""
    """The archive's directory, where there is one."""


@dataclass(frozen=True, slots=True)
class ReportingJob:
    """One job; `kind` is also the name of its file and its DAG.

    `find` returns a frame a table of `tables`, in their order and with their columns, and raises JobError where the
    interval cannot be told of.
    """

    kind: str
    find: Callable[[History, ReportArguments], Sequence[DataFrame]]
    tables: tuple[ReportTable, ...]
    is_of_a_day: bool = False
    """Whether a run without an interval tells of the last whole day (UTC) that is over by its instant."""
    is_of_now: bool = False
    """Whether it tells of the moment at which it reads; its rows carry that, whatever the run's interval."""


def run(job: ReportingJob, command_line: Sequence[str] | None = None) -> int:
    """Tell of the interval; return the exit status."""
    arguments = read_report_arguments(job, command_line)

    def work(spark: SparkSession, database: Database, connection: pg.connection) -> str:
        return describe(job, arguments, report(job, spark, database, connection, arguments))

    return run_job(job.kind, work)


def report(
    job: ReportingJob, spark: SparkSession, database: Database, connection: pg.connection, arguments: ReportArguments
) -> list[int]:
    """Find the rows with Spark, stage them, and put them in place of the interval's; return a count a table.

    Raises:
        JobError: The interval cannot be told of; its rows are as they were.
    """
    predicates = shard_predicates(count_shards(connection), arguments.read_partitions)
    for _ in range(READINGS_MAX):
        counts = _report_once(job, History(spark, database, connection, predicates, arguments.archive), arguments)
        if counts is not None:
            return counts
    moved = f"Days of history went to the archive, or came back, in each of {READINGS_MAX} readings"
    raise JobError(f"{moved}; run it again when history_archive is over.")


def _report_once(job: ReportingJob, history: History, arguments: ReportArguments) -> list[int] | None:
    """Return a count a table; None if history has moved meanwhile, and nothing was put in place."""
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
        # The session is the job's own, and so is whatever it kept for a second look.
        history.spark.catalog.clearCache()


def describe(job: ReportingJob, arguments: ReportArguments, counts: Sequence[int]) -> str:
    """Say in one line what came of it."""
    told = ", ".join(f"{table.name} {count}" for table, count in zip(job.tables, counts, strict=True))
    start, end = arguments.interval_start.isoformat(), arguments.interval_end.isoformat()
    verb = "would tell" if arguments.is_dry_run else "told"
    return f"{job.kind}: {verb} of {start} to {end}: {told}."


# -- the command line -----------------------------------------------------------------------------------------


def read_report_arguments(job: ReportingJob, command_line: Sequence[str] | None = None) -> ReportArguments:
    """Read the command line of a report, or end the process with status 2 and one sentence."""
    options = OPTIONS[job.kind]
    parser = argparse.ArgumentParser(prog=job.kind, allow_abbrev=False)
    add_common_arguments(parser)
    parser.add_argument("--archive", default=archive_uri(), help="the directory of the archive, where there is one")
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
        parser.error(f"the interval ends ({end.isoformat()}) in the future; it can be told of when it is over")
    if job.is_of_now and datetime.now(UTC) > end + max(end - start, LEAST_TIME_TO_READ):
        parser.error(f"the interval ended ({end.isoformat()}) too long ago; {job.kind} tells of what stands now")
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
"""A partition that Spark wrote twice leaves its rows twice in staging: the second of a key is dropped."""


def replace_interval(
    connection: pg.connection, tables: Sequence[ReportTable], arguments: ReportArguments, attempt_id: str
) -> list[int]:
    """Put the attempt's rows in place of the interval's, in all tables at once; a dry run takes that back.

    Whoever else does the same waits: what two deleted and put in at once would be of both.
    """
    with connection, connection.cursor() as cursor:
        take_turn(cursor, tables[0])
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
