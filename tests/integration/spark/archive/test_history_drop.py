"""Tests of copied days: a later run uses the copies again, nodes drop the days once, and reports read both places."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.archive.days import archived_copies
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.history import History, TablePeriod
from tests.integration.spark.archive.copied_days import CopiedDays
from tests.integration.spark.archive.old_days import (
    EXPECTED,
    LATE,
    NEXT_RUN_ID,
    OLD,
    OLDER,
    OTHERS,
    ROWS,
    RUN_ID,
    STRAY,
    TABLES,
    apply,
    candidates,
    everything,
    in_postgres,
    outcomes,
    rows,
)


@pytest.fixture
def database_url(old_days: CopiedDays, tmp_path: Path) -> Iterator[str]:
    with old_days.copied(tmp_path) as url:
        yield url


# -- the next run ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_damaged_copy_is_written_again(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments
) -> None:
    paths = "SELECT path FROM archive_candidates WHERE table_name = 'group_transitions'"
    ((path,),) = rows(connection, paths)
    for file in Path(path.removeprefix("file://")).glob("*.parquet"):
        file.unlink()
    archive_closed_days(spark, database, connection, arguments)
    ((again,),) = rows(connection, paths)
    assert again != path
    assert candidates(connection) == EXPECTED


# -- the drop -------------------------------------------------------------------------------------------------


def test_copied_days_are_dropped_and_reports_read_both_places(
    spark: SparkSession, database: Database, connection: pg.connection, database_url: str
) -> None:
    before = {table: in_postgres(connection, table) for table in TABLES}
    apply(database_url)
    assert set(outcomes(connection).values()) == {"dropped"}
    left = {table: in_postgres(connection, table).row_count for table in before}
    assert left == {"partition_ownership": 5, "offset_history": 100, "group_transitions": 0}
    assert {table: everything(spark, database, connection, table) for table in before} == before
    kept = (
        "SELECT actor, after ->> 'run_id', count(*) FROM changes WHERE action = 'drop_history_partition' GROUP BY 1, 2"
    )
    assert rows(connection, kept) == [("operator", RUN_ID, 4)]
    counts = rows(connection, "SELECT status, counts ->> 'dropped' FROM maintenance_runs")
    assert counts == [("applied", "4")]


def test_a_report_reads_no_more_of_the_archive_than_its_interval(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    apply(database_url)
    start = datetime(2026, 10, 1, 0, 0, 30, tzinfo=UTC)
    history = History(spark, database, connection, archive=arguments.archive)
    found = history.rows(TablePeriod("offset_history", start, start + timedelta(days=1)))
    assert found.count() == 100
    assert [row.day for row in archived_copies(connection, "offset_history", OLDER, OLD)] == [OLDER]


@pytest.mark.slow
def test_day_with_a_late_row_is_kept_and_copied_again(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    for table in OTHERS:
        rows(connection, ROWS[table].format(day=OLD))
    apply(database_url)
    stayed = {key for key, outcome in outcomes(connection).items() if outcome == "changed_since"}
    assert stayed == {(table, OLD) for table in OTHERS}
    before = in_postgres(connection, "offset_history")
    assert before.row_count == 300
    archive_closed_days(spark, database, connection, replace(arguments, run_id=NEXT_RUN_ID))
    apply(database_url, NEXT_RUN_ID)
    assert in_postgres(connection, "offset_history").row_count == 100
    assert everything(spark, database, connection, "offset_history").row_count == 400


def test_row_written_after_the_drop_is_archived_in_a_second_copy(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    apply(database_url)
    rows(connection, STRAY.format(day=LATE))
    archive_closed_days(spark, database, connection, replace(arguments, run_id=NEXT_RUN_ID))
    assert candidates(connection, NEXT_RUN_ID) == [("group_transitions", LATE, "group_transitions_default", 1)]
    apply(database_url, NEXT_RUN_ID)
    assert everything(spark, database, connection, "group_transitions").row_count == 2
    assert in_postgres(connection, "group_transitions").row_count == 0


@pytest.mark.slow
def test_second_run_uses_the_copies_again_and_a_late_row_does_not_replace_one_that_it_has_dropped(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    """Two runs copy the same late row, the second drops it, and another late row of that day makes the counts equal."""
    archive_closed_days(spark, database, connection, replace(arguments, run_id=NEXT_RUN_ID))
    assert candidates(connection, NEXT_RUN_ID) == candidates(connection) == EXPECTED
    assert rows(connection, "SELECT count(DISTINCT path) FROM archive_candidates") == [(len(EXPECTED),)]
    apply(database_url, NEXT_RUN_ID)
    rows(connection, STRAY.format(day=LATE).replace("'late'", "'later'"))
    apply(database_url)
    assert rows(connection, "SELECT group_id FROM group_transitions") == [("later",)]
    assert everything(spark, database, connection, "group_transitions").row_count == 2
