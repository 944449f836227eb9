"""Tests that reports on archived days equal those from before the archiving."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import psycopg2.extensions as pg
import pytest
from psycopg2.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from muster.cli.jobs import run_job
from muster.settings import load_settings
from spark_jobs import report_job
from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database, parse_url
from spark_jobs.errors import JobError
from spark_jobs.history import History, TablePeriod
from spark_jobs.jdbc import write_staging
from spark_jobs.jobs import rebalance_frequency_report, timeout_advice
from spark_jobs.jobs.rebalance_frequency_report import SILENCE_MAX
from spark_jobs.report_job import ReportArguments, ReportingJob, report
from spark_jobs.report_relations import (
    ended_rebalances_within,
    evictions_and_exits_within,
    evictions_within,
    joins_within,
    lifetimes_within,
    missed_waits_within,
    new_member_rebalances_within,
    rebalances_within,
    reconnects_within,
    rejoins_within,
    sessions_within,
    waits_within,
)
from spark_jobs.submit import default_options
from tests.integration.spark.archive.copied_days import CopiedDays, copied_days
from tests.integration.spark.archive.old_days import NEXT_RUN_ID, RUN_ID, apply, in_postgres, rows
from tests.integration.spark.rows import NOW
from tests.support.databases import Databases
from tests.support.random_history import DAY, Past, scattered
from tests.support.stored_history import table_rows

pytestmark = pytest.mark.slow

# Each reports and archives several times.

FREQUENCY, ADVICE = rebalance_frequency_report.JOB, timeout_advice.JOB
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
END = MIDNIGHT - 10 * DAY
"""When the past of these tests ends, at a midnight."""
GRACE = timedelta(minutes=1)
READ = ("rebalances", "rebalance_members", "member_sessions")
COUNTS = """
CREATE TABLE counts (interval_start timestamptz, interval_end timestamptz, run_id uuid, as_of timestamptz,
    group_id text, what text, number bigint, PRIMARY KEY (interval_end, interval_start, group_id, what));
