"""Kill the archive job with SIGKILL; no row is lost, and the next job completes it."""

import signal
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from tests.integration.spark.archive import halting_job_process
from tests.integration.spark.archive.halting_job_process import COPIES
from tests.integration.spark.archive.halting_processes import kill, process, wait_until
from tests.integration.spark.archive.old_days import (
    EXPECTED,
    TABLES,
    apply,
    candidates,
    everything,
    in_postgres,
    outcomes,
)

pytestmark = pytest.mark.slow


def being_written(tmp_path: Path) -> bool:
    """Return whether Spark has begun to write a copy and has not committed it."""
    return any((tmp_path / "archive").glob("*/day=*/attempt=*/_temporary"))


def test_next_job_completes_one_killed_while_it_writes_files(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    database_url: str,
    tmp_path: Path,
) -> None:
    """Two days were noted then. test_history_archive.py has the moments between steps, without a process."""
    before = {table: in_postgres(populated, table) for table in TABLES}
    with process(halting_job_process, arguments.archive, database_url=database_url, tmp_path=tmp_path) as job:
        wait_until(lambda: len(candidates(populated)) == COPIES and being_written(tmp_path), job, tmp_path / "log")
        kill(job)
    assert job.returncode == -signal.SIGKILL
    assert len(candidates(populated)) == COPIES
    assert {table: in_postgres(populated, table) for table in TABLES} == before
    archive_closed_days(spark, database, populated, arguments)
    assert candidates(populated) == EXPECTED
    apply(database_url)
    assert set(outcomes(populated).values()) == {"dropped"}
    assert {table: everything(spark, database, populated, table) for table in TABLES} == before
