"""Tests of offset_retention against a real Postgres: parallel reads by shard, one complete proposal."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg2.extensions as pg
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes without types
from pyspark.sql import SparkSession

from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database, parse_url
from spark_jobs.jdbc import shard_predicates
from spark_jobs.jobs.offset_retention import JOB, find, find_due
from spark_jobs.proposal_job import Reading, describe, propose
from spark_jobs.publish import Published
from spark_jobs.relations import offsets_that_can_be_due
from tests.integration.spark.live_groups import add_group, add_offset, rows
from tests.integration.spark.rows import NOW, RETENTION_MS
from tests.support.databases import Databases

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
ARGUMENTS = JobArguments(RUN_ID, NOW, None, None, RETENTION_MS, is_dry_run=False, read_partitions=3)


def populate(connection: pg.connection) -> None:
    """Insert a group of each kind that the rule distinguishes, on the first, the last and a middle shard."""
    add_offset(connection, "simple/ünïcode 'quoted'", 0, "30 days")
    add_offset(connection, "simple/ünïcode 'quoted'", 0, "1 day", partition=1)
    add_group(connection, "long-empty", 49, "30 days")
    add_offset(connection, "long-empty", 49, "1 minute")
    add_group(connection, "just-emptied", 16, "1 minute")
    add_offset(connection, "just-emptied", 16, "30 days")
    add_group(connection, "live", 17, "30 days", state="Stable", topics=["orders"])
    add_offset(connection, "live", 17, "30 days")
    add_group(connection, "moved-on", 33, "1 minute", state="Stable", topics=["payments"])
    add_offset(connection, "moved-on", 33, "30 days")
    add_group(connection, "unreadable", 33, "30 days", state="Stable", topics=None)
    add_offset(connection, "unreadable", 33, "30 days")


@pytest.fixture
def populated(connection: pg.connection) -> pg.connection:
    populate(connection)
    return connection


DUE = [
    ("long-empty", 0, "group_empty", 4),
    ("moved-on", 0, "topic_unsubscribed", 4),
    ("simple/ünïcode 'quoted'", 0, "simple_group", None),
]


def proposed(connection: pg.connection) -> list[tuple[Any, ...]]:
    return rows(
        connection,
        "SELECT group_id, partition, reason, generation FROM expiry_candidates JOIN offsets USING (group_id, shard_id,"
        ' topic, partition, commit_version, committed_at) ORDER BY group_id COLLATE "C", partition',
    )


LIVE = "SELECT o.*, g.* FROM offsets o FULL JOIN groups g USING (group_id) ORDER BY o.group_id, o.partition"


class Proposed(NamedTuple):
    """Two proposals of one run, the live rows before them, and a connection that shows what they wrote."""

    first: Published
    second: Published
    live: list[tuple[Any, ...]]
    connection: pg.connection


@pytest.fixture(scope="module")
def twice(databases: Databases, spark: SparkSession) -> Iterator[Proposed]:
    """Propose twice as the role for jobs."""
    url = databases.create()
    as_jobs = parse_url(databases.jobs_url(url))
    with closing(parse_url(url).connect()) as connection, closing(as_jobs.connect()) as own:
        populate(connection)
        live = rows(connection, LIVE)
        first, second = (propose(JOB, spark, as_jobs, own, ARGUMENTS) for _ in range(2))
        yield Proposed(first, second, live, connection)
    databases.drop(url)


def test_only_due_offsets_are_proposed(twice: Proposed) -> None:
    assert proposed(twice.connection) == DUE
    assert twice.first.counts == {
        "candidates": 3,
        "of": 7,
        "groups": 3,
        "largest_group": 1,
        "largest_group_permille": 0,
        "group_empty": 1,
        "simple_group": 1,
        "topic_unsubscribed": 1,
    }
    assert rows(twice.connection, "SELECT as_of, status FROM maintenance_runs") == [(NOW, "proposed")]
    assert rows(twice.connection, "SELECT * FROM expiry_candidates_staging") == []


def test_a_second_run_proposes_the_same_again(twice: Proposed) -> None:
    assert twice.second == twice.first


def test_nothing_live_is_changed(twice: Proposed) -> None:
    assert rows(twice.connection, LIVE) == twice.live


def test_an_offset_is_read_without_the_other_topics_of_its_group(populated: pg.connection) -> None:
    """Some groups subscribe to thousands, and each of Spark's fetches takes ten thousand offsets into memory."""
    add_group(populated, "some", 1, "1 minute", state="Stable", topics=[f"topic-{number}" for number in range(1_000)])
    add_offset(populated, "some", 1, "30 days")
    relation = offsets_that_can_be_due(ARGUMENTS.now_ms, RETENTION_MS)
    found = dict(rows(populated, f"SELECT group_id, subscribed_topics FROM {relation}"))  # noqa: S608 - ours
    assert (found["some"], found["moved-on"], found["simple/ünïcode 'quoted'"]) == ([], [], None)


def test_settings_in_the_database_are_narrower_than_the_argument(
    spark: SparkSession, database: Database, populated: pg.connection
) -> None:
    rows(populated, "INSERT INTO cluster_configs VALUES ('offsets_retention_minutes', '-1', 'test', now())")
    rows(populated, "INSERT INTO group_configs VALUES ('long-empty', 'offsets_retention_minutes', '1', 'test', now())")
    propose(JOB, spark, database, populated, ARGUMENTS)
    assert proposed(populated) == [("long-empty", 0, "group_empty", 4)]


