"""What the archive has comes back as it was, or not at all."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.archive import restoring
from spark_jobs.archive.copying import archive_closed_days
from spark_jobs.archive.restoring import restore_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from tests.spark import test_history_archive as archiving
from tests.spark.test_history_archive import KEPT, LATE, NEXT_RUN_ID, OLD, OLDER, Killed, apply, in_postgres, rows

database, connection, arguments, populated = (
    archiving.database,
    archiving.connection,
    archiving.arguments,
    archiving.populated,
)


@pytest.fixture
def archived(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments, database_url: str
) -> pg.connection:
    archive_closed_days(spark, database, populated, arguments)
    apply(database_url)
    return populated


def test_days_come_back_as_they_were_and_stay_as_long_again(
    spark: SparkSession, database: Database, populated: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    before = {table: in_postgres(populated, table) for table in archiving.OTHERS}
    archive_closed_days(spark, database, populated, arguments)
    apply(database_url)
    for table in before:
        restored = restore_days(spark, database, populated, table, OLDER, OLD, "somebody")
        assert set(restored) == {OLDER, OLD}
    assert {table: in_postgres(populated, table) for table in before} == before
    assert {table: archiving.everything(spark, database, populated, table) for table in before} == before
    noted = "SELECT actor, count(*) FROM changes WHERE action = 'restore_history_partition' GROUP BY actor"
    assert rows(populated, noted) == [("somebody", 4)]
    lately = archiving.NOW - timedelta(days=29)
    rows(populated, f"UPDATE archived_partitions SET restored_at = '{lately}'")  # noqa: S608 - a time of the test's own
    again = archive_closed_days(spark, database, populated, replace(arguments, run_id=NEXT_RUN_ID))
    assert again.counts["candidates"] == 0


def test_rows_that_came_late_come_into_the_restored_partition(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    rows(archived, archiving.STRAY.format(day=LATE))
    restore_days(spark, database, archived, "group_transitions", LATE, LATE, "somebody")
    assert rows(archived, "SELECT tableoid::regclass::text, count(*) FROM group_transitions GROUP BY 1") == [
        ("group_transitions_p20260915", 2)
    ]


def test_damaged_files_are_refused_and_nothing_comes_back(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    paths = "SELECT path FROM archived_partitions WHERE table_name = 'offset_history' AND day = '{}'"
    ((mine,),), ((other,),) = (rows(archived, paths.format(day)) for day in (OLD, OLDER))
    for file in Path(mine.removeprefix("file://")).glob("*.parquet"):
        file.unlink()
    for file in Path(other.removeprefix("file://")).glob("*.parquet"):
        (Path(mine.removeprefix("file://")) / file.name).write_bytes(file.read_bytes())
    with pytest.raises(JobError, match="are not what was archived"):
        restore_days(spark, database, archived, "offset_history", OLD, OLD, "somebody")
    assert in_postgres(archived, "offset_history").row_count == 100


@pytest.mark.parametrize("step", ["_write_beside", "sum_in_postgres", "_attach"])
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_restore_that_is_killed_around_a_step_is_done_by_the_next(
    spark: SparkSession, database: Database, archived: pg.connection, step: str, is_done: bool
) -> None:
    original = getattr(restoring, step)

    def killed(*given: object) -> object:
        if is_done:
            original(*given)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restoring, step, killed)
        with pytest.raises(Killed):
            restore_days(spark, database, archived, "offset_history", OLDER, OLD, "somebody")
    restore_days(spark, database, archived, "offset_history", OLDER, OLD, "somebody")
    counts = "SELECT at::date, count(*) FROM offset_history GROUP BY 1 ORDER BY 1"
    assert rows(archived, counts) == [(OLDER, 100), (OLD, 100), (KEPT, 100)]
    assert rows(archived, "SELECT count(*) FROM changes WHERE action = 'restore_history_partition'") == [(2,)]


def test_an_unknown_table_is_one_sentence(spark: SparkSession, database: Database, connection: pg.connection) -> None:
    with pytest.raises(JobError, match="There is no history table offsets"):
        restore_days(spark, database, connection, "offsets", OLD, OLD, "somebody")
