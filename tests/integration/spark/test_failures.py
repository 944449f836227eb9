"""Tests that a failed job logs its reason in one last line, without a traceback."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from types import ModuleType
from typing import Any

import psycopg2.extensions as pg
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]  # comes without types
from pyspark.sql import DataFrame, SparkSession

from coordinator_core.jobs import JOBS
from spark_jobs import job_runner, proposal_job, report_job
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.error_message import MESSAGE_MAX_CHARS, one_line_message
from spark_jobs.history import History
from spark_jobs.jobs import history_archive
from spark_jobs.proposal_job import Found, ProposingJob, Reading
from spark_jobs.report_job import ReportArguments, ReportingJob
from spark_jobs.submit import job_arguments

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
REASON = "FATAL: terminating connection due to administrator command"

IN_JAVA = f"""An error occurred while calling o81.jdbc.
: org.apache.spark.SparkException: Job aborted due to stage failure: org.postgresql.util.PSQLException: {REASON}
\tat org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2733)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2935)
Caused by: java.io.EOFException
\t... 1 more
"""
IN_PYTHON = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "rule.py", line 5, in judged
    raise ValueError("odd")
ValueError: odd
"""


class Unspeakable(Py4JError):  # type: ignore[misc]  # comes without types
    """An error whose message is in a Java process that has ended."""

    def __str__(self) -> str:
        raise Py4JNetworkError("no answer")


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            Py4JError(IN_JAVA),
            (
                "An error occurred while calling o81.jdbc. : org.apache.spark.SparkException: Job aborted due to stage"
                f" failure: org.postgresql.util.PSQLException: {REASON} Caused by: java.io.EOFException"
            ),
        ),
        (
            Py4JError(IN_PYTHON),
            "An exception was thrown from the Python worker. Please see the stack trace below. ValueError: odd",
        ),
        (
            pg.QueryCanceledError(f"{REASON}\nSSL connection has been closed\n"),
            f"{REASON} SSL connection has been closed",
        ),
        (Py4JError("x" * 9_999), "x" * MESSAGE_MAX_CHARS + "…"),
        (Py4JError(""), "Py4JError"),
        (Unspeakable("odd"), "The Spark process has ended."),
    ],
    ids=["in Java", "in Python", "of Postgres", "endless", "wordless", "unspeakable"],
)
def test_failure_is_reported_without_traceback(failure: Exception, sentence: str) -> None:
    assert one_line_message(failure) == sentence


def cut(connection: pg.connection, database: Database) -> None:
    """End every other connection to the database, as a restart of Postgres does."""
    with closing(database.connect()) as other, other, other.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s",
            (connection.info.backend_pid,),
        )
        assert cursor.fetchone() == (True,)


def failing(spark: SparkSession) -> DataFrame:
    """Return a frame that Spark can plan, and never write."""
    return spark.sql(f"SELECT CAST(raise_error('{REASON}') AS STRING) AS group_id")


def propose_while_postgres_stops(reading: Reading, arguments: JobArguments) -> Found:
    cut(reading.connection, reading.database)
    return Found(failing(reading.spark))


def report_while_postgres_stops(history: History, arguments: ReportArguments) -> Sequence[DataFrame]:
    cut(history.connection, history.database)
    return [failing(history.spark)]


def keep_session_open(spark: SparkSession) -> Any:  # noqa: ANN401 - stands in for a function
    def opened(_: str) -> AbstractContextManager[SparkSession]:
        return nullcontext(spark)

    return opened


PROPOSING = ProposingJob(JOBS["group_cleanup"], propose_while_postgres_stops, of="SELECT 0")
REPORTING = ReportingJob(JOBS["rebalance_frequency_report"], report_while_postgres_stops, "it stopped")


@pytest.mark.parametrize(("module", "job"), [(proposal_job, PROPOSING), (report_job, REPORTING)])
def test_job_that_loses_postgres_reports_the_reason_of_spark(
    spark: SparkSession,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    module: ModuleType,
    job: Any,  # noqa: ANN401 - of one module or the other
) -> None:
    monkeypatch.setenv("MUSTER_JOBS_DATABASE_URL", database_url)
    monkeypatch.setattr(job_runner, "open_session", keep_session_open(spark))
    arguments = job_arguments(run_id=RUN_ID, as_of="2026-11-21T12:00:00Z", is_dry_run=False)
    assert module.run(job, arguments) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith(f"{job.spec.name}: ")
    assert REASON in last


def test_a_failure_of_postgres_ends_the_archive_job_with_one_sentence(
    spark: SparkSession, database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def archive(_: SparkSession, database: Database, connection: pg.connection, __: JobArguments) -> None:
        cut(connection, database)
        connection.cursor().execute("SELECT 1")

    monkeypatch.setenv("MUSTER_JOBS_DATABASE_URL", database_url)
    monkeypatch.setattr(job_runner, "open_session", keep_session_open(spark))
    monkeypatch.setattr(history_archive, "archive_closed_days", archive)
    arguments = job_arguments(run_id=RUN_ID, as_of="2026-11-21T12:00:00Z", is_dry_run=False)
    assert history_archive.main(arguments) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("history_archive: ")
    assert "connection" in last
