"""Tests of history_archive: days are copied, verified and dropped exactly once, also after crashes."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg2.extensions as pg
import pytest
from psycopg2.sql import Identifier
from pyspark.sql import SparkSession

from coordinator_core.state_store.tables import HISTORY_TABLES
from spark_jobs.archive import archive_copy
from spark_jobs.archive.archive_copy import Archived, archive_closed_days
from spark_jobs.archive.checksums import Sum, TypedColumn, sum_in_postgres, sum_in_spark
from spark_jobs.archive.days import Day, history_tables
from spark_jobs.archive.files import write_day
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.jobs.history_archive import describe
from tests.integration.spark.archive.old_days import (
    CHANGE_ID,
    EXPECTED,
    LATE,
    OLD,
    OLDER,
    STRAY,
    Killed,
    add_day,
    apply,
    candidates,
    everything,
    in_postgres,
    outcomes,
    rows,
)
from tests.support.databases import DAYS_AHEAD

# -- the copy -------------------------------------------------------------------------------------------------


def test_days_older_than_keep_days_are_copied_by_the_role_for_jobs_and_not_dropped(
    spark: SparkSession, as_jobs_role: Database, populated: pg.connection, arguments: JobArguments
) -> None:
    before = {table: in_postgres(populated, table) for table in HISTORY_TABLES}
    with closing(as_jobs_role.connect()) as own:
        archived = archive_closed_days(spark, as_jobs_role, own, arguments)
    partitions = 6 + len(HISTORY_TABLES) * (1 + DAYS_AHEAD)
    assert archived == Archived("proposed", {"candidates": 4, "of": partitions, "rows": 206, "unverified": 0}, ())
    assert candidates(populated) == EXPECTED
    assert {table: in_postgres(populated, table) for table in HISTORY_TABLES} == before


def test_day_that_changes_while_copied_is_not_proposed(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = write_day

    def write_late(*given: Any) -> None:  # noqa: ANN401 - as the original
        rows(populated, STRAY.format(day=LATE))
        write(*given)

    monkeypatch.setattr(archive_copy, "write_day", write_late)
    archived = archive_closed_days(spark, database, populated, arguments)
    assert archived.unverified == (f"group_transitions of {LATE}",)
    assert archived.counts["unverified"] == 1
    assert candidates(populated) == [row for row in EXPECTED if row[0] != "group_transitions"]
    assert "did not match" in describe(arguments, archived)[0]


def test_decided_run_is_not_changed(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments
) -> None:
    archive_closed_days(spark, database, populated, replace(arguments, keep_days=60))
    rows(populated, "UPDATE maintenance_runs SET status = 'applying'")
    archived = archive_closed_days(spark, database, populated, arguments)
    assert archived.status == "applying"
    assert [row[1] for row in candidates(populated)] == [LATE]
    assert describe(arguments, archived)[-1].endswith("is applying already; nothing was changed.")


def test_run_that_is_decided_while_days_are_copied_is_not_called_proposed(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = write_day

    def write_and_reject(*given: Any) -> None:  # noqa: ANN401 - as the original
        rows(populated, "UPDATE maintenance_runs SET status = 'rejected'")
        write(*given)

    monkeypatch.setattr(archive_copy, "write_day", write_and_reject)
    archived = archive_closed_days(spark, database, populated, replace(arguments, keep_days=60))
    assert (archived.status, archived.counts) == ("rejected", {})
    assert candidates(populated) == []


def test_job_without_archive_is_rejected(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments
) -> None:
    with pytest.raises(JobError, match="set MUSTER_ARCHIVE_URI"):
        archive_closed_days(spark, database, populated, replace(arguments, archive=""))
    assert rows(populated, "SELECT * FROM maintenance_runs") == []


MOVED = """
INSERT INTO archived_partitions (table_name, day, run_id, change_id, source, path, row_count, checksum,
    verified_at, dropped_at, restored_at)
