"""Tests of assignment_balance_audit against a real Postgres."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2.extensions as pg
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments
from spark_jobs.database import Database, parse_url
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.jobs.assignment_balance_audit import JOB
from spark_jobs.report_job import ReportArguments, report
from spark_jobs.submit import default_options
from tests.integration.spark.archive.old_days import NEXT_RUN_ID, apply
from tests.support.databases import Databases
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


def lost(member_id: str, partitions: list[int], valid_to_s: float, **columns: object) -> dict[str, Any]:
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
        **columns,
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


# -- one audit of many groups ---------------------------------------------------------------------------------


class Audit(NamedTuple):
    """What an audit has returned, when it ran, and a connection that shows its rows."""

    counts: list[int]
    began_at: datetime
    ended_at: datetime
    connection: pg.connection


@pytest.fixture(scope="module")
def audit(databases: Databases, spark: SparkSession) -> Iterator[Audit]:
    """Audit groups as the role for jobs; tests have groups and topics of their own."""
    url = databases.create()
    as_jobs = parse_url(databases.jobs_url(url))
    with closing(parse_url(url).connect()) as connection, closing(as_jobs.connect()) as own:
        for store in STORED:
            store(connection)
        began_at = datetime.now(UTC)
        counts = report(JOB, spark, as_jobs, own, ARGUMENTS)
        yield Audit(counts, began_at, datetime.now(UTC), connection)
    databases.drop(url)


def test_a_group_is_audited_as_a_whole_and_topic_by_topic(audit: Audit) -> None:
    as_of = {row["as_of"] for table in (AUDITS, TOPICS) for row in table_rows(audit.connection, table)}
    assert len(as_of) == 1
    assert audit.began_at - ONE_MS <= max(as_of) <= audit.ended_at
    spread = {
        "interval_start": at(0),
        "interval_end": at(1),
        "group_id": GROUP,
        "shard_id": SHARD,
        "run_id": RUN_ID,
        "as_of": max(as_of),
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
    audits, topics = (table_rows(audit.connection, table) for table in (AUDITS, TOPICS))
    assert audit.counts == [len(audits), len(topics)]
    assert [row for row in audits if row["group_id"] == GROUP] == [
        {**spread, "moves_needed": 3, "generation": 5, "topics": 1, "score_before": None, "trend": "first"}
    ]
    assert [row for row in topics if row["group_id"] == GROUP] == [{**spread, "moves_needed": 2, "topic": "clicks"}]
    for table in (AUDITS, TOPICS):
        assert rows(audit.connection, f"SELECT * FROM {table}_staging") == []  # noqa: S608 - tables of ours


SPOILT: dict[str, dict[str, object]] = {
    "ownership": {"ownership": [{"topic": "clicks"}]},
    "assignment": {"assignment": [{"topic": "clicks"}]},
    "subscription": {"subscription": {"topics": "clicks"}},
    "subscribed topic": {"subscription": {"topics": ["clicks", 7]}},
    "assigned partition": {"assignment": [{"topic": "clicks", "partitions": [0, {}]}]},
    "owned partition": {"ownership": [{"topic": "clicks", "partitions": [[]], "generation": 1}]},
}
"""Groups, and a column of their member that cannot be parsed."""


def store_spoilt_groups(connection: pg.connection) -> None:
    for group_id, columns in SPOILT.items():
        insert(connection, "groups", group(group_id))
        insert(connection, "members", {**member("a", ["clicks"], {"clicks": {0: 5}}, group_id=group_id), **columns})


def test_unreadable_rows_exclude_only_their_group_from_the_audit(audit: Audit) -> None:
    assert GROUP in audited(audit.connection)
    assert audited(audit.connection).keys() & SPOILT.keys() == set()


def store_groups_with_former_owners(connection: pg.connection) -> None:
    """Store two groups in which b has a partition that two members had before, b itself first or last."""
    insert(connection, "topics", topic("moving", 1))
    for first, last in (("gone", "b"), ("b", "gone")):
        its: dict[str, Any] = {"group_id": f"first {first}"}
        of_topic = {**its, "topic": "moving"}
        insert(connection, "groups", group(**its))
        insert(connection, "members", member("b", ["moving"], {"moving": {0: 5}}, **its))
        insert(connection, "rebalances", rebalance(at(0, -300), generation=4, **its))
        insert(connection, "rebalances", rebalance(at(0, 10), generation=5, took_s=10, **its))
        insert(connection, "partition_ownership", lost(last, [0], 12, **of_topic), lost(first, [0], 5, **of_topic))


@pytest.mark.parametrize(("first", "moved"), [("gone", 0), ("b", 1)])
def test_last_of_several_former_owners_is_the_previous_owner(audit: Audit, first: str, moved: int) -> None:
    assert audited(audit.connection, "moved")[f"first {first}"] == (moved,)


def store_a_cooperative_group(connection: pg.connection) -> None:
    """Partition 0 has no owner in generation 4, and partition 1 is handed over in it."""
    its: dict[str, Any] = {"group_id": "cooperative"}
    insert(connection, "topics", topic("four", 4))
    insert(connection, "groups", group(**its))
    insert(connection, "members", member("a", ["four"], {"four": {2: 3, 3: 3}}, **its))
    insert(connection, "members", member("b", ["four"], {"four": {0: 5, 1: 4}}, **its))
    insert(connection, "rebalances", rebalance(at(), generation=4, took_s=5, **its))
    insert(connection, "rebalances", rebalance(at(0, 10), generation=5, **its))
    insert(connection, "partition_ownership", lost("a", [0, 1], 5, topic="four", **its))


def test_what_a_member_gave_up_with_the_previous_generation_moves_to_its_next_owner(audit: Audit) -> None:
    assert audited(audit.connection, "moved", "moves_needed")["cooperative"] == (1, 1)


def store_groups_that_are_not_audited(connection: pg.connection) -> None:
    insert(connection, "topics", topic("t", 2))
    insert(
        connection, "groups", group("fine"), group("empty", state="Empty"), group("connect", protocol_type="connect")
    )
    insert(connection, "groups", group("unreadable"), group("preparing", state="PreparingRebalance"))
    for group_id in ("fine", "connect", "preparing"):
        insert(connection, "members", member("a", ["t"], {"t": {0: 1, 1: 1}}, group_id=group_id))
    insert(connection, "members", member("a", ["t"], {}, group_id="unreadable", subscription=None))


def test_groups_that_are_not_stable_or_cannot_be_read_are_not_audited(audit: Audit) -> None:
    found = audited(audit.connection, "score", "lag_max", "moved")
    assert found["fine"] == (100, None, 0)
    assert found.keys() & {"empty", "connect", "unreadable", "preparing"} == set()


def store_a_group_of_two_topics(connection: pg.connection) -> None:
    its: dict[str, Any] = {"group_id": "two topics"}
    insert(connection, "topics", topic("large", 9), topic("small", 1))
    insert(connection, "groups", group(**its))
    held = {"large": dict.fromkeys(range(9), 5)}
    insert(connection, "members", member("reads both", ["large", "small"], held, **its))
    insert(connection, "members", member("reads one", ["small"], {"small": {0: 5}}, **its))


def test_an_uneven_group_for_which_nothing_better_exists_scores_100(audit: Audit) -> None:
    found = audited(audit.connection, "partitions_max", "has_better", "score")
    assert found["two topics"] == (9, False, 100)
    by_topic = audited(audit.connection, "idle_members", "score", table=TOPICS)
    assert (by_topic["large"], by_topic["small"]) == ((0, 100), (1, 100))


STORED = (
    uneven_group,
    store_spoilt_groups,
    store_groups_with_former_owners,
    store_a_cooperative_group,
    store_groups_that_are_not_audited,
    store_a_group_of_two_topics,
)

# -- several audits -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audits_in_turn(databases: Databases, spark: SparkSession) -> Iterator[list[dict[str, Any]]]:
    """Audit an interval, and the next one twice, after a group has changed and another one was created again."""
    url = databases.create()
    database = parse_url(url)
    with closing(database.connect()) as connection:
        uneven_group(connection)
        insert(connection, "groups", group("recreated"))
        insert(connection, "members", member("a", ["clicks"], {"clicks": {0: 5}}, group_id="recreated"))
        report(JOB, spark, database, connection, ARGUMENTS)
        rows(connection, "UPDATE members SET assignment = '[]' WHERE member_id = 'b'")
        rows(connection, "UPDATE groups SET created_at = now() WHERE group_id = 'recreated'")
        later = replace(ARGUMENTS, interval_start=at(1), interval_end=at(2), as_of=at(2) + timedelta(seconds=1))
        for _ in range(2):
            report(JOB, spark, database, connection, later)
        yield sorted(table_rows(connection, AUDITS), key=lambda row: row["interval_end"])
    databases.drop(url)


def test_an_audit_is_compared_with_the_one_before_and_a_re_run_replaces_it(
    audits_in_turn: list[dict[str, Any]],
) -> None:
    found = [row for row in audits_in_turn if row["group_id"] == GROUP]
    scores = [(row["interval_end"], row["score"], row["score_before"], row["trend"]) for row in found]
    assert scores == [(at(1), 71, None, "first"), (at(2), 42, 71, "worse")]


def test_an_audit_is_not_compared_with_that_of_a_deleted_group_of_the_same_name(
    audits_in_turn: list[dict[str, Any]],
) -> None:
    found = [row for row in audits_in_turn if row["group_id"] == "recreated"]
    scores = [(row["interval_end"], row["score_before"], row["trend"]) for row in found]
    assert scores == [(at(1), None, "first"), (at(2), None, "first")]


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