CREATE TABLE counts_staging (attempt_id uuid, group_id text, what text, number bigint)
"""


def find_counts(history: History, arguments: ReportArguments) -> list[DataFrame]:
    """Count the rebalances and evictions of an interval by group."""
    within = arguments.interval_start, arguments.interval_end
    relations = (rebalances_within(*within), evictions_within(*within))
    found = (history.read(each, ["group_id"]).withColumn("what", sf.lit(each.name)) for each in relations)
    return [reduce(DataFrame.union, found).groupBy("group_id", "what").agg(sf.count("*").alias("number"))]


COUNTING = ReportingJob(replace(FREQUENCY.spec, reports=("counts",)), find_counts, "nothing has happened")
"""The least report that reads history, for what all reports have in common."""


def archive_arguments(archive: str) -> JobArguments:
    """Archive everything before the last day of the history: two days of three tables."""
    return JobArguments(RUN_ID, END, None, None, -1, is_dry_run=False, read_partitions=2, keep_days=1, archive=archive)


@pytest.fixture
def archiving(tmp_path: Path) -> JobArguments:
    return archive_arguments(f"file://{tmp_path}/archive")


def store_past(connection: pg.connection) -> None:
    """Store whatever may happen to some groups within three days, and one rebalance over a midnight."""
    past = Past(END)
    for seed in range(4):
        scattered(past, f"scattered {seed}", seed)
    past.rebalance("scattered 1", END - DAY - GRACE, 2 * GRACE // timedelta(milliseconds=1))
    add_partitions(connection, END - 3 * DAY, END + DAY)
    past.store(connection)
    rows(connection, COUNTS)


@pytest.fixture(scope="module")
def copied_past(
    databases: Databases, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CopiedDays]:
    with copied_days(databases, spark, tmp_path_factory.mktemp("archive"), store_past, archive_arguments) as days:
        yield days


@pytest.fixture(scope="module")
def at_first(copied_past: CopiedDays, spark: SparkSession) -> list[dict[str, Any]]:
    """The counts of the first day, while no day was dropped."""
    database = parse_url(copied_past.url)
    with closing(database.connect()) as connection:
        found = report_rows(COUNTING, spark, connection, database, asked(COUNTING, 2))
        rows(connection, "TRUNCATE counts")
    assert len(found) == 8
    return found


@pytest.fixture
def database_url(copied_past: CopiedDays, tmp_path: Path) -> Iterator[str]:
    with copied_past.copied(tmp_path) as url:
        yield url


@pytest.fixture
def past(connection: pg.connection) -> pg.connection:
    """Days that were copied into the archive, and are in Postgres still."""
    return connection


def add_partitions(connection: pg.connection, first: Any, end: Any) -> None:  # noqa: ANN401 - instants
    """Create partitions for days; older rows are in the default partitions."""
    day = first
    while day < end:
        for table in READ:
            statement = SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES FROM (%s) TO (%s)").format(
                Identifier(f"{table}_p{day:%Y%m%d}"), Identifier(table)
            )
            with connection, connection.cursor() as cursor:
                cursor.execute(statement, (day, day + DAY))
        day += DAY


def asked(job: ReportingJob, days_before: int = 0, archive: str = "") -> ReportArguments:
    """Ask for a day that many days before the last."""
    end = END - days_before * DAY
    options = default_options(job.spec.name) | ({"window_days": 3} if job is ADVICE else {})
    return ReportArguments(
        RUN_ID, end, end - DAY, end, is_dry_run=False, read_partitions=3, options=options, archive=archive
    )


def report_rows(
    job: ReportingJob, spark: SparkSession, connection: pg.connection, database: Database, arguments: ReportArguments
) -> list[dict[str, Any]]:
    """Run the report again and return the rows."""
    rows(connection, f"TRUNCATE {job.spec.reports[0]}")
    report(job, spark, database, connection, arguments)
    return table_rows(connection, job.spec.reports[0])


# -- archived and stored days ---------------------------------------------------------------------------------


def test_archived_days_are_reported_as_before(
    spark: SparkSession, database: Database, past: pg.connection, archiving: JobArguments, database_url: str
) -> None:
    """Two days of the interval are archived, and the last one is not."""
    three_days = replace(asked(FREQUENCY), interval_start=END - 3 * DAY)
    at_first = report_rows(FREQUENCY, spark, past, database, three_days)
    assert len(at_first) >= 4
    assert sum(row["evicted"] for row in at_first) > sum(row["spuriously_evicted"] for row in at_first) > 0
    before = {table: in_postgres(past, table).row_count for table in READ}
    apply(database_url)
    assert all(0 < in_postgres(past, table).row_count < before[table] for table in READ)
    asked_again = replace(three_days, archive=archiving.archive)
    assert report_rows(FREQUENCY, spark, past, database, asked_again) == at_first


def test_advice_over_archived_days_is_unchanged(
    spark: SparkSession, database: Database, past: pg.connection, archiving: JobArguments, database_url: str
) -> None:
    at_first = report_rows(ADVICE, spark, past, database, asked(ADVICE))
    assert len(at_first) == 4
    assert sum(row["heartbeats"] for row in at_first) > 0
    apply(database_url)
    assert report_rows(ADVICE, spark, past, database, asked(ADVICE, archive=archiving.archive)) == at_first


def test_a_day_that_was_copied_and_not_yet_dropped_is_counted_once(
    spark: SparkSession,
    database: Database,
    past: pg.connection,
    archiving: JobArguments,
    at_first: list[dict[str, Any]],
) -> None:
    assert report_rows(COUNTING, spark, past, database, asked(COUNTING, 2, archiving.archive)) == at_first


def test_a_row_that_came_after_its_day_was_dropped_is_counted_with_it(
    spark: SparkSession, database: Database, past: pg.connection, archiving: JobArguments, database_url: str
) -> None:
    apply(database_url)
    late = Past(END)
    late.session("late", "c", END - 3 * DAY, END - 2 * DAY - GRACE, "session_expired")
    late.store(past)
    found = report_rows(COUNTING, spark, past, database, asked(COUNTING, 2, archiving.archive))
    assert [(row["what"], row["number"]) for row in found if row["group_id"] == "late"] == [("evictions_within", 1)]
    archive_closed_days(spark, database, past, replace(archiving, run_id=NEXT_RUN_ID))
    apply(database_url, NEXT_RUN_ID)
    assert report_rows(COUNTING, spark, past, database, asked(COUNTING, 2, archiving.archive)) == found


LIVES = f"""
INSERT INTO group_transitions (group_id, shard_id, group_created_at, at, generation, from_state, to_state, reason)
SELECT 'mortal-' || n, 7, moment - interval '1 hour', moment, 3, CASE WHEN n % 3 > 0 THEN 'Empty' END,
    CASE WHEN n % 2 = 0 THEN 'Dead' ELSE 'Empty' END, 'test'
