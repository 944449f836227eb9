"""Tests of group_cleanup: only Empty groups without offsets are proposed."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import product

import psycopg2.extensions as pg
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.testing import assertDataFrameEqual

from coordinator_core.protocol.retention import is_unused
from coordinator_core.protocol.states import GroupState
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.jobs.group_cleanup import JOB
from spark_jobs.proposal_job import propose
from spark_jobs.rules import retention
from spark_jobs.transforms.group_cleanup import cleanup_candidates
from tests.integration.spark.live_groups import add_group, add_offset, rows
from tests.integration.spark.rows import JUST_NOW, NOW, frame

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
ARGUMENTS = JobArguments(RUN_ID, NOW, None, None, -1, is_dry_run=False, read_partitions=3)

GROUPS = "group_id string, shard_id smallint, generation int, state string, state_since timestamp, has_offsets boolean"
CANDIDATES = "group_id string, shard_id smallint, generation int, state_since timestamp, reason string"


def group(group_id: str, **columns: object) -> Row:
    given = {"shard_id": 1, "generation": 3, "state": "Empty", "state_since": JUST_NOW, "has_offsets": False, **columns}
    return Row(group_id=group_id, **given)


# -- the rule -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", GroupState)
def test_only_empty_groups_without_offsets_are_selected(state: GroupState) -> None:
    assert is_unused(state, has_offsets=False) == (state is GroupState.EMPTY)
    assert not is_unused(state, has_offsets=True)


def test_column_expressions_equal_the_pure_rule(spark: SparkSession) -> None:
    cases = [*product(GroupState, (False, True))]
    facts = spark.createDataFrame([(str(state), has) for state, has in cases], "state string, has_offsets boolean")
    answers = facts.select(retention.is_unused(sf.col("state"), sf.col("has_offsets")).alias("answer")).collect()
    assert [row.answer for row in answers] == [is_unused(state, has_offsets=has) for state, has in cases]


# -- the transform --------------------------------------------------------------------------------------------


def test_candidate_records_the_state_seen(spark: SparkSession) -> None:
    groups = [group("old", generation=7, shard_id=9), group("kept", has_offsets=True), group("live", state="Stable")]
    expected = Row(group_id="old", shard_id=9, generation=7, state_since=JUST_NOW, reason="empty_without_offsets")
    assertDataFrameEqual(cleanup_candidates(frame(spark, GROUPS, groups)), frame(spark, CANDIDATES, [expected]))


def test_no_groups_lead_to_no_candidates(spark: SparkSession) -> None:
    assertDataFrameEqual(cleanup_candidates(frame(spark, GROUPS, [])), frame(spark, CANDIDATES, []))


# -- the job --------------------------------------------------------------------------------------------------


@pytest.fixture
def populated(database: Database) -> Iterator[pg.connection]:
    with closing(database.connect()) as connection:
        add_group(connection, "nothing left", 0, "1 minute")
        add_group(connection, "never joined", 49, "1 day", protocol_type=None)
        add_group(connection, "has offsets", 17, "30 days")
        add_offset(connection, "has offsets", 17, "30 days")
        add_group(connection, "live", 17, "30 days", state="Stable", topics=["orders"])
        add_group(connection, "preparing", 33, "1 day", state="PreparingRebalance")
        yield connection


def test_only_empty_groups_without_offsets_are_proposed_by_the_role_for_jobs(
    spark: SparkSession, as_jobs_role: Database, populated: pg.connection
) -> None:
    with closing(as_jobs_role.connect()) as own:
        published = propose(JOB, spark, as_jobs_role, own, ARGUMENTS)
    assert published.counts == {"candidates": 2, "of": 5, "groups": 2, "empty_without_offsets": 2}
    found = "SELECT group_id, shard_id, generation, %(now)s - state_since, outcome FROM cleanup_candidates"
    assert rows(populated, f"{found} ORDER BY group_id") == [
        ("never joined", 49, 4, timedelta(days=1), None),
        ("nothing left", 0, 4, timedelta(minutes=1), None),
    ]
    assert rows(populated, "SELECT kind, status FROM maintenance_runs") == [("group_cleanup", "proposed")]
    assert rows(populated, "SELECT * FROM cleanup_candidates_staging") == []


def test_second_run_counts_current_candidates(
    spark: SparkSession, database: Database, populated: pg.connection
) -> None:
    propose(JOB, spark, database, populated, ARGUMENTS)
    add_offset(populated, "nothing left", 0, "1 minute")
    published = propose(JOB, spark, database, populated, replace(ARGUMENTS, is_dry_run=True))
    assert published.counts["candidates"] == 1
    assert rows(populated, "SELECT group_id FROM cleanup_candidates") == [("never joined",)]
