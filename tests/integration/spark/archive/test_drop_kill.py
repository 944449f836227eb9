"""Kill the node that drops archived days with SIGKILL; no row is lost."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg2.extensions as pg
import pytest

from tests.integration.spark.archive import halting_node_process
from tests.integration.spark.archive.copied_days import CopiedDays
from tests.integration.spark.archive.halting_processes import kill, process, wait_until
from tests.integration.spark.archive.old_days import (
    RUN_ID,
    TABLES,
    apply,
    in_both_places,
    in_postgres,
    outcomes,
    rows,
)
from tests.support.waiting import PATIENCE_S, poll_until

pytestmark = pytest.mark.slow


@pytest.fixture
def database_url(old_days: CopiedDays, tmp_path: Path) -> Iterator[str]:
    with old_days.copied(tmp_path) as url:
        yield url


def wait_until_alone(connection: pg.connection) -> None:
    """Wait until Postgres has closed the connections of the killed process."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
    )
    poll_until(lambda: rows(connection, others) == [(0,)])


@pytest.mark.parametrize(
    ("step", "dropped"),
    [("_judge_and_drop", 1), ("_record_drop", 1), ("_decide", 1), ("drop_next", 1), ("", 4)],
    ids=["rows gone", "copy noted", "outcome noted", "about to commit", "never"],
)
def test_kill_during_a_partition_drop_is_atomic(
    connection: pg.connection,
    database_url: str,
    tmp_path: Path,
    step: str,
    dropped: int,
) -> None:
    """The second day that is dropped: one transaction, which a kill at any time rolls back."""
    before = {table: in_postgres(connection, table) for table in TABLES}
    rows(connection, f"UPDATE maintenance_runs SET status = 'applying' WHERE run_id = '{RUN_ID}'")  # noqa: S608 - ours
    halted = tmp_path / "halted"
    with process(halting_node_process, step, "2", str(halted), database_url=database_url, tmp_path=tmp_path) as node:
        if step:
            wait_until(halted.exists, node, tmp_path / "log")
            kill(node)
            assert node.returncode == -signal.SIGKILL
        else:
            assert node.wait(PATIENCE_S) == 0
    wait_until_alone(connection)
    assert list(outcomes(connection).values()).count("dropped") == dropped
    assert rows(connection, "SELECT count(*) FROM archived_partitions") == [(dropped,)]
    assert {table: in_both_places(connection, table) for table in TABLES} == before
    apply(database_url)
    assert set(outcomes(connection).values()) == {"dropped"}
    assert {table: in_both_places(connection, table) for table in TABLES} == before