FROM generate_series(-2, 20) AS n
CROSS JOIN LATERAL (SELECT timestamptz '{END.isoformat()}' - n * interval '3 hours 7 microseconds' AS moment) AS died
"""  # noqa: S608 - an instant


RELATIONS = (
    rebalances_within(END - 2 * DAY, END),
    rebalances_within(END - DAY, END),
    waits_within(END - 2 * DAY, END),
    evictions_within(END - 2 * DAY, END),
    joins_within(END - 2 * DAY, END + GRACE),
    joins_within(END - 2 * DAY, END - DAY + GRACE),
    joins_within(END - DAY - SILENCE_MAX, END + GRACE),
    sessions_within(END - 2 * DAY, END),
    lifetimes_within(END - 2 * DAY, END),
    evictions_and_exits_within(END - 2 * DAY, END),
    reconnects_within(END - 2 * DAY, END, GRACE),
    missed_waits_within(END - 2 * DAY, END),
    rejoins_within(END - 2 * DAY, END),
    ended_rebalances_within(END - 2 * DAY, END),
    new_member_rebalances_within(END - 2 * DAY, END),
)


def test_relations_have_equal_rows_in_postgres_in_spark_and_from_the_archive(
    spark: SparkSession, database: Database, past: pg.connection, archiving: JobArguments, database_url: str
) -> None:
    """With bounds to the microsecond, and in Spark over the very same rows; all days but the last are then archived."""
    rows(past, "UPDATE groups SET rebalance_started_at = state_since")
    rows(past, LIVES)
    history = History(spark, database, past)
    in_postgres = [history.read(relation, ["*"]) for relation in RELATIONS]
    found = [sorted(map(str, frame.collect())) for frame in in_postgres]
    for relation, frame, expected in zip(RELATIONS, in_postgres, found, strict=True):
        tables = {span.table: history.rows(replace(span, end=None)) for span in relation.periods}
        tables |= {
            name: spark.read.jdbc(database.jdbc_url, name, properties=database.jdbc_properties())
            for name in relation.present
        }
        in_spark = spark.sql(relation.text, None, **tables)
        assert in_spark.columns == frame.columns, relation.name
        assert len(expected) > 5, relation.name
        assert sorted(map(str, in_spark.collect())) == expected, relation.name
    apply(database_url)
    again = History(spark, database, past, archive=archiving.archive)
    for relation, expected in zip(RELATIONS, found, strict=True):
        assert sorted(map(str, again.read(relation, ["*"]).collect())) == expected, relation.name


@pytest.mark.usefixtures("jobs_in_warm_spark")
def test_muster_job_reads_the_archive_of_its_data_directory(
    spark: SparkSession, database: Database, past: pg.connection, database_url: str, tmp_path: Path
) -> None:
    at_first = report_rows(FREQUENCY, spark, past, database, asked(FREQUENCY, 2))
    rows(past, f"TRUNCATE {FREQUENCY.spec.reports[0]}")
    apply(database_url)
    day = f"{(END - 3 * DAY).date()}"
    run_job(FREQUENCY.spec.name, END - 2 * DAY, False, load_settings(database_url=database_url, data_dir=tmp_path), day)
    found = table_rows(past, FREQUENCY.spec.reports[0], "run_id")
    assert found == [{name: value for name, value in row.items() if name != "run_id"} for row in at_first]


# -- unreadable days ------------------------------------------------------------------------------------------


def test_archived_days_without_archive_are_rejected_and_reports_kept(
    spark: SparkSession,
    database: Database,
    past: pg.connection,
    database_url: str,
    at_first: list[dict[str, Any]],
) -> None:
    assert report_rows(COUNTING, spark, past, database, asked(COUNTING, 2)) == at_first
    apply(database_url)
    with pytest.raises(JobError) as refusal:
        report(COUNTING, spark, database, past, asked(COUNTING, 2))
    why = f"History of rebalances of {(END - 3 * DAY).date()} to {(END - 2 * DAY).date()} is only in the archive"
    assert str(refusal.value) == f"{why}: set MUSTER_ARCHIVE_URI."
    assert table_rows(past, COUNTING.spec.reports[0]) == at_first


def test_moved_archive_is_read_from_its_new_path(
    spark: SparkSession,
    database: Database,
    past: pg.connection,
    database_url: str,
    tmp_path: Path,
    at_first: list[dict[str, Any]],
) -> None:
    apply(database_url)
    shutil.move(tmp_path / "archive", tmp_path / "moved")
    assert report_rows(COUNTING, spark, past, database, asked(COUNTING, 2, f"file://{tmp_path}/moved/")) == at_first
    with pytest.raises(JobError, match=r"files are not at file:.*/archive/.*, nor at file:///nowhere/.*; set"):
        report(COUNTING, spark, database, past, asked(COUNTING, 2, "file:///nowhere"))


def test_files_that_lack_rows_are_refused(
    spark: SparkSession,
    database: Database,
    past: pg.connection,
    archiving: JobArguments,
    database_url: str,
    tmp_path: Path,
) -> None:
    apply(database_url)
    day = (END - 3 * DAY).date()
    for file in (tmp_path / "archive" / "rebalances" / f"day={day}").glob("*/*.parquet"):
        file.unlink()
    with pytest.raises(
        JobError,
        match=r"^History of rebalances of .* is in the archive, and its files have \d+ rows where \d+ were.*; restore",
    ):
        report(COUNTING, spark, database, past, asked(COUNTING, 2, archiving.archive))
    for file in (tmp_path / "archive" / "rebalances" / f"day={day}").glob("*/_SUCCESS"):
        (file.parent / "part.parquet").write_bytes(b"no such thing")
    with pytest.raises(JobError, match=r"^History of rebalances of .* is in the archive and cannot be read; set"):
        report(COUNTING, spark, database, past, asked(COUNTING, 2, archiving.archive))


# -- days that move meanwhile ---------------------------------------------------------------------------------


def test_days_dropped_during_a_report_are_read_again(
    spark: SparkSession,
    database: Database,
    past: pg.connection,
    archiving: JobArguments,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    at_first: list[dict[str, Any]],
) -> None:
    write, calls = write_staging, []

    def drop_and_write(*given: Any) -> None:  # noqa: ANN401 - as the original
        calls.append(given)
        if len(calls) == 1:
            apply(database_url)
        write(*given)

    monkeypatch.setattr(report_job, "write_staging", drop_and_write)
    assert report_rows(COUNTING, spark, past, database, asked(COUNTING, 2, archiving.archive)) == at_first
    assert len(calls) == 2
    assert table_rows(past, f"{COUNTING.spec.reports[0]}_staging") == []


def test_report_gives_up_when_days_keep_moving(
    spark: SparkSession,
    database: Database,
    past: pg.connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(History, "has_moved", lambda _: True)
    with pytest.raises(JobError, match="during each of 3 reads; run it again when history_archive"):
        report(COUNTING, spark, database, past, asked(COUNTING))
    assert table_rows(past, COUNTING.spec.reports[0]) == []


def test_table_without_daily_partitions_is_rejected(
    spark: SparkSession, database: Database, past: pg.connection
) -> None:
    with pytest.raises(JobError, match=r"There is no history table offsets; choose .* or rebalances"):
        History(spark, database, past).rows(TablePeriod("offsets", END))
