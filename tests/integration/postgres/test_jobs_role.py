"""The role `muster_jobs` can propose runs, and every other write with SQL is rejected."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import psycopg2
import psycopg2.errors
import pytest
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.jobs import JOBS
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.report_tables import column_types
from coordinator_core.state_store.rows import ChangeRow
from muster.settings import psql_url

RUN = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
CHANGE = "2b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
ATTEMPT = "3b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
KINDS = ("offset_retention", "group_cleanup", "history_archive")
REPORTS = [table for job in JOBS.values() for table in job.reports]
REPORT_TIMES = [
    (table, name)
    for table in REPORTS
    for name, kind in column_types(table).items()
    if kind in {datetime, datetime | None}
]
OFFSET = """
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)
VALUES ('billing', 7, 'orders', 0, 5, now())
"""
STAGE = """
INSERT INTO expiry_candidates_staging
    (attempt_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)
VALUES (%s, %s, %s, 'orders', 0, 1, %s, 'group_empty')
"""


@pytest.fixture
def jobs(jobs_url: str) -> Iterator[PsycopgConnection]:
    """Log in as a member of muster_jobs; every statement commits by itself."""
    with connected(jobs_url) as connection:
        yield connection


@contextmanager
def connected(url: str) -> Iterator[PsycopgConnection]:
    with closing(psycopg2.connect(psql_url(url))) as connection:
        connection.autocommit = True
        yield connection


def rows(connection: PsycopgConnection, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def refused(connection: PsycopgConnection, statement: str, *values: object) -> None:
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        rows(connection, statement, *values)


def propose(connection: PsycopgConnection, kind: str = "offset_retention", run_id: str = RUN) -> None:
    rows(connection, "SELECT propose_run(%s, %s, now(), NULL, NULL, false)", run_id, kind)


def stage(connection: PsycopgConnection, group_id: str = "billing", shard_id: int = 7, at: str = "now") -> None:
    rows(connection, STAGE, ATTEMPT, group_id, shard_id, at)


def run_rows(connection: PsycopgConnection) -> list[tuple[Any, ...]]:
    return rows(connection, "SELECT kind, status, applied_by, change_id, undoes, finished_at FROM maintenance_runs")


# -- runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_proposes_a_run_of_its_kind(jobs: PsycopgConnection, kind: str) -> None:
    propose(jobs, kind)
    assert run_rows(jobs) == [(kind, "proposed", None, None, None, None)]


@pytest.mark.parametrize("kind", ["topic_deletion", "undo", "anything", None])
def test_a_job_cannot_invent_a_run_of_a_node(jobs: PsycopgConnection, kind: str | None) -> None:
    refused(jobs, "SELECT propose_run(%s, %s, now(), NULL, NULL, false)", RUN, kind)
    refused(
        jobs,
        "INSERT INTO maintenance_runs (run_id, kind, as_of, status) VALUES (%s, %s, now(), 'applying')",
        *(RUN, kind or "topic_deletion"),
    )
    assert run_rows(jobs) == []


@pytest.mark.parametrize(
    "column", ["status = 'applying'", "applied_by = 'ada'", f"change_id = '{CHANGE}'", f"undoes = '{CHANGE}'"]
)
def test_a_job_cannot_apply_or_sign_a_run(jobs: PsycopgConnection, column: str) -> None:
    propose(jobs)
    refused(jobs, f"UPDATE maintenance_runs SET {column}")  # noqa: S608 - words of the test
    refused(jobs, "DELETE FROM maintenance_runs")
    assert run_rows(jobs) == [("offset_retention", "proposed", None, None, None, None)]


@pytest.mark.parametrize("status", ["applying", "applied", "rejected", "failed"])
def test_a_job_cannot_change_a_run_that_was_decided_about(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection, status: str
) -> None:
    rows(sql_connection, OFFSET)
    propose(jobs)
    rows(sql_connection, "UPDATE maintenance_runs SET status = %s, applied_by = 'ada'", status)
    before = rows(jobs, "SELECT * FROM maintenance_runs")
    assert rows(jobs, "SELECT * FROM propose_run(%s, %s, now(), NULL, NULL, true)", RUN, "offset_retention") == [
        (status, {})
    ]
    stage(jobs)
    refused(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)
    refused(jobs, "SELECT describe_run(%s, now(), NULL, NULL, true, '{}')", RUN)
    assert rows(jobs, "SELECT * FROM maintenance_runs") == before
    assert rows(jobs, "SELECT * FROM expiry_candidates") == []


def test_a_job_cannot_change_the_kind_of_a_run(jobs: PsycopgConnection) -> None:
    """Otherwise an operator would see another kind than the one that is applied."""
    propose(jobs, "history_archive")
    refused(jobs, "SELECT propose_run(%s, 'offset_retention', now(), NULL, NULL, false)", RUN)


def test_a_job_with_an_old_snapshot_cannot_change_a_run_that_is_being_applied(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection
) -> None:
    rows(sql_connection, OFFSET)
    propose(jobs)
    stage(jobs)
    jobs.autocommit = False
    jobs.set_session(isolation_level=ISOLATION_LEVEL_REPEATABLE_READ)
    assert rows(jobs, "SELECT status FROM maintenance_runs") == [("proposed",)]
    rows(sql_connection, "UPDATE maintenance_runs SET status = 'applying'")
    with pytest.raises(psycopg2.errors.SerializationFailure):
        rows(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)
    jobs.rollback()


@pytest.mark.parametrize("as_of", ["infinity", "-infinity", "0044-03-15 00:00:00+00 BC", None])
def test_a_job_cannot_propose_as_of_an_instant_that_nodes_cannot_read(
    jobs: PsycopgConnection, as_of: str | None
) -> None:
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="1970 and 9999"):
        rows(jobs, "SELECT propose_run(%s, 'offset_retention', %s, NULL, NULL, false)", RUN, as_of)


@pytest.mark.parametrize("counts", ["[]", "null", '{"of": "many"}', '{"of": -1}', '{"of": 1.5}', '{"of": 1e400}'])
def test_job_cannot_propose_fractional_counts(jobs: PsycopgConnection, counts: str) -> None:
    propose(jobs)
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="whole numbers"):
        rows(jobs, "SELECT describe_run(%s, now(), NULL, NULL, false, %s)", RUN, counts)


# -- candidates -----------------------------------------------------------------------------------------------


def test_job_cannot_propose_a_wrong_number_of_candidates(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection
) -> None:
    rows(sql_connection, OFFSET)
    propose(jobs)
    stage(jobs)
    rows(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)
    rows(jobs, """SELECT describe_run(%s, now(), NULL, NULL, false, '{"candidates": 0, "of": 9}')""", RUN)
    assert rows(jobs, "SELECT counts FROM maintenance_runs") == [({"candidates": 1, "of": 9},)]


def test_published_candidate_has_the_shard_of_its_group(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection
) -> None:
    """Otherwise the owner of another shard would treat the offsets as those of an unknown group."""
    rows(sql_connection, OFFSET)
    propose(jobs)
    stage(jobs, shard_id=8)
    stage(jobs, "unknown")
    rows(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)
    assert rows(jobs, "SELECT group_id, shard_id, outcome FROM expiry_candidates") == [("billing", 7, None)]


def test_candidate_with_an_infinite_time_is_not_published(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection
) -> None:
    """A node that lists candidates would fail at it."""
    rows(sql_connection, OFFSET)
    propose(jobs)
    stage(jobs, at="infinity")
    rows(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)
    assert rows(jobs, "SELECT * FROM expiry_candidates") == []


@pytest.mark.parametrize("at", ["20000-01-01", "0044-03-15 BC"])
def test_a_candidate_of_an_instant_that_nodes_cannot_read_is_refused(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection, at: str
) -> None:
    rows(sql_connection, OFFSET)
    propose(jobs)
    stage(jobs, at=at)
    with pytest.raises(psycopg2.errors.CheckViolation):
        rows(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)


@pytest.mark.parametrize("day", ["5874897-12-31", "4713-01-01 BC", "9999-12-31"])
def test_a_day_that_nodes_cannot_read_is_refused(jobs: PsycopgConnection, day: str) -> None:
    """All maintenance of all nodes would stop at it, undos and deletions of topics included."""
    propose(jobs, "history_archive")
    with pytest.raises(psycopg2.errors.CheckViolation):
        rows(jobs, "SELECT propose_partition_drop(%s, 'rebalances', %s, 's', 'p', 0, 'c', now())", RUN, day)


@pytest.mark.parametrize(("table", "column"), REPORT_TIMES)
def test_a_report_of_an_instant_that_nodes_cannot_read_is_refused(
    sql_connection: PsycopgConnection, table: str, column: str
) -> None:
    """Lists of reports would fail at such a row. A CHECK applies to every role."""
    (definition,) = rows(
        sql_connection, "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", f"{table}_times"
    )
    assert f"({column} >= '1970-01-01" in definition[0]
    assert f"({column} < '10000-01-01" in definition[0]


@pytest.mark.parametrize("table", ["expiry_candidates", "cleanup_candidates", "archive_candidates"])
def test_a_job_cannot_write_candidates_or_their_outcomes(jobs: PsycopgConnection, table: str) -> None:
    refused(jobs, f"UPDATE {table} SET outcome = 'expired'")  # noqa: S608 - likewise
    refused(jobs, f"DELETE FROM {table}")  # noqa: S608 - likewise
    refused(jobs, f"INSERT INTO {table} SELECT * FROM {table}")  # noqa: S608 - likewise
    refused(jobs, f"TRUNCATE {table}")


# -- days of history ------------------------------------------------------------------------------------------

PROPOSE_DAY = """
SELECT propose_partition_drop(%s, 'offset_history', '2026-01-02', 'offset_history_p20260102', 'file:///nowhere',
    1, '1-2', now())
