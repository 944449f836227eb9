"""Roles and databases of the embedded Postgres, created by its superuser at every start.

| role | logs in for | may |
|---|---|---|
| `muster_owner` | nodes, `muster migrate` | everything in the database `muster`, which it owns |
| `muster_jobs_login` | Spark jobs, Airflow's tasks | what `muster_jobs` may: read and propose |
| `muster_reader_login` | `muster sql`, dashboards | what `muster_reader` may: read |
| `airflow` | Airflow | everything in the database `airflow`, which it owns |

None of them is a superuser, and each can connect to its own database only. A cluster that an earlier version made has
one role, the superuser, which owns everything: its tables are handed over. Running this again changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

import psycopg2
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class under a function's name
from psycopg2.sql import SQL, Composable, Identifier, Literal

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
"""What a session of the reader begins with; it can set them otherwise."""


def prepare_databases(url_of: Callable[[str], str], passwords: Mapping[str, str]) -> None:
    """Make the roles and databases that are missing, and set who may do what. A standby has those of its primary.

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
            make = "ALTER DATABASE {} OWNER TO {}" if database in present else "CREATE DATABASE {} OWNER {}"
            cursor.execute(SQL(make).format(Identifier(database), Identifier(owner)))
        for database in ("postgres", "template1", *DATABASES):
            cursor.execute(SQL("REVOKE CONNECT, TEMPORARY ON DATABASE {} FROM PUBLIC").format(Identifier(database)))
        cursor.execute("GRANT CONNECT ON DATABASE muster TO muster_jobs, muster_reader")
    for database, owner in DATABASES.items():
        with _connected(url_of(database)) as cursor:
            for statement in _names(cursor, _HAND_OVER, {"owner": owner}):
                cursor.execute(statement)


def _make_role(cursor: Cursor, role: str, password: str, group: str | None) -> None:
    for name in filter(None, (group, role)):
        cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,))
        if cursor.rowcount == 0:
            cursor.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(name)))
    may = SQL("ALTER ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD {}")
    cursor.execute(may.format(Identifier(role), Literal(password)))
    if group is not None:
        cursor.execute(SQL("GRANT {} TO {}").format(Identifier(group), Identifier(role)))


# Indexes, and sequences that belong to a column, go with their table.
_HAND_OVER = """
WITH mine AS (
    SELECT oid FROM pg_namespace
    WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
)
SELECT format('ALTER TABLE %%s OWNER TO %%I', pg_class.oid::regclass, %(owner)s)
FROM pg_class
WHERE relnamespace IN (SELECT oid FROM mine) AND relowner = current_user::regrole AND relkind IN ('r', 'p', 'v', 'm')
UNION ALL
SELECT format('ALTER SEQUENCE %%s OWNER TO %%I', pg_class.oid::regclass, %(owner)s)
FROM pg_class
WHERE relnamespace IN (SELECT oid FROM mine) AND relowner = current_user::regrole AND relkind = 'S'
    AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype IN ('a', 'i')
    )
UNION ALL
SELECT format('ALTER ROUTINE %%s OWNER TO %%I', oid::regprocedure, %(owner)s)
FROM pg_proc
WHERE pronamespace IN (SELECT oid FROM mine) AND proowner = current_user::regrole
UNION ALL
SELECT format('ALTER TYPE %%s OWNER TO %%I', oid::regtype, %(owner)s)
FROM pg_type
WHERE typnamespace IN (SELECT oid FROM mine) AND typowner = current_user::regrole AND typtype IN ('e', 'd')
UNION ALL
SELECT format('ALTER SCHEMA %%I OWNER TO %%I', nspname, %(owner)s)
FROM pg_namespace
WHERE oid IN (SELECT oid FROM mine) AND nspowner = current_user::regrole
"""


def _names(cursor: Cursor, question: str | Composable, values: Mapping[str, str] | None = None) -> list[str]:
    cursor.execute(question, values)
    return [name for (name,) in cursor.fetchall()]


@contextmanager
def _connected(url: str) -> Iterator[Cursor]:
    with closing(psycopg2.connect(psql_url(url))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor
