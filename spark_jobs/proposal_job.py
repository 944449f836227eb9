"""Steps shared by the proposing jobs: parse, read, apply the rule, stage, and publish in one transaction.

A `ProposingJob` is a job's entry, and how it finds and counts the rows.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg2.extensions as pg
from pyspark.sql import DataFrame, SparkSession

from coordinator_core.jobs import JobSpec
from spark_jobs.arguments import JobArguments, read_arguments
from spark_jobs.database import Database
from spark_jobs.jdbc import shard_predicates, write_staging
from spark_jobs.job_runner import Result, run_job
from spark_jobs.publish import (
    CandidateTable,
    Published,
    ReportTable,
    count_shards,
    discard_staged,
    new_attempt_id,
    publish,
    require_coordinated_groups,
    staging_of,
)
from spark_jobs.submit import MEASURES


@dataclass(frozen=True, slots=True)
class Reading:
    """A job's connections; `predicates` are SQL conditions, one per parallel read, which together cover every shard."""

    spark: SparkSession
    database: Database
    connection: pg.connection
    predicates: Sequence[str]


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that a job found; `report` is None for a job without a report."""

    candidates: DataFrame
    report: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class ProposingJob:
    """A proposing job; `of` and `largest` are the queries of a CandidateTable."""

    spec: JobSpec
    find: Callable[[Reading, JobArguments], Found]
    of: str
    largest: str | None = None

    @property
    def candidates(self) -> CandidateTable:
        """Return the table of its candidates."""
        assert self.spec.candidates is not None, "reports propose nothing"
        return CandidateTable(self.spec.candidates, self.of, self.largest)


def run(job: ProposingJob, command_line: Sequence[str] | None = None) -> int:
    """Run a proposing job; return the exit status."""
    name = job.spec.name
    arguments = read_arguments(name, command_line)

    def work(spark: SparkSession, database: Database, connection: pg.connection) -> Result:
        published = propose(job, spark, database, connection, arguments)
        values = {
            "run_id": arguments.run_id,
            "status": published.status,
            "counts": published.counts,
            "largest_groups": published.largest_groups,
        }
        return Result(describe(name, arguments.run_id, published), values)

    return run_job(name, work, arguments.cluster)


def propose(
    job: ProposingJob, spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments
) -> Published:
    """Find the rows with Spark, stage them, and publish them in one transaction."""
    require_coordinated_groups(connection)
    predicates = shard_predicates(count_shards(connection), arguments.read_partitions)
    # The age of abandoned attempts is measured by the real clock, not by `as_of`.
    started_at_ms = time.time_ns() // 1_000_000
    attempt_id = new_attempt_id(started_at_ms)
    staged = [job.candidates.name, *job.spec.reports]
    try:
        found = job.find(Reading(spark, database, connection, predicates), arguments)
        frames = [found.candidates, *([] if found.report is None else [found.report])]
        for table, frame in zip(staged, frames, strict=True):
            write_staging(frame, database, staging_of(table), attempt_id, arguments.read_partitions)
        report = None if found.report is None else ReportTable(staged[1], tuple(found.report.columns))
        return publish(connection, arguments.proposal(job.spec.name), job.candidates, attempt_id, report)
    finally:
        for table in staged:
            discard_staged(connection, table, attempt_id, started_at_ms)


def describe(kind: str, run_id: str, published: Published) -> str:
    """Return the result in one line."""
    if not published.is_replaced:
        return f"{kind}: run {run_id} is {published.status} already; nothing was changed."
    counts = ", ".join(f"{name} {count}" for name, count in published.counts.items() if name not in MEASURES)
    return f"{kind}: proposed run {run_id}: {counts}."
