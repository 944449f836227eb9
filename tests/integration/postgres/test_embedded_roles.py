"""Roles of an embedded cluster have their rights; a cluster of an earlier version is upgraded."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from alembic import command

from muster.embedded_postgres import EmbeddedPostgres
from muster.schema import upgrade
from muster.settings import psql_url
from tests.integration.postgres.alembic_config import config_for
from tests.support.databases import FORGETFUL

pytestmark = pytest.mark.postgres

ROLES = ("muster_owner", "muster_jobs_login", "muster_reader_login", "airflow")
OWNERS = """
SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class
WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)
UNION SELECT pg_get_userbyid(proowner) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION SELECT pg_get_userbyid(typowner) FROM pg_type WHERE typnamespace = 'public'::regnamespace
UNION SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'dashboards'
"""


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


@pytest.mark.parametrize("make", ["CREATE TABLE mine ()", "CREATE TEMPORARY TABLE mine ()", "CREATE SCHEMA mine"])
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


def test_cluster_of_an_earlier_version_is_migrated_to_roles(tmp_path: Path) -> None:
    """Its only login role is the superuser, which owns everything in both databases."""
    with EmbeddedPostgres(tmp_path, max_connections=30, options=FORGETFUL) as postgres:
        for database in ("muster", "airflow"):
            run_sql(postgres.superuser_url("postgres"), f"DROP DATABASE {database}")
            run_sql(postgres.superuser_url("postgres"), f"CREATE DATABASE {database}")
        run_sql(postgres.superuser_url("postgres"), f"DROP ROLE {', '.join(ROLES)}, muster_jobs, muster_reader")
        command.upgrade(config_for(postgres.superuser_url("muster")), "0011")
        kept = "INSERT INTO topics (topic, partitions) VALUES ('kept', 3)"
        run_sql(postgres.superuser_url("muster"), kept)
        airflow = postgres.superuser_url("airflow")
        run_sql(airflow, "CREATE TYPE state AS ENUM ('up'); CREATE TABLE dag_run (id serial, state state)")
        for file in (tmp_path / "postgres").glob("*-password"):
            file.unlink()

    for _ in range(2):
        with EmbeddedPostgres(tmp_path, max_connections=30, options=FORGETFUL) as postgres:
            upgrade(postgres.database_url())
            assert run_sql(postgres.database_url(), OWNERS) == [("muster_owner",)]
            assert run_sql(postgres.database_url(), "SELECT partitions FROM topics") == [(3,)]
            assert run_sql(postgres.airflow_url(), OWNERS) == [("airflow",)]
            run_sql(postgres.airflow_url(), "INSERT INTO dag_run (state) VALUES ('up')")
            run_sql(postgres.database_url(), "CREATE TABLE IF NOT EXISTS made_later AS SELECT 1 AS answer")
            assert run_sql(postgres.jobs_url(), "SELECT answer FROM made_later") == [(1,)]
            assert run_sql(postgres.reader_url(), "SELECT partitions FROM topics") == [(3,)]
