"""What the archive has comes back as it was, or not at all."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import DataFrame, SparkSession

from muster.cli import app
from muster.errors import UserError
from muster.jobs import restore_history
from muster.settings import load_settings
from spark_jobs.archive import restoring
from spark_jobs.archive.checksums import Sum, TypedColumn, sum_in_spark
from spark_jobs.archive.copying import archive_closed_days
from spark_jobs.archive.restoring import restore_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.jobs import history_restore
from tests.integration.spark.archive.old_days import (
    KEPT,
    LATE,
    NEXT_RUN_ID,
    NOW,
    OLD,
    OLDER,
    OTHERS,
    STRAY,
    Killed,
    apply,
    everything,
    in_postgres,
    rows,
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
    before = {table: in_postgres(populated, table) for table in OTHERS}
    archive_closed_days(spark, database, populated, arguments)
    apply(database_url)
    for table in before:
        restored = restore_days(spark, database, populated, table, OLDER, OLD, "somebody")
        assert set(restored) == {OLDER, OLD}
    assert {table: in_postgres(populated, table) for table in before} == before
    assert {table: everything(spark, database, populated, table) for table in before} == before
    noted = "SELECT actor, count(*) FROM changes WHERE action = 'restore_history_partition' GROUP BY actor"
    assert rows(populated, noted) == [("somebody", 4)]
    lately = NOW - timedelta(days=29)
    rows(populated, f"UPDATE archived_partitions SET restored_at = '{lately}'")  # noqa: S608 - a time of the test's own
    again = archive_closed_days(spark, database, populated, replace(arguments, run_id=NEXT_RUN_ID))
    assert again.counts["candidates"] == 0


def test_rows_that_came_late_come_into_the_restored_partition(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    rows(archived, STRAY.format(day=LATE))
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
    counts = "SELECT (at AT TIME ZONE 'UTC')::date, count(*) FROM offset_history GROUP BY 1 ORDER BY 1"
    assert rows(archived, counts) == [(OLDER, 100), (OLD, 100), (KEPT, 100)]
    assert rows(archived, "SELECT count(*) FROM changes WHERE action = 'restore_history_partition'") == [(2,)]


def test_rows_that_did_not_arrive_as_they_were_written_are_noticed_and_nothing_comes_back(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    original = restoring._write_beside

    def write_less(given: restoring.Restoring, beside: str, frame: DataFrame) -> None:
        original(given, beside, frame)
        rows(archived, f"DELETE FROM {beside} WHERE ctid = (SELECT min(ctid) FROM {beside})")  # noqa: S608 - its own name

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restoring, "_write_beside", write_less)
        with pytest.raises(JobError, match="does not hold what the files hold"):
            restore_days(spark, database, archived, "offset_history", OLD, OLD, "somebody")
    assert in_postgres(archived, "offset_history").row_count == 100


def test_whoever_restores_a_day_that_somebody_else_restores_is_refused_in_one_sentence(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    original, refused = restoring._write_beside, []

    def meet_another(given: restoring.Restoring, beside: str, frame: DataFrame) -> None:
        original(given, beside, frame)
        with pytest.MonkeyPatch.context() as other, closing(database.connect()) as connection:
            other.setattr(restoring, "_write_beside", original)
            with pytest.raises(JobError) as refusal:
                restore_days(spark, database, connection, "offset_history", OLD, OLD, "somebody else")
        refused.append(str(refusal.value))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restoring, "_write_beside", meet_another)
        assert restore_days(spark, database, archived, "offset_history", OLD, OLD, "somebody") == {OLD: 100}
    assert refused == [f"Another restore of {OLD} of offset_history is under way."]
    assert rows(archived, "SELECT actor FROM changes WHERE action = 'restore_history_partition'") == [("somebody",)]


def test_a_day_that_came_back_while_its_files_were_compared_is_left_as_it_is(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    sums: list[Sum] = []

    def restored_meanwhile(frame: DataFrame, columns: Sequence[TypedColumn]) -> Sum:
        sums.append(sum_in_spark(frame, columns))
        if len(sums) == 1:
            with closing(database.connect()) as connection:
                restore_days(spark, database, connection, "offset_history", OLD, OLD, "somebody else")
        return sums[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restoring, "sum_in_spark", restored_meanwhile)
        with pytest.raises(JobError, match=f"{OLD} of offset_history was brought back meanwhile"):
            restore_days(spark, database, archived, "offset_history", OLD, OLD, "somebody")
    assert in_postgres(archived, "offset_history").row_count == 200
    assert rows(archived, f"SELECT to_regclass('offset_history_r{OLD:%Y%m%d}')") == [(None,)]


def test_a_dry_run_compares_the_files_and_changes_nothing(
    spark: SparkSession, database: Database, archived: pg.connection, arguments: JobArguments
) -> None:
    would = restore_days(spark, database, archived, "offset_history", OLDER, OLD, None)
    assert would == {OLDER: 100, OLD: 100}
    assert in_postgres(archived, "offset_history").row_count == 100
    assert rows(archived, "SELECT count(*) FROM archived_partitions WHERE restored_at IS NOT NULL") == [(0,)]
    for file in Path(arguments.archive.removeprefix("file://")).glob("offset_history/*/*/*.parquet"):
        file.unlink()
    with pytest.raises(JobError, match="are not what was archived"):
        restore_days(spark, database, archived, "offset_history", OLDER, OLD, None)


def test_an_archive_that_was_moved_as_a_whole_is_restored_from_where_it_is_now(
    spark: SparkSession, database: Database, archived: pg.connection, tmp_path: Path
) -> None:
    (tmp_path / "archive").rename(tmp_path / "moved")
    with pytest.raises(JobError, match=r"The archive's files are not at file:.*; set MUSTER_ARCHIVE_URI"):
        restore_days(spark, database, archived, "assignments", OLD, OLD, "somebody")
    moved = f"file://{tmp_path}/moved"
    assert restore_days(spark, database, archived, "assignments", OLD, OLD, "somebody", archive=moved) == {OLD: 5}


def test_muster_job_looks_first_and_restores_when_asked_to(
    archived: pg.connection, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load_settings(database_url=database_url, data_dir=tmp_path)
    both = f"{OLDER}/{OLD + timedelta(days=1)}"
    restore_history(both, None, settings, execute=False)
    told = capsys.readouterr().out.splitlines()[1:]
    assert told == [
        "history_restore: would restore assignments 2 days (rows 10), offset_history 2 days (rows 200).",
        "Nothing was changed; --execute does it.",
    ]
    assert in_postgres(archived, "offset_history").row_count == 100
    restore_history(str(OLD), "offset_history", settings, execute=True)
    assert capsys.readouterr().out.splitlines()[1:] == ["history_restore: restored offset_history 1 day (rows 100)."]
    counts = "SELECT (at AT TIME ZONE 'UTC')::date, count(*) FROM offset_history GROUP BY 1 ORDER BY 1"
    assert rows(archived, counts) == [(OLD, 100), (KEPT, 100)]


@pytest.mark.parametrize("words", [("--table", "rebalances"), ("--execute",)])
def test_what_only_a_restore_knows_is_refused_elsewhere(words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="group_cleanup knows neither --table nor --execute"):
        app(["job", "group_cleanup", *words, "--data-dir", str(tmp_path)], standalone_mode=False)


def test_a_restore_without_days_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="history_restore needs --interval: a day, or START/END") as refusal:
        restore_history(None, None, load_settings(data_dir=tmp_path), execute=False)
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--first-day=yesterday"], "'yesterday' is not a day such as 2026-01-31"),
        (["--first-day=2026-10-02", "--last-day=2026-10-01"], "the last day (2026-10-01) is before the first"),
    ],
)
def test_a_wrong_day_is_one_sentence(given: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        history_restore.main(given)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_nothing_to_restore_is_told() -> None:
    told = history_restore.describe({"rebalances": {}}, is_dry_run=False)
    assert told == "history_restore: restored nothing: the archive alone has nothing of these days."


def test_an_unknown_table_is_one_sentence(spark: SparkSession, database: Database, connection: pg.connection) -> None:
    with pytest.raises(JobError, match=r"There is no history table offsets; there are assignments, .* and rebalances"):
        restore_days(spark, database, connection, "offsets", OLD, OLD, "somebody")


def test_days_that_are_older_than_a_column_come_back_with_nulls_in_it(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    rows(archived, "ALTER TABLE offset_history ADD COLUMN added_since text")
    restore_days(spark, database, archived, "offset_history", OLDER, OLD, "somebody")
    found = "SELECT count(*), count(added_since) FROM offset_history WHERE at < %s"
    assert rows(archived, found.replace("%s", f"'{KEPT}'")) == [(200, 0)]
