"""Tests of history_archive: days are copied, verified and dropped exactly once, also after crashes."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2.extensions as pg
import pytest
from psycopg2.sql import Identifier
from pyspark.sql import SparkSession

from coordinator_core.state_store.tables import HISTORY_TABLES
from spark_jobs.archive import archive_copy
from spark_jobs.archive.archive_copy import Archived, archive_closed_days
from spark_jobs.archive.checksums import Sum, TypedColumn, sum_in_postgres, sum_in_spark
from spark_jobs.archive.days import Day, archived_copies, history_tables
from spark_jobs.archive.files import write_day
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.history import History, TablePeriod
from spark_jobs.jobs.history_archive import describe
from tests.integration.spark.archive.old_days import (
    CHANGE_ID,
    EXPECTED,
    LATE,
    NEXT_RUN_ID,
    OLD,
    OLDER,
    OTHERS,
    ROWS,
    RUN_ID,
    STRAY,
    Killed,
    apply,
    candidates,
    everything,
    in_postgres,
    outcomes,
    rows,
)
from tests.support.databases import DAYS_AHEAD

# -- the copy -------------------------------------------------------------------------------------------------


def test_days_older_than_keep_days_are_copied_and_not_dropped(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments
) -> None:
    before = {table: in_postgres(populated, table) for table in HISTORY_TABLES}
    archived = archive_closed_days(spark, database, populated, arguments)
    partitions = 7 + len(HISTORY_TABLES) * (1 + DAYS_AHEAD)
    assert archived == Archived("proposed", {"candidates": 5, "of": partitions, "rows": 211, "unverified": 0}, ())
    assert candidates(populated) == EXPECTED
    assert {table: in_postgres(populated, table) for table in HISTORY_TABLES} == before


def test_the_role_for_jobs_is_enough_to_copy(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments
) -> None:
    rows(populated, "CREATE ROLE archiving_under_test LOGIN PASSWORD 'p' IN ROLE muster_jobs")
    role = replace(database, user="archiving_under_test", password="p")
    with closing(role.connect()) as connection:
        archive_closed_days(spark, role, connection, arguments)
    rows(populated, "DROP ROLE archiving_under_test")
    assert candidates(populated) == EXPECTED


@pytest.mark.slow
def test_second_run_reuses_copies_of_the_first(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments
) -> None:
    archive_closed_days(spark, database, populated, arguments)
    archive_closed_days(spark, database, populated, replace(arguments, run_id=NEXT_RUN_ID))
    assert candidates(populated, NEXT_RUN_ID) == EXPECTED
    assert rows(populated, "SELECT count(DISTINCT path) FROM archive_candidates") == [(5,)]


@pytest.mark.slow
def test_damaged_copy_is_written_again(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments
) -> None:
    archive_closed_days(spark, database, populated, arguments)
    ((path,),) = rows(populated, "SELECT path FROM archive_candidates WHERE table_name = 'group_transitions'")
    for file in Path(path.removeprefix("file://")).glob("*.parquet"):
        file.unlink()
    archive_closed_days(spark, database, populated, arguments)
    ((again,),) = rows(populated, "SELECT path FROM archive_candidates WHERE table_name = 'group_transitions'")
    assert again != path
    assert candidates(populated) == EXPECTED


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


# -- the drop -------------------------------------------------------------------------------------------------


def test_copied_days_are_dropped_and_reports_read_both_places(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    before = {table: in_postgres(populated, table) for table in (*OTHERS, "group_transitions")}
    archive_closed_days(spark, database, populated, arguments)
    apply(database_url)
    assert set(outcomes(populated).values()) == {"dropped"}
    left = {table: in_postgres(populated, table).row_count for table in before}
    assert left == {"partition_ownership": 5, "offset_history": 100, "group_transitions": 0}
    assert {table: everything(spark, database, populated, table) for table in before} == before
    kept = (
        "SELECT actor, after ->> 'run_id', count(*) FROM changes WHERE action = 'drop_history_partition' GROUP BY 1, 2"
    )
    assert rows(populated, kept) == [("operator", RUN_ID, 5)]
    counts = rows(populated, "SELECT status, counts ->> 'dropped' FROM maintenance_runs")
    assert counts == [("applied", "5")]


def test_a_report_reads_no_more_of_the_archive_than_its_interval(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    archive_closed_days(spark, database, populated, arguments)
    apply(database_url)
    start = datetime(2026, 10, 1, 0, 0, 30, tzinfo=UTC)
    history = History(spark, database, populated, archive=arguments.archive)
    found = history.rows(TablePeriod("offset_history", start, start + timedelta(days=1)))
    assert found.count() == 100
    assert [row.day for row in archived_copies(populated, "offset_history", OLDER, OLD)] == [OLDER]


@pytest.mark.slow
def test_day_with_a_late_row_is_kept_and_copied_again(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    archive_closed_days(spark, database, populated, arguments)
    rows(populated, ROWS.format(day=OLD))
    apply(database_url)
    stayed = {key for key, outcome in outcomes(populated).items() if outcome == "changed_since"}
    assert stayed == {(table, OLD) for table in OTHERS}
    before = in_postgres(populated, "offset_history")
    assert before.row_count == 300
    archive_closed_days(spark, database, populated, replace(arguments, run_id=NEXT_RUN_ID))
    apply(database_url, NEXT_RUN_ID)
    assert in_postgres(populated, "offset_history").row_count == 100
    assert everything(spark, database, populated, "offset_history").row_count == 400


def test_row_written_after_the_drop_is_archived_in_a_second_copy(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    archive_closed_days(spark, database, populated, arguments)
    apply(database_url)
    rows(populated, STRAY.format(day=LATE))
    archive_closed_days(spark, database, populated, replace(arguments, run_id=NEXT_RUN_ID))
    assert candidates(populated, NEXT_RUN_ID) == [("group_transitions", LATE, "group_transitions_default", 1)]
    apply(database_url, NEXT_RUN_ID)
    assert everything(spark, database, populated, "group_transitions").row_count == 2
    assert in_postgres(populated, "group_transitions").row_count == 0


@pytest.mark.slow
def test_late_row_does_not_replace_one_that_another_run_dropped(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    """Two runs copy the same late row, the second drops it, and another late row of that day makes the counts equal."""
    archive_closed_days(spark, database, populated, arguments)
    archive_closed_days(spark, database, populated, replace(arguments, run_id=NEXT_RUN_ID))
    apply(database_url, NEXT_RUN_ID)
    rows(populated, STRAY.format(day=LATE).replace("'late'", "'later'"))
    apply(database_url)
    assert rows(populated, "SELECT group_id FROM group_transitions") == [("later",)]
    assert everything(spark, database, populated, "group_transitions").row_count == 2


@pytest.mark.parametrize("moved_at", ["dropped_at", "restored_at"])
def test_day_dropped_or_restored_while_copied_waits_for_the_next_run(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    monkeypatch: pytest.MonkeyPatch,
    moved_at: str,
) -> None:
    move = f"""
        INSERT INTO archived_partitions (table_name, day, run_id, change_id, source, path, row_count, checksum,
            verified_at, dropped_at, restored_at)
        VALUES ('group_transitions', '{LATE}', '{CHANGE_ID}', '{CHANGE_ID}', 's', 'p', 1, 'c', to_timestamp(0),
            to_timestamp(0), NULL);
        UPDATE archived_partitions SET {moved_at} = clock_timestamp()
    """  # noqa: S608 - of the test's own
    read_back = archive_copy._read_back

    def move_and_read(archive: archive_copy.Archive, day: Day, path: str) -> Sum:
        if day.day == LATE:
            rows(populated, move)
        return read_back(archive, day, path)

    monkeypatch.setattr(archive_copy, "_read_back", move_and_read)
    archived = archive_closed_days(spark, database, populated, arguments)
    assert archived.unverified == (f"group_transitions of {LATE}",)
    assert candidates(populated) == [row for row in EXPECTED if row[0] != "group_transitions"]


# -- kills ----------------------------------------------------------------------------------------------------


STEPS = (
    "sum_in_postgres",
    "_older_copy",
    "write_day",
    "_read_back",
    "_record_copy",
    "_delete_older_copies",
    "describe_run",
)


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_next_job_completes_one_killed_around_any_step(
    spark: SparkSession,
    database: Database,
    populated: pg.connection,
    arguments: JobArguments,
    database_url: str,
    step: str,
    is_done: bool,
) -> None:
    before = in_postgres(populated, "offset_history")
    original = getattr(archive_copy, step)
    calls = iter(range(100))

    def killed(*given: Any) -> Any:  # noqa: ANN401 - as the original
        if next(calls) < 2 and step not in {"_delete_older_copies", "describe_run"}:
            return original(*given)
        if is_done:
            original(*given)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_copy, step, killed)
        with pytest.raises(Killed):
            archive_closed_days(spark, database, populated, arguments)
    archive_closed_days(spark, database, populated, arguments)
    assert candidates(populated) == EXPECTED
    apply(database_url)
    assert set(outcomes(populated).values()) == {"dropped"}
    assert everything(spark, database, populated, "offset_history") == before


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
