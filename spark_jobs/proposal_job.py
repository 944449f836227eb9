"""Steps shared by the proposing jobs: parse, read, apply the rule, stage, and publish in one transaction.

A `ProposingJob` describes a job: its name, its tables, and how it finds the rows.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg2.extensions as pg
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.arguments import JobArguments, read_arguments
from spark_jobs.database import Database
from spark_jobs.jdbc import shard_predicates, write_staging
from spark_jobs.job_runner import run_job
from spark_jobs.publish import (
    CandidateTable,
    Published,
    ReportTable,
    count_shards,
    discard_staged,
    new_attempt_id,
    publish,
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
    """A proposing job; `kind` is also the name of its file and its DAG."""

    kind: str
    find: Callable[[Reading, JobArguments], Found]
    candidates: CandidateTable
    report: ReportTable | None = None


def run(job: ProposingJob, command_line: Sequence[str] | None = None) -> int:
    """Run a proposing job; return the exit status."""
    arguments = read_arguments(job.kind, command_line)

    def work(spark: SparkSession, database: Database, connection: pg.connection) -> str:
        return describe(job.kind, arguments.run_id, propose(job, spark, database, connection, arguments))

    return run_job(job.kind, work)


def propose(
    job: ProposingJob, spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments
) -> Published:
    """Find the rows with Spark, stage them, and publish them in one transaction."""
    predicates = shard_predicates(count_shards(connection), arguments.read_partitions)
    # The age of abandoned attempts is measured by the real clock, not by `as_of`.
    started_at_ms = time.time_ns() // 1_000_000
    attempt_id = new_attempt_id(started_at_ms)
    try:
        found = job.find(Reading(spark, database, connection, predicates), arguments)
        write_staging(found.candidates, database, job.candidates.staging, attempt_id, arguments.read_partitions)
        if job.report is not None and found.report is not None:
            write_staging(found.report, database, job.report.staging, attempt_id, arguments.read_partitions)
        return publish(connection, arguments.proposal(job.kind), job.candidates, attempt_id, job.report)
    finally:
        for table in (job.candidates, job.report):
            if table is not None:
                discard_staged(connection, table, attempt_id, started_at_ms)


def describe(kind: str, run_id: str, published: Published) -> str:
    """Return the result in one line."""
    if not published.is_replaced:
        return f"{kind}: run {run_id} is {published.status} already; nothing was changed."
    counts = ", ".join(f"{name} {count}" for name, count in published.counts.items() if name not in MEASURES)
    return f"{kind}: proposed run {run_id}: {counts}."