"""


def test_a_job_cannot_set_when_a_copy_was_checked(jobs: PsycopgConnection) -> None:
    propose(jobs, "history_archive")
    assert rows(jobs, PROPOSE_DAY, RUN) == [(True,)]
    assert rows(jobs, "SELECT verified_at <= clock_timestamp(), outcome FROM archive_candidates") == [(True, None)]


@pytest.mark.parametrize("status", ["applying", "applied", "rejected"])
def test_a_job_cannot_add_or_withdraw_a_day_of_a_run_that_was_decided_about(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection, status: str
) -> None:
    propose(jobs, "history_archive")
    rows(sql_connection, "UPDATE maintenance_runs SET status = %s", status)
    rows(jobs, PROPOSE_DAY, RUN)
    assert rows(jobs, "SELECT * FROM archive_candidates") == []
    rows(sql_connection, "UPDATE maintenance_runs SET status = 'proposed'")
    rows(jobs, PROPOSE_DAY, RUN)
    rows(sql_connection, "UPDATE maintenance_runs SET status = %s", status)
    rows(jobs, "SELECT withdraw_partition_drops(%s, 'infinity')", RUN)
    assert len(rows(jobs, "SELECT * FROM archive_candidates")) == 1


def test_a_day_of_a_run_of_another_kind_is_not_proposed(jobs: PsycopgConnection) -> None:
    propose(jobs, "offset_retention")
    rows(jobs, PROPOSE_DAY, RUN)
    assert rows(jobs, "SELECT * FROM archive_candidates") == []


def test_job_cannot_delete_recent_candidates(jobs: PsycopgConnection, sql_connection: PsycopgConnection) -> None:
    rows(sql_connection, OFFSET)
    propose(jobs)
    stage(jobs)
    rows(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)
    rows(sql_connection, "UPDATE maintenance_runs SET status = 'rejected', finished_at = now() - interval '1 hour'")
    rows(jobs, "SELECT delete_rejected_candidates('offset_retention', -100, 100)")
    assert len(rows(jobs, "SELECT * FROM expiry_candidates")) == 1


def test_now_between_partition_moves_holds_no_lock(jobs: PsycopgConnection, postgres_store: PostgresStore) -> None:
    jobs.autocommit = False
    rows(jobs, "SELECT now_between_partition_moves()")
    postgres_store.create_history_partitions(days_ahead=0)
    jobs.rollback()


# -- other statements -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO changes (change_id, at, actor, action) VALUES (gen_random_uuid(), now(), 'ada', 'reset_offsets')",
        "INSERT INTO cluster_configs VALUES ('offsets_retention_minutes', '1', 'ada', now())",
        "UPDATE shard_leases SET epoch = epoch + 1",
        "DELETE FROM offsets",
        "DELETE FROM archived_partitions",
        "DROP TABLE offset_history_default",
        "ALTER TABLE maintenance_runs DISABLE TRIGGER ALL",
        "CREATE TABLE mine ()",
        "CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT clock_timestamp()'",
        "SELECT lock_proposed_run(gen_random_uuid())",
        "SELECT; LOCK TABLE archived_partitions IN SHARE MODE",
        "SELECT; LOCK TABLE alembic_version IN SHARE MODE",
    ],
)
def test_job_cannot_write_tables_of_nodes(jobs: PsycopgConnection, statement: str) -> None:
    refused(jobs, statement)


def test_only_the_jobs_role_and_the_owner_call_functions_that_run_as_the_owner(
    jobs: PsycopgConnection, reader_url: str
) -> None:
    asked = "SELECT proname FROM pg_proc WHERE prosecdef AND has_function_privilege(oid, 'EXECUTE') ORDER BY 1"
    with connected(reader_url) as reader:
        assert rows(reader, asked) == []
    assert len(rows(jobs, asked)) > 0
    unsafe = "SELECT proname FROM pg_proc WHERE prosecdef AND NOT coalesce(proconfig, '{}') @> %s"
    assert rows(jobs, unsafe, ["search_path=public, pg_temp"]) == []


# -- readers --------------------------------------------------------------------------------------------------


def test_a_reader_cannot_hold_up_partitions_migrations_or_reports(
    postgres_store: PostgresStore, reader_url: str
) -> None:
    with connected(reader_url) as reader:
        rows(reader, "SET default_transaction_read_only = off")
        for table in ("archived_partitions", "alembic_version", *REPORTS):
            refused(reader, f"SELECT; LOCK TABLE {table} IN SHARE MODE")
        refused(reader, "SELECT FROM archived_partitions FOR KEY SHARE")
        postgres_store.create_history_partitions(days_ahead=0)


def test_only_a_node_applies_a_proposal(
    jobs: PsycopgConnection, sql_connection: PsycopgConnection, postgres_store: PostgresStore
) -> None:
    rows(sql_connection, OFFSET)
    propose(jobs)
    stage(jobs)
    rows(jobs, "SELECT publish_candidates(%s, %s)", RUN, ATTEMPT)
    rows(jobs, """SELECT describe_run(%s, now(), NULL, NULL, false, '{"of": 1}')""", RUN)
    run = postgres_store.begin_apply(RUN, ChangeRow(CHANGE, 0, "ada", "apply_run", None, None, None, None), 1)
    assert (run.status, run.counts["candidates"]) == ("applying", 1)
