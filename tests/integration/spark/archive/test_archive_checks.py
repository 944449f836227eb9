"""Tests of the archive job's checks: wrong copies are rejected, and every copy has its own directory."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg2.extensions as pg
import pytest
from psycopg2.sql import Identifier
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from coordinator_core.runtime.archive_files import ArchiveFiles
from coordinator_core.state_store.partition_drop import ClaimedCopy
from muster.node.serve import _node_config
from muster.settings import load_settings
from spark_jobs.archive import archive_copy
from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.archive.checksums import TypedColumn, sum_in_postgres, sum_in_spark
from spark_jobs.archive.files import file_count, write_day
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.submit import archive_uri
from tests.integration.spark.archive.copied_days import CopiedDays
from tests.integration.spark.archive.old_days import (
    EXPECTED,
    LATE,
    NEXT_RUN_ID,
    OLD,
    OLDER,
    RUN_ID,
    candidates,
    rows,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def database_url(old_days: CopiedDays, tmp_path: Path) -> Iterator[str]:
    """Days that are copied already, so that a run writes only what its test is about."""
    with old_days.copied(tmp_path) as url:
        yield url


def paths(connection: pg.connection) -> dict[tuple[str, str], str]:
    """Return the path of each proposed day, by table and day."""
    found = rows(connection, "SELECT table_name, day::text, path FROM archive_candidates")
    return {(table, day): path for table, day, path in found}


# -- where copies lie -----------------------------------------------------------------------------------------


def test_copy_path_has_table_day_and_attempt(
    spark: SparkSession, connection: pg.connection, arguments: JobArguments
) -> None:
    found = rows(connection, "SELECT table_name, day, path FROM archive_candidates")
    for table, day, path in found:
        attempt = path.removeprefix(f"{arguments.archive}/{table}/day={day}/attempt=")
        assert UUID(attempt).version == 7
    (copy,) = [path for table, day, path in found if (table, day) == ("offset_history", OLD)]
    (file,) = Path(copy.removeprefix("file://")).glob("*.parquet")
    groups = [row.group_id for row in spark.read.parquet(f"file://{file}").select("group_id").collect()]
    assert len(groups) == 100
    assert groups == sorted(groups, key=str.encode)


def test_a_node_finds_the_copies_in_its_data_directory_whatever_the_name(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments, tmp_path: Path
) -> None:
    data_dir = tmp_path / "Jörg's data [1] {a,b}*?"
    archive = ArchiveFiles(_node_config(load_settings(data_dir=data_dir), "0").archive_uri or "", is_checked=True)
    archive_closed_days(spark, database, connection, replace(arguments, archive=archive_uri(data_dir)))
    copies = rows(connection, "SELECT table_name, day::text, path, row_count FROM archive_candidates")
    assert {archive.has(ClaimedCopy(*copy)) for copy in copies} == {True}
    assert {each.name for each in tmp_path.iterdir()} == {data_dir.name, "archive"}


def test_run_copies_the_oldest_days_up_to_its_limit(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    arguments: JobArguments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive_copy, "DAYS_MAX", 2)
    archive_closed_days(spark, database, connection, arguments)
    assert [(table, day) for table, day, *_ in candidates(connection)] == [
        ("group_transitions", LATE),
        ("offset_history", OLDER),
    ]


@pytest.mark.parametrize(("row_count", "files"), [(0, 1), (1_000_000, 1), (1_000_001, 2), (9_000_000, 4)])
def test_a_large_day_is_spread_over_files(row_count: int, files: int) -> None:
    assert file_count(row_count, most=4) == files


# -- which days -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep_days", "days"), [(50, {LATE, OLDER}), (49, {LATE, OLDER, OLD})])
def test_keep_days_is_counted_in_whole_days_and_a_day_that_is_kept_is_no_longer_proposed(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    arguments: JobArguments,
    keep_days: int,
    days: set[Any],
) -> None:
    """All of them were proposed in the first attempt."""
    archive_closed_days(spark, database, connection, replace(arguments, keep_days=keep_days))
    assert {day for _, day, *_ in candidates(connection)} == days


# -- copies that are not the same -----------------------------------------------------------------------------


def test_a_copy_with_as_many_rows_and_another_value_is_not_the_same(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    arguments: JobArguments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write_another(found: Any, *given: Any) -> None:  # noqa: ANN401 - as the original
        write_day(found.withColumn("shard_id", sf.when(sf.col("shard_id") != 3, sf.col("shard_id"))), *given)

    monkeypatch.setattr(archive_copy, "write_day", write_another)
    elsewhere = f"{arguments.archive}/elsewhere"
    archived = archive_closed_days(spark, database, connection, replace(arguments, archive=elsewhere))
    assert f"group_transitions of {LATE}" in archived.unverified
    assert {table for table, *_ in candidates(connection)} == {"partition_ownership"}


def test_a_copy_in_another_archive_is_not_reused(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments, tmp_path: Path
) -> None:
    """Nodes look into the present archive only."""
    present = f"file://{tmp_path}/present"
    archive_closed_days(spark, database, connection, replace(arguments, archive=present))
    assert {path.startswith(f"{present}/") for path in paths(connection).values()} == {True}


def test_older_copy_with_a_changed_value_is_replaced(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments
) -> None:
    """The files of another day are as many, and have as many rows."""
    before = paths(connection)
    mine, other = (Path(before["offset_history", str(day)].removeprefix("file://")) for day in (OLD, OLDER))
    for file in mine.glob("*.parquet"):
        file.unlink()
    for file in other.glob("*.parquet"):
        (mine / file.name).write_bytes(file.read_bytes())
    archive_closed_days(spark, database, connection, arguments)
    after = paths(connection)
    assert {key for key in before if before[key] != after[key]} == {("offset_history", str(OLD))}
    assert candidates(connection) == EXPECTED


# -- decisions that come meanwhile ----------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", [NEXT_RUN_ID, RUN_ID], ids=["at the first attempt", "at the second"])
def test_decided_days_do_not_change(
    spark: SparkSession,
    database: Database,
    connection: pg.connection,
    arguments: JobArguments,
    monkeypatch: pytest.MonkeyPatch,
    run_id: str,
) -> None:
    before = paths(connection)
    look = archive_copy._older_copy

    def decide_and_look(*given: Any) -> str | None:  # noqa: ANN401 - as the original
        rows(connection, "UPDATE maintenance_runs SET status = 'applying'")
        return look(*given)

    monkeypatch.setattr(archive_copy, "_older_copy", decide_and_look)
    archive_closed_days(spark, database, connection, replace(arguments, run_id=run_id))
    assert paths(connection) == before
    assert (candidates(connection), candidates(connection, NEXT_RUN_ID)) == (EXPECTED, [])


# -- the checksum ---------------------------------------------------------------------------------------------


def test_checksum_of_an_array_with_null_is_equal_in_postgres_and_spark(
    spark: SparkSession, connection: pg.connection
) -> None:
    columns = [TypedColumn("numbers", "integer[]")]
    rows(connection, "CREATE TABLE holes AS SELECT ARRAY[1, NULL, 2] AS numbers")
    with_hole = spark.sql("SELECT array(1, NULL, 2) AS numbers")
    assert sum_in_postgres(connection, Identifier("holes"), columns) == sum_in_spark(with_hole, columns)
    assert sum_in_spark(spark.sql("SELECT array(1, 2) AS numbers"), columns) != sum_in_spark(with_hole, columns)