VALUES ('{table}', '{day}', '{change_id}', '{change_id}', 's', 'p', 1, 'c', to_timestamp(0), to_timestamp(0), NULL);
UPDATE archived_partitions SET {moved_at} = clock_timestamp() WHERE table_name = '{table}'
"""


def test_day_dropped_or_restored_while_copied_waits_for_the_next_run(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = {("group_transitions", LATE): "dropped_at", ("offset_history", OLDER): "restored_at"}
    read_back = archive_copy._read_back

    def move_and_read(archive: archive_copy.Archive, day: Day, path: str) -> Sum:
        if moved_at := moved.get((day.table.name, day.day)):
            rows(populated, MOVED.format(table=day.table.name, day=day.day, change_id=CHANGE_ID, moved_at=moved_at))
        return read_back(archive, day, path)

    monkeypatch.setattr(archive_copy, "_read_back", move_and_read)
    archived = archive_closed_days(spark, database, populated, arguments)
    assert archived.unverified == tuple(f"{table} of {day}" for table, day in moved)
    assert candidates(populated) == [row for row in EXPECTED if row[:2] not in moved]


# -- kills ----------------------------------------------------------------------------------------------------


MOMENTS = (
    ("write_day", "before"),
    ("write_day", "after"),
    ("_read_back", "after"),
    ("_record_copy", "after"),
    ("_delete_older_copies", "before"),
    ("_delete_older_copies", "after"),
    ("describe_run", "after"),
)
"""Those between two steps, each once; what precedes `write_day` only reads."""


@pytest.mark.slow
@pytest.mark.parametrize(("step", "moment"), MOMENTS)
def test_next_job_completes_one_killed_between_any_steps(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    arguments: JobArguments,
    database_url: str,
    step: str,
    moment: str,
) -> None:
    for day in (OLDER, OLD):
        add_day(connection, "offset_history", day)
    before = in_postgres(connection, "offset_history")
    original = getattr(archive_copy, step)
    calls = iter(range(100))

    def killed(*given: Any) -> Any:  # noqa: ANN401 - as the original
        if next(calls) < 1 and step not in {"_delete_older_copies", "describe_run"}:
            return original(*given)
        if moment == "after":
            original(*given)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_copy, step, killed)
        with pytest.raises(Killed):
            archive_closed_days(spark, database, connection, arguments)
    archive_closed_days(spark, database, connection, arguments)
    assert candidates(connection) == [row for row in EXPECTED if row[0] == "offset_history"]
    apply(database_url)
    assert set(outcomes(connection).values()) == {"dropped"}
    assert everything(spark, database, connection, "offset_history") == before


# -- the checksum ---------------------------------------------------------------------------------------------

PAIRS = "SELECT * FROM (VALUES {}) AS pairs (first, second)"


def test_checksum_distinguishes_similar_rows(spark: SparkSession, connection: pg.connection) -> None:
    columns = [TypedColumn("first", "text"), TypedColumn("second", "text")]
    alike = ["('a', 'b')", "('ab', '')", "('', 'ab')", "(NULL, 'ab')", "('-', 'ab')", "('a', 'b'), ('a', 'b')"]
    sums = set()
    for number, values in enumerate(alike):
        rows(connection, f"CREATE TABLE pairs_{number} AS " + PAIRS.format(values))
        frame = spark.sql(PAIRS.format(values))
        found = sum_in_postgres(connection, Identifier(f"pairs_{number}"), columns)
        assert found == sum_in_spark(frame, columns)
        sums.add(found.checksum)
    assert len(sums) == len(alike)


def test_a_column_that_cannot_be_compared_is_refused(connection: pg.connection) -> None:
    with pytest.raises(JobError, match="which the archive cannot compare"):
        sum_in_postgres(connection, Identifier("pg_class"), [TypedColumn("relacl", "aclitem[]")])


def test_every_column_of_history_can_be_compared(connection: pg.connection) -> None:
    tables = history_tables(connection)
    assert tables.keys() == HISTORY_TABLES.keys()
    assert {name: table.at for name, table in tables.items()} == HISTORY_TABLES
    for name in tables:
        assert in_postgres(connection, name) == Sum(0, "0-0")
