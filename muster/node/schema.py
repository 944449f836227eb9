"""Schema migrations: a node requires a schema that it can use, and migrates an empty database only."""

import contextlib
import functools
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.pooler import shares_sessions
from coordinator_core.state_store.postgres.revision import read_schema
from coordinator_core.state_store.schema_revision import schema_advice
from muster.display import printable
from muster.errors import UserError, database_error
from muster.settings import DEFAULT_SHARDS

CONNECT_TIMEOUT_S = 10
STATEMENT_TIMEOUT_MS = 10_000
NEW_DATABASE: Final = "use a new database, or another --data-dir"
EMPTY_DATABASE: Final = "create an empty one for Muster, and name it in MUSTER_DATABASE_URL"
OWNER_ADVICE: Final = "MUSTER_DATABASE_URL names the role that owns the tables"
NEEDS_SESSIONS: Final = (
    "A pooler between this program and Postgres shares sessions between connections, as PgBouncer does with pool_mode ="
    " transaction or statement, but settings and prepared statements are kept in sessions: set pool_mode = session for"
    " this database, or connect without the pooler."
)
NEEDS_UTF8: Final = (
    "The database has the encoding {}, which cannot hold every name: create one with ENCODING 'UTF8' TEMPLATE"
    " template0."
)
NO_PRIMARY: Final = (
    "The servers in MUSTER_DATABASE_URL are standbys, or read-only: promote one, or add the primary's host, and start"
    " this program again."
)
NO_PRIMARY_TEXTS: Final = ("session is read-only", "server is in hot standby mode")
"""What libpq says if no server has the `target_session_attrs` of the URL: read-write, or primary."""
A_TABLE: Final = """
SELECT relname
FROM pg_class
WHERE relnamespace = to_regnamespace('public') AND relkind IN ('r', 'p', 'f') AND relname <> 'alembic_version'
    AND NOT EXISTS (
        SELECT FROM pg_depend
        WHERE classid = 'pg_class'::regclass AND pg_depend.objid = pg_class.oid AND deptype = 'e')
ORDER BY relname
LIMIT 1
"""
"""A table that no extension has created. A run of migrations that failed at the first leaves alembic_version, empty."""
IS_OURS: Final = """
SELECT EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = to_regclass('public.versions') AND attname = 'oldest_compatible_schema')
"""


def upgrade(database_url: str, shards: int = DEFAULT_SHARDS) -> str | None:
    """Migrate the database to the newest schema.

    Args:
        database_url: the database; a migration in progress is waited for.
        shards: how many shards an empty database is made with; another keeps its own count.

    Returns:
        The revision it had, None when it was empty.

    Raises:
        UserError: the database does not answer, refuses, has another encoding than UTF-8 or the tables of another
            program, or is from before the first release or of a newer one.
    """
    with _connection(database_url) as connection:
        before = _own_revision(connection)
        if (before or "") > (newest() or ""):
            _require_compatible(connection)
            return before
    config = _config()
    config.attributes.update({"database_url": database_url, "shards": shards})
    try:
        command.upgrade(config, "head")
    except SQLAlchemyError as failure:
        raise UserError(f"The database could not be migrated: {_first_line(_failed_statement(failure))}.") from failure
    return before


def require_schema(database_url: str, shards: int = DEFAULT_SHARDS) -> None:
    """Check that this program can use the schema; migrate an empty database to the newest, with so many shards.

    Raises:
        UserError: the schema is older, or newer and not compatible; the database does not answer, or has the tables
            of another program; or a pooler shares sessions.
    """
    if is_empty(database_url):
        upgrade(database_url, shards)
    with _connection(database_url) as connection:
        _require_compatible(connection)


def is_empty(database_url: str) -> bool:
    """Return whether no migration was run, and there is no table.

    Raises:
        UserError: the database does not answer, or has the tables of another program.
    """
    with _connection(database_url) as connection:
        return _own_revision(connection) is None


@functools.cache
def newest() -> str | None:
    """Return the newest revision that this program has."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def is_unreleased(revision: str | None) -> bool:
    """Return whether a database's schema is from before the first release, which no program upgrades."""
    return revision is not None and revision < (ScriptDirectory.from_config(_config()).get_base() or "")


def _require_compatible(connection: Connection) -> None:
    found, own = read_schema(Transaction(connection, STATEMENT_TIMEOUT_MS)), newest() or ""
    advice = schema_advice(found, own)
    if advice is not None:
        if found is None:
            raise UserError("The table versions has no row: restore it from a backup (docs/backup.md).")
        raise UserError(f"The database has schema {found.revision} and this program needs {own}: {advice}.")


def _own_revision(connection: Connection) -> str | None:
    """Return the database's revision, None if it is empty.

    Raises:
        UserError: the schema is from before the first release, or the tables are of another program.
    """
    # Read before the revision, which another run commits together with its first tables.
    table = connection.exec_driver_sql(A_TABLE).scalar()
    revision = max(MigrationContext.configure(connection).get_current_heads(), default=None)
    if is_unreleased(revision):
        found = f"The database has schema {revision}, from before release 0.1.0, which cannot be upgraded"
        raise UserError(f"{found}: {NEW_DATABASE}.")
    is_ours = connection.exec_driver_sql(IS_OURS).scalar_one() if revision else table is None
    if not is_ours:
        name = printable(connection.exec_driver_sql("SELECT current_database()").scalar_one())
        found = f"The database {name} has tables of another program ({printable(table or 'alembic_version')})"
        raise UserError(f"{found}: {EMPTY_DATABASE}.")
    return revision


def _config() -> Config:
    spec = find_spec("migrations")
    assert spec is not None, "the migrations are installed with the program"
    assert spec.submodule_search_locations, "the migrations are a folder"
    config = Config()
    config.set_main_option("script_location", str(Path(next(iter(spec.submodule_search_locations)))).replace("%", "%%"))
    return config


@contextlib.contextmanager
def _connection(database_url: str) -> Iterator[Connection]:
    engine = create_engine(database_url, connect_args={"connect_timeout": CONNECT_TIMEOUT_S})
    try:
        if shares_sessions(engine):
            raise UserError(NEEDS_SESSIONS)
        with engine.connect() as connection:
            encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
            if encoding != "UTF8":
                raise UserError(NEEDS_UTF8.format(encoding))
            yield connection
    except OperationalError as failure:
        if any(text in str(failure.orig) for text in NO_PRIMARY_TEXTS):
            raise UserError(NO_PRIMARY) from failure
        raise database_error(failure.orig or failure) from failure
    except DBAPIError as failure:
        raise UserError(f"The database refuses: {_first_line(failure)}; {OWNER_ADVICE}.") from failure
    finally:
        engine.dispose()


def _failed_statement(failure: BaseException) -> DBAPIError:
    """Return the failure of a statement: Alembic's clean-up fails with another error on a connection that is lost."""
    while not isinstance(failure, DBAPIError):
        if failure.__context__ is None:
            raise failure
        failure = failure.__context__
    return failure


def _first_line(failure: DBAPIError) -> str:
    return str(failure.orig).strip().partition("\n")[0]
