"""Roles and databases of the embedded Postgres, created by its superuser at every start.

| role | logs in for | may |
|---|---|---|
| `muster_owner` | nodes, `muster migrate` | everything in the database `muster`, which it owns |
| `muster_jobs_login` | Spark jobs, Airflow's tasks | what `muster_jobs` may: read and propose |
| `muster_reader_login` | `muster sql`, dashboards | what `muster_reader` may: read |
| `airflow` | Airflow | everything in the database `airflow`, which it owns |

None of them is a superuser, and each can connect to its own database only. Running this again changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

import psycopg2
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class under a function's name
from psycopg2.sql import SQL, Identifier, Literal

from muster.settings import psql_url

SUPERUSER: Final = "muster"
OWNER: Final = "muster_owner"
JOBS: Final = "muster_jobs_login"
READER: Final = "muster_reader_login"
AIRFLOW: Final = "airflow"

LOGINS: Final[Mapping[str, str | None]] = {
    OWNER: None,
    JOBS: "muster_jobs",
    READER: "muster_reader",
    AIRFLOW: None,
}
"""Every role that logs in, and the role that it is a member of."""

DATABASES: Final[Mapping[str, str]] = {"muster": OWNER, "airflow": AIRFLOW}
"""Every database, and its owner."""

READER_SETTINGS: Final[Mapping[str, str]] = {"default_transaction_read_only": "on", "statement_timeout": "60s"}
"""The default settings of sessions of the reader, which can change them."""


def prepare_databases(url_of: Callable[[str], str], passwords: Mapping[str, str]) -> None:
    """Create missing roles and databases, and set privileges. A standby has those of its primary.

    Args:
        url_of: Returns the URL of a database, as the superuser.
        passwords: Of every role of LOGINS.
    """
    with _connected(url_of("postgres")) as cursor:
        if _names(cursor, "SELECT 'standby' WHERE pg_is_in_recovery()"):
            return
        for role, group in LOGINS.items():
            _make_role(cursor, role, passwords[role], group)
        for name, value in READER_SETTINGS.items():
            cursor.execute(SQL("ALTER ROLE {} SET {} = {}").format(*map(Identifier, (READER, name)), Literal(value)))
        present = _names(cursor, "SELECT datname FROM pg_database")
        for database, owner in DATABASES.items():
            if database not in present:
                cursor.execute(SQL("CREATE DATABASE {} OWNER {}").format(Identifier(database), Identifier(owner)))
        for database in ("postgres", "template1", *DATABASES):
            cursor.execute(SQL("REVOKE CONNECT, TEMPORARY ON DATABASE {} FROM PUBLIC").format(Identifier(database)))
        cursor.execute("GRANT CONNECT ON DATABASE muster TO muster_jobs, muster_reader")
    with _connected(url_of("muster")) as cursor:  # Any role may make large objects, which fill the disk.
        makers = "lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea)"
        cursor.execute(f"REVOKE EXECUTE ON FUNCTION {makers} FROM PUBLIC")


def _make_role(cursor: Cursor, role: str, password: str, group: str | None) -> None:
    for name in filter(None, (group, role)):
        cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,))
        if cursor.rowcount == 0:
            cursor.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(name)))
    may = SQL("ALTER ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD {}")
    cursor.execute(may.format(Identifier(role), Literal(password)))
    if group is not None:
        cursor.execute(SQL("GRANT {} TO {}").format(Identifier(group), Identifier(role)))


def _names(cursor: Cursor, question: str) -> list[str]:
    cursor.execute(question)
    return [name for (name,) in cursor.fetchall()]


@contextmanager
def _connected(url: str) -> Iterator[Cursor]:
    with closing(psycopg2.connect(psql_url(url))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor
