"""Kill the archive job with SIGKILL; no row is lost, and the next job completes it."""

import signal
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
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


def being_written(tmp_path: Path) -> list[Path]:
    """Return the attempts that Spark has begun to write and has not committed."""
    return list((tmp_path / "archive").glob("*/day=*/attempt=*/_temporary"))


@pytest.mark.parametrize(
    "moment",
    [("", 0, None), ("write_day", 2, 1), ("_read_back", 2, 1), ("_record_copy", 2, 2), ("_delete_older_copies", 1, 5)],
    ids=["while files are written", "files written", "files compared", "a day noted", "all days noted"],
)
def test_next_job_completes_a_killed_one(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    database_url: str,
    tmp_path: Path,
    moment: tuple[str, int, int | None],
) -> None:
    step, times, noted = moment
    before = {table: in_postgres(populated, table) for table in TABLES}
    marker, log = tmp_path / "halted", tmp_path / "log"
    with process("job", step, times, arguments.archive, database_url=database_url, tmp_path=tmp_path) as job:
        wait_until(marker.exists if step else lambda: bool(being_written(tmp_path)), job, log)
        kill(job)
    assert job.returncode == -signal.SIGKILL
    if noted is not None:
        assert len(candidates(populated)) == noted
    assert {table: in_postgres(populated, table) for table in TABLES} == before
    archive_closed_days(spark, database, populated, arguments)
    assert candidates(populated) == EXPECTED
    apply(database_url)
    assert set(outcomes(populated).values()) == {"dropped"}
    assert {table: everything(spark, database, populated, table) for table in TABLES} == before