def test_a_database_without_groups_gets_an_empty_proposal(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    counts = propose(JOB, spark, database, connection, ARGUMENTS).counts
    assert set(counts.values()) == {0}


def test_failed_attempt_leaves_no_rows(spark: SparkSession, database: Database, populated: pg.connection) -> None:
    rows(populated, "ALTER TABLE expiry_candidates_staging ADD CONSTRAINT one_of_them CHECK (group_id <> 'long-empty')")
    with pytest.raises(Py4JJavaError):
        propose(JOB, spark, database, populated, ARGUMENTS)
    assert rows(populated, "SELECT * FROM maintenance_runs") == []
    assert rows(populated, "SELECT * FROM expiry_candidates_staging") == []


def test_run_being_applied_is_kept_and_reported(
    spark: SparkSession, database: Database, populated: pg.connection
) -> None:
    propose(JOB, spark, database, populated, replace(ARGUMENTS, retention_ms=RETENTION_MS * 5))
    rows(populated, "UPDATE maintenance_runs SET status = 'applying'")
    published = propose(JOB, spark, database, populated, ARGUMENTS)
    assert proposed(populated) == []
    assert describe("offset_retention", RUN_ID, published).endswith("is applying already; nothing was changed.")


def test_last_line_reports_the_proposal() -> None:
    line = describe("offset_retention", RUN_ID, Published("proposed", {"candidates": 2, "groups": 1}, is_replaced=True))
    assert line == f"offset_retention: proposed run {RUN_ID}: candidates 2, groups 1."


# -- what is read ---------------------------------------------------------------------------------------------


def groups_read(connection: pg.connection, until: datetime, least_retention: timedelta | None) -> list[str]:
    """Return the groups of the rows that leave Postgres."""
    least_ms = None if least_retention is None else least_retention // timedelta(milliseconds=1)
    relation = offsets_that_can_be_due(int(until.timestamp() * 1000), least_ms)
    return [group_id for (group_id,) in rows(connection, f"SELECT group_id FROM {relation} ORDER BY group_id")]  # noqa: S608


def test_subscribed_offsets_are_not_read_by_spark(populated: pg.connection) -> None:
    simple = "simple/ünïcode 'quoted'"
    everything = ["just-emptied", "long-empty", "moved-on", simple, simple]
    assert groups_read(populated, NOW, timedelta(0)) == everything


def test_offsets_younger_than_any_retention_are_not_read_by_spark(populated: pg.connection) -> None:
    simple = "simple/ünïcode 'quoted'"
    assert groups_read(populated, NOW, timedelta(days=2)) == ["just-emptied", "long-empty", "moved-on", simple]
    assert groups_read(populated, NOW, timedelta(days=30)) == ["just-emptied", "long-empty", "moved-on", simple]
    assert groups_read(populated, NOW, timedelta(days=30, milliseconds=1)) == []
    assert groups_read(populated, NOW, timedelta(days=10**5)) == []


def test_only_offsets_with_own_expiry_are_read_if_retention_is_unlimited(populated: pg.connection) -> None:
    rows(populated, "UPDATE offsets SET expires_at = %(now)s::timestamptz WHERE group_id IN ('just-emptied', 'live')")
    assert groups_read(populated, NOW, None) == ["just-emptied"]
    assert groups_read(populated, NOW - timedelta(milliseconds=1), None) == []


def test_the_offsets_are_read_in_parallel_and_narrowed_by_postgres(
    spark: SparkSession, database: Database, populated: pg.connection
) -> None:
    due = find_due(Reading(spark, database, populated, shard_predicates(50, 3)), ARGUMENTS)
    plan = str(due._jdf.queryExecution().simpleString())
    (scan,) = (line for line in plan.splitlines() if "offsets_that_can_be_due" in line)
    assert "numPartitions=3" in scan
    assert {"group_id", "topic", "due_at_ms"} <= set(due.columns)


def test_proposal_and_forecast_share_one_query(
    spark: SparkSession, database: Database, populated: pg.connection
) -> None:
    found = find(Reading(spark, database, populated, shard_predicates(50, 3)), ARGUMENTS)
    assert found.report is not None
    assert found.candidates.count() == len(DUE)
    rows(populated, "DELETE FROM offsets")
    assert found.report.count() == 2


def test_the_forecast_is_kept_beside_the_proposal(
    twice: Proposed,
) -> None:
    found = "SELECT group_id, within_a_day, within_a_week, %(now)s - next_expiry_at, run_id::text FROM"
    in_six_days, in_a_week = timedelta(days=-6), timedelta(days=-7, minutes=1)
    assert rows(twice.connection, f"{found} offset_expiry_forecasts ORDER BY group_id") == [
        ("just-emptied", 0, 1, in_a_week, RUN_ID),
        ("simple/ünïcode 'quoted'", 0, 1, in_six_days, RUN_ID),
    ]
    assert rows(twice.connection, "SELECT * FROM offset_expiry_forecasts_staging") == []
