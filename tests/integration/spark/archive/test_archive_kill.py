"""Kill the archive job and the dropping node with SIGKILL; no row is lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from muster.local.java import find_java, spark_environment
from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from tests.integration.spark.archive import halting_archive_process
from tests.integration.spark.archive.old_days import (
    EXPECTED,
    OTHERS,
    RUN_ID,
    apply,
    candidates,
    everything,
    in_postgres,
    outcomes,
    rows,
)
from tests.support.waiting import PATIENCE_S, poll_until

pytestmark = pytest.mark.slow

TABLES = (*OTHERS, "group_transitions")


@contextmanager
def process(
    what: str, step: str, times: int, archive: str, *, database_url: str, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of its own group, which is what the kernel and container engines kill."""
    base = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "MUSTER_"))}
    environment = base | spark_environment(find_java(tmp_path / "java"), base) | {"MUSTER_DATABASE_URL": database_url}
    given = (what, step, str(times), str(tmp_path / "halted"), archive)
    command = [sys.executable, "-m", halting_archive_process.__name__, *given]
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield started
    finally:
        kill(started)


def kill(started: subprocess.Popen[bytes]) -> None:
    if started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def wait_until(is_so: Callable[[], bool], started: subprocess.Popen[bytes], log: Path) -> None:
    poll_until(lambda: is_so() or started.poll() is not None)
    assert is_so(), log.read_text(errors="replace")[-3000:]


def being_written(tmp_path: Path) -> list[Path]:
    """Return the attempts that Spark has begun to write and has not committed."""
    return list((tmp_path / "archive").glob("*/day=*/attempt=*/_temporary"))


def wait_until_alone(connection: pg.connection) -> None:
    """Wait until Postgres has closed the connections of the killed process."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
    )
    poll_until(lambda: rows(connection, others) == [(0,)])


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


@pytest.mark.parametrize(
    ("step", "dropped"),
    [("_judge_and_drop", 1), ("_record_drop", 1), ("_decide", 1), ("drop_next", 1), ("", 5)],
    ids=["rows gone", "copy noted", "outcome noted", "about to commit", "never"],
)
def test_kill_during_a_partition_drop_is_atomic(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    database_url: str,
    tmp_path: Path,
    step: str,
    dropped: int,
) -> None:
    """The second day that is dropped: one transaction, which a kill at any time rolls back."""
    before = {table: in_postgres(populated, table) for table in TABLES}
    archive_closed_days(spark, database, populated, arguments)
    rows(populated, f"UPDATE maintenance_runs SET status = 'applying' WHERE run_id = '{RUN_ID}'")  # noqa: S608 - ours
    with process("node", step, 2, arguments.archive, database_url=database_url, tmp_path=tmp_path) as node:
        if step:
            wait_until((tmp_path / "halted").exists, node, tmp_path / "log")
            kill(node)
            assert node.returncode == -signal.SIGKILL
        else:
            assert node.wait(PATIENCE_S) == 0
    wait_until_alone(populated)
    assert list(outcomes(populated).values()).count("dropped") == dropped
    assert rows(populated, "SELECT count(*) FROM archived_partitions") == [(dropped,)]
    assert {table: everything(spark, database, populated, table) for table in TABLES} == before
    apply(database_url)
    assert set(outcomes(populated).values()) == {"dropped"}
    assert {table: everything(spark, database, populated, table) for table in TABLES} == before
