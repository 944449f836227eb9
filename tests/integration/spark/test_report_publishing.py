"""Tests of publishing a report: an interval's rows are replaced as a whole, also concurrently."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2.extensions as pg
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from spark_jobs.database import Database
from spark_jobs.publish import ReportTable, new_attempt_id
from spark_jobs.report_job import ReportArguments, replace_interval
from tests.support.waiting import in_background, wait_until_blocked

TABLES = (ReportTable("reported", ("group_id",)),)
END = datetime(2026, 11, 21, tzinfo=UTC)
ARGUMENTS = ReportArguments(
    *("0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d", END, END - timedelta(days=1), END),
    is_dry_run=False,
    read_partitions=1,
    options={"report_days": 1},
)
SLOW = 4
MAKE = f"""
CREATE TABLE reported (
    interval_start timestamptz, interval_end timestamptz, run_id uuid, as_of timestamptz, group_id text,
    PRIMARY KEY (interval_end, interval_start, group_id)
);
CREATE TABLE reported_staging (attempt_id uuid, group_id text);
CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock({SLOW}); RETURN new; END';
CREATE TRIGGER slow BEFORE INSERT ON reported FOR EACH ROW WHEN (new.group_id LIKE 'slow%') EXECUTE FUNCTION be_slow();
"""


@pytest.fixture
def connection(connection: pg.connection) -> pg.connection:
    """Return a connection to a database with one report of the tests' own."""
    with connection, connection.cursor() as cursor:
        cursor.execute(MAKE)
    return connection


@pytest.fixture
def other(database: Database) -> Iterator[pg.connection]:
    with closing(database.connect()) as other:
        yield other


def staged(connection: pg.connection, *group_ids: str) -> str:
    attempt_id = new_attempt_id(0)
    with connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO reported_staging VALUES (%s, %s)", [(attempt_id, each) for each in group_ids])
    return attempt_id


def report_rows(connection: pg.connection) -> list[Any]:
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT group_id FROM reported ORDER BY group_id")
        return [group_id for (group_id,) in cursor.fetchall()]


def test_later_report_of_an_interval_replaces_the_earlier(
    connection: pg.connection, other: pg.connection, sql_connection: PsycopgConnection
) -> None:
    slow, quick = staged(connection, "slow one", "both"), staged(connection, "both", "quick one")
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", (SLOW,))
    unlock_query = "SELECT pg_advisory_unlock_all()"
    with in_background(
        lambda: replace_interval(connection, TABLES, ARGUMENTS, slow),
        lambda: sql_connection.cursor().execute(unlock_query),
    ) as first:
        wait_until_blocked(sql_connection, "muster-jobs", call=first)
        with in_background(
            lambda: replace_interval(other, TABLES, ARGUMENTS, quick),
            lambda: sql_connection.cursor().execute(unlock_query),
        ) as second:
            wait_until_blocked(sql_connection, "muster-jobs", 2, call=second)
    assert (first.result(), second.result()) == ([2], [2])
    assert report_rows(connection) == ["both", "quick one"]


def publish(connection: pg.connection, end: datetime, *group_ids: str, is_dry_run: bool = False) -> list[int]:
    """Publish rows for a day that ends then."""
    arguments = replace(ARGUMENTS, interval_start=end - timedelta(days=1), interval_end=end, is_dry_run=is_dry_run)
    return replace_interval(connection, TABLES, arguments, staged(connection, *group_ids))


def test_second_report_replaces_only_its_interval(connection: pg.connection) -> None:
    publish(connection, END, "first", "gone")
    publish(connection, END + timedelta(days=1), "next day")
    assert publish(connection, END, "first", "second") == [2]
    assert report_rows(connection) == ["first", "next day", "second"]


def test_dry_run_counts_and_changes_nothing(connection: pg.connection) -> None:
    publish(connection, END, "first")
    assert publish(connection, END, "second", "third", is_dry_run=True) == [2]
    assert report_rows(connection) == ["first"]


def test_rows_are_kept_for_days_that_are_counted_from_the_end_of_the_interval(connection: pg.connection) -> None:
    for number in range(3):
        publish(connection, END - timedelta(days=99 - number), f"day {number}")
    assert report_rows(connection) == ["day 1", "day 2"]


def test_rows_are_kept_for_days_that_are_counted_from_now_if_the_interval_ends_later(connection: pg.connection) -> None:
    now = datetime.now(UTC)
    for name, end in (
        ("old", now - timedelta(days=2)),
        ("new", now - timedelta(hours=1)),
        ("far", now + timedelta(days=99)),
    ):
        arguments = replace(ARGUMENTS, interval_start=end - timedelta(minutes=1), interval_end=end)
        replace_interval(connection, TABLES, arguments, staged(connection, name))
    assert report_rows(connection) == ["far", "new"]
