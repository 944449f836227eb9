"""Roles of an embedded cluster have their rights."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from coordinator_core.state_store.postgres import PostgresStore
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.node.schema import upgrade
from muster.settings import psql_url
from tests.support.databases import FORGETFUL

pytestmark = pytest.mark.postgres

ROLES = ("muster_owner", "muster_jobs_login", "muster_reader_login", "airflow")


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path, max_connections=30, options=FORGETFUL) as postgres:
        upgrade(postgres.database_url())
        yield postgres


def run_sql(url: str, statement: str) -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(psql_url(url))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []


def urls(postgres: EmbeddedPostgres) -> list[str]:
    return [postgres.database_url(), postgres.jobs_url(), postgres.reader_url(), postgres.airflow_url()]


def test_login_roles_are_not_superusers(postgres: EmbeddedPostgres) -> None:
    powers = "rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls"
    statement = f"SELECT rolname, {powers} FROM pg_roles WHERE rolname = current_user"  # noqa: S608 - words of the test
    found = [run_sql(url, statement) for url in urls(postgres)]
    assert found == [[(role, False)] for role in ROLES]


def test_each_role_connects_to_its_own_database_alone(postgres: EmbeddedPostgres) -> None:
    own = dict(zip(urls(postgres), ("muster", "muster", "muster", "airflow"), strict=True))
    for url, database in own.items():
        for name in {"muster", "airflow", "postgres", "template1"} - {database}:
            with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
                run_sql(f"{url.rpartition('/')[0]}/{name}", "SELECT 1")


@pytest.mark.parametrize(
    "make",
    [
        "CREATE TABLE mine ()",
        "CREATE TEMPORARY TABLE mine ()",
        "CREATE SCHEMA mine",
        "SELECT lo_creat(-1)",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'mine')",
    ],
)
def test_jobs_and_readers_create_nothing(postgres: EmbeddedPostgres, make: str) -> None:
    for url in (postgres.jobs_url(), postgres.reader_url()):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            run_sql(url, f"SET TRANSACTION READ WRITE; {make}")


def test_query_of_the_reader_role_ends_after_a_minute(postgres: EmbeddedPostgres) -> None:
    assert run_sql(postgres.reader_url(), "SHOW statement_timeout") == [("1min",)]


def test_later_tables_of_the_owner_are_readable(postgres: EmbeddedPostgres) -> None:
    run_sql(postgres.database_url(), "CREATE TABLE made_later AS SELECT 1 AS answer")
    for url in (postgres.jobs_url(), postgres.reader_url()):
        assert run_sql(url, "SELECT answer FROM made_later") == [(1,)]


def test_the_owner_adds_seals_and_undoes_changes_and_rewrites_none(postgres: EmbeddedPostgres) -> None:
    url = postgres.database_url()
    run_sql(url, "INSERT INTO changes (change_id, at, actor, action) VALUES (gen_random_uuid(), now(), 'ada', 'undo')")
    with closing(PostgresStore(url)) as store:
        sealed = store.seal_changes()
    run_sql(url, "BEGIN; SELECT FROM changes FOR UPDATE; UPDATE changes SET undone_at = now(); COMMIT")

    assert sealed is not None
    assert run_sql(url, "SELECT actor, undone_at IS NOT NULL, sealed_minute IS NOT NULL FROM changes") == [
        ("ada", True, True)
    ]
    for statement in (
        "UPDATE changes SET actor = 'x'",
        "DELETE FROM changes",
        "TRUNCATE changes",
        "UPDATE change_seals SET seal = 'x'",
        "DELETE FROM change_seals",
        "TRUNCATE change_seals",
    ):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="permission denied"):
            run_sql(url, statement)
