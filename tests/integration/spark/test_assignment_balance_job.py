"""Tests of assignment_balance_audit against a real Postgres."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2.extensions as pg
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.jobs.assignment_balance_audit import JOB
from spark_jobs.report_job import ReportArguments, report
from spark_jobs.submit import default_options
from tests.integration.spark.archive.old_days import NEXT_RUN_ID, apply
from tests.support.stored_history import BORN, DAY, GROUP, SHARD, at, group, insert, member, rebalance, rows, table_rows

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
ONE_DAY, ONE_MS = timedelta(days=1), timedelta(milliseconds=1)
AUDITS, TOPICS = "assignment_balance_audits", "assignment_balance_topics"
ARGUMENTS = ReportArguments(
    RUN_ID, at(1), at(0), at(1), is_dry_run=False, read_partitions=3, options=default_options(JOB.spec.name)
)


def audited(connection: pg.connection, *columns: str, table: str = AUDITS) -> dict[str, tuple[Any, ...]]:
    """Return columns of the newest rows, by group or topic."""
    key = "group_id" if table == AUDITS else "topic"
    return {row[key]: tuple(row[column] for column in columns) for row in table_rows(connection, table)}


def instant_of(connection: pg.connection) -> datetime:
    """Return as of when all rows of the one audit are."""
    ((as_of,),) = rows(connection, f"SELECT as_of FROM {AUDITS} UNION SELECT as_of FROM {TOPICS}")  # noqa: S608 - ours
    assert isinstance(as_of, datetime)
    return as_of


def topic(name: str, partitions: int) -> dict[str, Any]:
    return {"topic": name, "partitions": partitions}


def committed(partition: int, offset: int, end: int | None, group_id: str = GROUP) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "shard_id": SHARD,
        "topic": "clicks",
        "partition": partition,
        "committed_offset": offset,
        "log_end_offset": end,
        "committed_at": DAY,
    }


def lost(member_id: str, partitions: list[int], valid_to_s: float) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "shard_id": SHARD,
        "group_created_at": BORN,
        "rebalance_id": RUN_ID,
        "generation": 3,
        "member_id": member_id,
        "topic": "clicks",
        "partitions": partitions,
        "valid_from": BORN,
        "valid_to": at(0, valid_to_s),
    }


def uneven_group(connection: pg.connection) -> None:
    """Store a group: "b" was assigned one partition of the former member "gone" and one without owner; "c" has none."""
    insert(connection, "topics", topic("clicks", 7))
    insert(connection, "groups", group())
    kept, given = dict.fromkeys(range(4), 4), dict.fromkeys((4, 5), 5)
    insert(connection, "members", member("a", ["clicks"], {"clicks": kept}))
    insert(connection, "members", member("b", ["clicks"], {"clicks": given}), member("c", ["clicks"], {}))
    insert(connection, "offsets", committed(0, 5, 9), committed(4, 5, 5), committed(5, 9, 8), committed(1, 3, None))
    insert(connection, "rebalances", rebalance(at(0, -300), generation=4), rebalance(at(0, 10), took_s=10))
    insert(
        connection, "partition_ownership", lost("gone", [5, 6], 12), lost("before", [0, 4], -350), lost("b", [5], 25)
    )


def test_a_group_is_audited_as_a_whole_and_topic_by_topic(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    uneven_group(connection)
    began_at = datetime.now(UTC)
    assert report(JOB, spark, database, connection, ARGUMENTS) == [1, 1]
    as_of = instant_of(connection)
    assert began_at - ONE_MS <= as_of <= datetime.now(UTC)
    spread = {
        "interval_start": at(0),
        "interval_end": at(1),
        "group_id": GROUP,
        "shard_id": SHARD,
        "run_id": RUN_ID,
        "as_of": as_of,
        "members": 3,
        "idle_members": 1,
        "partitions": 7,
        "unassigned": 1,
        "partitions_max": 4,
        "partitions_mean": 2.0,
        "lag_max": 4,
        "lag_mean": 4 / 3,
        "best_partitions_max": 3,
        "misplaced": 2,
        "has_better": True,
        "score": 71,
        "moved": 1,
    }
    assert table_rows(connection, AUDITS) == [
        {**spread, "moves_needed": 3, "generation": 5, "topics": 1, "score_before": None, "trend": "first"}
    ]
    assert table_rows(connection, TOPICS) == [{**spread, "moves_needed": 2, "topic": "clicks"}]
    for table in (AUDITS, TOPICS):
        assert rows(connection, f"SELECT * FROM {table}_staging") == []  # noqa: S608 - tables of ours


def test_unreadable_rows_exclude_only_their_group_from_the_audit(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    uneven_group(connection)
    held = {"clicks": {0: 5}}
    spoilt: dict[str, dict[str, object]] = {
        "ownership": {"ownership": [{"topic": "clicks"}]},
        "assignment": {"assignment": [{"topic": "clicks"}]},
        "subscription": {"subscription": {"topics": "clicks"}},
    }
    for group_id, columns in spoilt.items():
        insert(connection, "groups", group(group_id))
        insert(connection, "members", {**member("a", ["clicks"], held, group_id=group_id), **columns})
    assert report(JOB, spark, database, connection, ARGUMENTS) == [1, 1]
    assert audited(connection, "members") == {GROUP: (3,)}


@pytest.mark.parametrize(("first", "last", "moved"), [("gone", "b", 0), ("b", "gone", 1)])
def test_last_of_several_former_owners_is_the_previous_owner(
    spark: SparkSession, database: Database, connection: pg.connection, first: str, last: str, moved: int
) -> None:
    insert(connection, "topics", topic("clicks", 1))
    insert(connection, "groups", group())
    insert(connection, "members", member("b", ["clicks"], {"clicks": {0: 5}}))
    insert(
        connection, "rebalances", rebalance(at(0, -300), generation=4), rebalance(at(0, 10), generation=5, took_s=10)
    )
    insert(connection, "partition_ownership", lost(last, [0], 12), lost(first, [0], 5))
    report(JOB, spark, database, connection, ARGUMENTS)
    assert audited(connection, "moved") == {GROUP: (moved,)}


def test_what_a_member_gave_up_with_the_previous_generation_moves_to_its_next_owner(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    """As with cooperative assignors: partition 0 has no owner in generation 4, and partition 1 is handed over in it."""
    insert(connection, "topics", topic("clicks", 4))
    insert(connection, "groups", group())
    insert(connection, "members", member("a", ["clicks"], {"clicks": {2: 3, 3: 3}}))
    insert(connection, "members", member("b", ["clicks"], {"clicks": {0: 5, 1: 4}}))
    insert(connection, "rebalances", rebalance(at(), generation=4, took_s=5), rebalance(at(0, 10), generation=5))
    insert(connection, "partition_ownership", lost("a", [0, 1], 5))
    report(JOB, spark, database, connection, ARGUMENTS)
    assert audited(connection, "moved", "moves_needed") == {GROUP: (1, 1)}


def test_groups_that_are_not_stable_or_cannot_be_read_are_not_audited(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    insert(connection, "topics", topic("t", 2))
    insert(
        connection, "groups", group("fine"), group("empty", state="Empty"), group("connect", protocol_type="connect")
    )
    insert(connection, "groups", group("unreadable"), group("preparing", state="PreparingRebalance"))
    for group_id in ("fine", "connect", "preparing"):
        insert(connection, "members", member("a", ["t"], {"t": {0: 1, 1: 1}}, group_id=group_id))
    insert(connection, "members", member("a", ["t"], {}, group_id="unreadable", subscription=None))
    report(JOB, spark, database, connection, ARGUMENTS)
    assert audited(connection, "score", "lag_max", "moved") == {"fine": (100, None, 0)}


def test_an_uneven_group_for_which_nothing_better_exists_scores_100(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    insert(connection, "topics", topic("large", 9), topic("small", 1))
    insert(connection, "groups", group())
    insert(connection, "members", member("reads both", ["large", "small"], {"large": dict.fromkeys(range(9), 5)}))
    insert(connection, "members", member("reads one", ["small"], {"small": {0: 5}}))
    report(JOB, spark, database, connection, ARGUMENTS)
    assert audited(connection, "partitions_max", "has_better", "score") == {GROUP: (9, False, 100)}
    assert audited(connection, "idle_members", "score", table=TOPICS) == {"large": (0, 100), "small": (1, 100)}


def test_an_audit_is_compared_with_the_one_before_and_a_re_run_replaces_it(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    uneven_group(connection)
    report(JOB, spark, database, connection, ARGUMENTS)
    rows(connection, "UPDATE members SET assignment = '[]' WHERE member_id = 'b'")
    later = replace(ARGUMENTS, interval_start=at(1), interval_end=at(2), as_of=at(2) + timedelta(seconds=1))
    for _ in range(2):
        report(JOB, spark, database, connection, later)
    scores = [
        (row["interval_end"], row["score"], row["score_before"], row["trend"]) for row in table_rows(connection, AUDITS)
    ]
    assert sorted(scores) == [(at(1), 71, None, "first"), (at(2), 42, 71, "worse")]


def test_an_audit_is_not_compared_with_that_of_a_deleted_group_of_the_same_name(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    uneven_group(connection)
    report(JOB, spark, database, connection, ARGUMENTS)
    rows(connection, "UPDATE groups SET created_at = now()")
    report(JOB, spark, database, connection, replace(ARGUMENTS, interval_start=at(1), interval_end=at(2)))
    found = [(row["interval_end"], row["score_before"], row["trend"]) for row in table_rows(connection, AUDITS)]
    assert sorted(found) == [(at(1), None, "first"), (at(2), None, "first")]


def test_an_audit_describes_one_instant_whatever_is_stored_while_it_reads(
    spark: SparkSession, database: Database, connection: pg.connection
) -> None:
    uneven_group(connection)

    def find(history: History, arguments: ReportArguments) -> Sequence[DataFrame]:
        """Rebalance the group, and commit, before Spark reads the rows."""
        frames = JOB.find(history, arguments)
        rows(connection, "UPDATE members SET assignment = '[]' WHERE member_id = 'b'")
        rows(connection, "UPDATE offsets SET committed_offset = 9")
        rows(connection, "DELETE FROM partition_ownership")
        return frames

    report(replace(JOB, find=find), spark, database, connection, ARGUMENTS)
    assert audited(connection, "unassigned", "lag_max", "moved") == {GROUP: (1, 4, 1)}


@pytest.mark.slow
def test_long_stable_group_is_audited_alike_after_its_history_is_archived(
    spark: SparkSession, database: Database, connection: pg.connection, database_url: str, tmp_path: Path
) -> None:
    """The day of the generation before goes to the archive first, and then that of the present one."""
    uneven_group(connection)
    insert(connection, "rebalances", rebalance(at(0, -400), generation=4, group_id="gone", outcome="emptied"))
    report(JOB, spark, database, connection, ARGUMENTS)
    before = table_rows(connection, AUDITS, "as_of"), table_rows(connection, TOPICS, "as_of")
    assert [row["moved"] for row in before[0]] == [1]
    archive = f"file://{tmp_path}/archive"
    for run_id, days in ((RUN_ID, 1), (NEXT_RUN_ID, 2)):
        proposal = JobArguments(run_id, DAY + days * ONE_DAY, None, None, -1, False, 2, keep_days=1, archive=archive)
        archive_closed_days(spark, database, connection, proposal)
        apply(database_url, run_id)
        report(JOB, spark, database, connection, replace(ARGUMENTS, archive=archive))
        assert (table_rows(connection, AUDITS, "as_of"), table_rows(connection, TOPICS, "as_of")) == before
    assert rows(connection, "SELECT FROM rebalances UNION ALL SELECT FROM partition_ownership") == []
    with pytest.raises(JobError, match="is only in the archive: set MUSTER_ARCHIVE_URI"):
        report(JOB, spark, database, connection, ARGUMENTS)


def test_the_role_for_jobs_is_enough(spark: SparkSession, database: Database, connection: pg.connection) -> None:
    uneven_group(connection)
    rows(connection, "CREATE ROLE jobs_auditing LOGIN PASSWORD 'p@ss/word' IN ROLE muster_jobs")
    as_jobs = replace(database, user="jobs_auditing", password="p@ss/word")
    with closing(as_jobs.connect()) as own:
        report(JOB, spark, as_jobs, own, ARGUMENTS)
    rows(connection, "DROP ROLE jobs_auditing")
    assert audited(connection, "members") == {GROUP: (3,)}
