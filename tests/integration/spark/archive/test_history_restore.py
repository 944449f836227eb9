"""Tests of history_restore: days return unchanged, or not at all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions as pg
import pytest
from pyspark.sql import DataFrame, SparkSession

from muster.cli.jobs import restore_history
from muster.cli.main import app
from muster.errors import UserError
from muster.settings import load_settings
from spark_jobs.archive import archive_restore
from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.archive.archive_restore import restore_days
from spark_jobs.archive.checksums import Sum, TypedColumn, sum_in_spark
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.jobs import history_restore
from tests.integration.spark.archive.copied_days import CopiedDays
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
from tests.support.documented_commands import the_command

pytestmark = pytest.mark.slow


@pytest.fixture
def database_url(old_days: CopiedDays, tmp_path: Path) -> Iterator[str]:
    with old_days.copied(tmp_path) as url:
        yield url


@pytest.fixture
def archived(database_url: str, connection: pg.connection) -> pg.connection:
    apply(database_url)
    return connection


def test_restored_days_are_unchanged_and_kept_as_long_again(
    spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    before = {table: in_postgres(connection, table) for table in OTHERS}
    apply(database_url)
    for table in before:
        restored = restore_days(spark, database, connection, table, OLDER, OLD, "operator")
        assert set(restored) == ({OLDER, OLD} if table == "offset_history" else {OLD})
    assert {table: in_postgres(connection, table) for table in before} == before
    assert {table: everything(spark, database, connection, table) for table in before} == before
    noted = "SELECT actor, count(*) FROM changes WHERE action = 'restore_history_partition' GROUP BY actor"
    assert rows(connection, noted) == [("operator", 3)]
    lately = NOW - timedelta(days=29)
    rows(connection, f"UPDATE archived_partitions SET restored_at = '{lately}'")  # noqa: S608 - a time of the test's own
    again = archive_closed_days(spark, database, connection, replace(arguments, run_id=NEXT_RUN_ID))
    assert again.counts["candidates"] == 0


def test_late_rows_are_moved_into_the_restored_partition(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    rows(archived, STRAY.format(day=LATE))
    restore_days(spark, database, archived, "group_transitions", LATE, LATE, "operator")
    assert rows(archived, "SELECT tableoid::regclass::text, count(*) FROM group_transitions GROUP BY 1") == [
        ("group_transitions_p20260915", 2)
    ]


def test_damaged_files_are_rejected_and_no_day_is_restored(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    paths = "SELECT path FROM archived_partitions WHERE table_name = 'offset_history' AND day = '{}'"
    ((mine,),), ((other,),) = (rows(archived, paths.format(day)) for day in (OLD, OLDER))
    for file in Path(mine.removeprefix("file://")).glob("*.parquet"):
        file.unlink()
    for file in Path(other.removeprefix("file://")).glob("*.parquet"):
        (Path(mine.removeprefix("file://")) / file.name).write_bytes(file.read_bytes())
    with pytest.raises(JobError, match="do not match their recorded checksum"):
        restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator")
    assert in_postgres(archived, "offset_history").row_count == 100


@pytest.mark.parametrize(
    ("step", "moment"),
    [
        ("_write_with_extra_rows", "before"),
        ("_write_with_extra_rows", "after"),
        ("_attach", "before"),
        ("_attach", "after"),
    ],
)
def test_next_restore_completes_one_killed_around_a_step_that_writes(
    spark: SparkSession, database: Database, archived: pg.connection, step: str, moment: str
) -> None:
    original = getattr(archive_restore, step)

    def killed(*given: object) -> object:
        if moment == "after":
            original(*given)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_restore, step, killed)
        with pytest.raises(Killed):
            restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator")
    restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator")
    counts = "SELECT (at AT TIME ZONE 'UTC')::date, count(*) FROM offset_history GROUP BY 1 ORDER BY 1"
    assert rows(archived, counts) == [(OLD, 100), (KEPT, 100)]
    assert rows(archived, "SELECT count(*) FROM changes WHERE action = 'restore_history_partition'") == [(1,)]


def test_rows_that_differ_after_loading_are_rejected_and_no_day_is_restored(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    original = archive_restore._write_with_extra_rows

    def write_less(given: archive_restore.Restoring, beside: str, frames: list[DataFrame]) -> None:
        original(given, beside, frames)
        rows(archived, f"DELETE FROM {beside} WHERE ctid = (SELECT min(ctid) FROM {beside})")  # noqa: S608 - its own name

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_restore, "_write_with_extra_rows", write_less)
        with pytest.raises(JobError, match="do not match the files"):
            restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator")
    assert in_postgres(archived, "offset_history").row_count == 100


def test_concurrent_restore_of_a_day_is_rejected_in_one_sentence(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    original, refused = archive_restore._write_with_extra_rows, []

    def meet_another(given: archive_restore.Restoring, beside: str, frames: list[DataFrame]) -> None:
        original(given, beside, frames)
        with pytest.MonkeyPatch.context() as other, closing(database.connect()) as connection:
            other.setattr(archive_restore, "_write_with_extra_rows", original)
            with pytest.raises(JobError) as refusal:
                restore_days(spark, database, connection, "offset_history", OLD, OLD, "second-operator")
        refused.append(str(refusal.value))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_restore, "_write_with_extra_rows", meet_another)
        assert restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator") == {OLD: 100}
    assert refused == [f"Another restore of {OLD} of offset_history is running."]
    assert rows(archived, "SELECT actor FROM changes WHERE action = 'restore_history_partition'") == [("operator",)]


def test_day_restored_during_the_comparison_is_not_changed(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    sums: list[Sum] = []

    def restored_meanwhile(frame: DataFrame, columns: Sequence[TypedColumn]) -> Sum:
        sums.append(sum_in_spark(frame, columns))
        if len(sums) == 1:
            with closing(database.connect()) as connection:
                restore_days(spark, database, connection, "offset_history", OLD, OLD, "second-operator")
        return sums[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_restore, "sum_in_spark", restored_meanwhile)
        with pytest.raises(JobError, match=f"{OLD} of offset_history was restored meanwhile"):
            restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator")
    assert len(sums) == 2, "each of the two restores reads the files once to compare them"
    assert in_postgres(archived, "offset_history").row_count == 200
    assert rows(archived, f"SELECT to_regclass('offset_history_r{OLD:%Y%m%d}')") == [(None,)]


def test_late_rows_archived_during_the_restore_are_not_lost(
    spark: SparkSession, database: Database, archived: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    original = archive_restore._write_with_extra_rows

    def archive_more(*given: Any) -> None:  # noqa: ANN401 - as the original
        original(*given)
        rows(archived, STRAY.format(day=LATE))
        archive_closed_days(spark, database, archived, replace(arguments, run_id=NEXT_RUN_ID))
        apply(database_url, NEXT_RUN_ID)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_restore, "_write_with_extra_rows", archive_more)
        with pytest.raises(JobError, match=f"More rows of {LATE} of group_transitions were archived meanwhile"):
            restore_days(spark, database, archived, "group_transitions", LATE, LATE, "operator")
    assert everything(spark, database, archived, "group_transitions").row_count == 2
    assert restore_days(spark, database, archived, "group_transitions", LATE, LATE, "operator") == {LATE: 2}


def test_a_restored_day_is_attached_when_readers_have_ended(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    original = archive_restore._attach

    with pytest.MonkeyPatch.context() as patch, closing(database.connect()) as reader, reader.cursor() as cursor:

        def attach(*given: Any) -> None:  # noqa: ANN401 - as the original
            try:
                original(*given)
            except psycopg2.errors.LockNotAvailable:
                reader.rollback()
                raise

        patch.setattr(archive_restore, "_attach", attach)
        patch.setattr(archive_restore, "ATTACH_RETRY_S", 0.0)
        cursor.execute("SELECT FROM offset_history")
        assert restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator") == {OLD: 100}
    assert in_postgres(archived, "offset_history").row_count == 200


def test_a_table_that_is_always_read_is_named(
    spark: SparkSession, database: Database, archived: pg.connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_restore, "ATTACH_TRIES", 1)
    monkeypatch.setattr(archive_restore, "ATTACH_RETRY_S", 0.0)
    with closing(database.connect()) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT FROM offset_history")
        with pytest.raises(JobError, match=f"Long transactions use offset_history; nothing of {OLD} was restored"):
            restore_days(spark, database, archived, "offset_history", OLD, OLD, "operator")
    assert in_postgres(archived, "offset_history").row_count == 100


def test_a_dry_run_compares_the_files_and_changes_nothing(
    spark: SparkSession, database: Database, archived: pg.connection, arguments: JobArguments
) -> None:
    would = restore_days(spark, database, archived, "offset_history", OLDER, OLD, None)
    assert would == {OLDER: 100, OLD: 100}
    assert in_postgres(archived, "offset_history").row_count == 100
    assert rows(archived, "SELECT count(*) FROM archived_partitions WHERE restored_at IS NOT NULL") == [(0,)]
    for file in Path(arguments.archive.removeprefix("file://")).glob("offset_history/*/*/*.parquet"):
        file.unlink()
    with pytest.raises(JobError, match="do not match their recorded checksum"):
        restore_days(spark, database, archived, "offset_history", OLDER, OLD, None)


def test_moved_archive_is_restored_from_its_new_path(
    spark: SparkSession, database: Database, archived: pg.connection, tmp_path: Path
) -> None:
    (tmp_path / "archive").rename(tmp_path / "moved")
    with pytest.raises(JobError, match=r"The archive's files are not at file:.*; set MUSTER_ARCHIVE_URI"):
        restore_days(spark, database, archived, "partition_ownership", OLD, OLD, "operator")
    moved = f"file://{tmp_path}/moved"
    assert restore_days(spark, database, archived, "partition_ownership", OLD, OLD, "operator", archive=moved) == {
        OLD: 5
    }


@pytest.mark.usefixtures("jobs_in_warm_spark")
def test_muster_job_restores_only_with_execute(
    archived: pg.connection, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load_settings(database_url=database_url, data_dir=tmp_path)
    both = f"{OLDER}/{OLD + timedelta(days=1)}"
    restore_history(both, None, settings, execute=False)
    output = capsys.readouterr().out.splitlines()[1:]
    assert output == [
        "history_restore: would restore offset_history 2 days (rows 200), partition_ownership 1 day (rows 5).",
        "Dry run; use --execute to apply.",
    ]
    assert in_postgres(archived, "offset_history").row_count == 100
    restore_history(str(OLD), "offset_history", settings, execute=True)
    assert capsys.readouterr().out.splitlines()[1:] == ["history_restore: restored offset_history 1 day (rows 100)."]
    counts = "SELECT (at AT TIME ZONE 'UTC')::date, count(*) FROM offset_history GROUP BY 1 ORDER BY 1"
    assert rows(archived, counts) == [(OLD, 100), (KEPT, 100)]


@pytest.mark.parametrize("words", [("--table", "rebalances"), ("--execute",)])
def test_restore_arguments_are_refused_for_other_jobs(words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="group_cleanup knows neither --table nor --execute"):
        app(["job", "group_cleanup", *words, "--data-dir", str(tmp_path)], standalone_mode=False)


def test_restore_without_interval_is_rejected_in_one_sentence(tmp_path: Path) -> None:
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
def test_invalid_day_is_rejected_in_one_sentence(
    given: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        history_restore.main(given)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("more", [[], ["--table=rebalances", "--execute"]])
def test_documented_submission_names_the_days(more: list[str]) -> None:
    _, *words = the_command("docs/maintenance.md", "spark_jobs/jobs/history_restore.py --first-day").split()
    asked = history_restore.read_command_line([*words, *more])
    assert (asked.first_day, asked.last_day) == (date(2026, 10, 1), date(2026, 10, 3))


def test_user_without_an_account_is_the_actor_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers often run under such a number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2_000_123)
    assert history_restore.read_command_line(["--first-day=2026-10-01"]).actor == "user:uid 2000123"


def test_empty_restore_is_reported() -> None:
    output = history_restore.describe({"rebalances": {}}, is_dry_run=False)
    assert output == "history_restore: restored nothing: no such day is only in the archive."


def test_unknown_table_is_rejected_in_one_sentence(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    with pytest.raises(JobError, match=r"There is no history table offsets; choose .* or rebalances"):
        restore_days(spark, database, connection, "offsets", OLD, OLD, "operator")


def test_restored_rows_older_than_columns_have_their_defaults(
    spark: SparkSession, database: Database, archived: pg.connection
) -> None:
    rows(archived, "ALTER TABLE offset_history ADD COLUMN one text, ADD COLUMN other boolean NOT NULL DEFAULT false")
    restore_days(spark, database, archived, "offset_history", OLDER, OLD, "operator")
    found = f"SELECT one, other, count(*) FROM offset_history WHERE at < '{KEPT}' GROUP BY 1, 2"  # noqa: S608 - a day
    assert rows(archived, found) == [(None, False, 200)]


def test_late_rows_newer_than_a_column_keep_its_values(
    spark: SparkSession, database: Database, archived: pg.connection, arguments: JobArguments, database_url: str
) -> None:
    rows(archived, "ALTER TABLE group_transitions ADD COLUMN added_since boolean NOT NULL DEFAULT false")
    rows(archived, STRAY.format(day=LATE))
    rows(archived, "UPDATE group_transitions SET added_since = true")
    archive_closed_days(spark, database, archived, replace(arguments, run_id=NEXT_RUN_ID))
    apply(database_url, NEXT_RUN_ID)
    assert restore_days(spark, database, archived, "group_transitions", LATE, LATE, "operator") == {LATE: 2}
    assert rows(archived, "SELECT added_since FROM group_transitions ORDER BY 1") == [(False,), (True,)]
