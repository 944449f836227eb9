"""Schema migrations: a node requires the newest schema, and migrates an empty database only."""

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.exc import DBAPIError, OperationalError

from muster.errors import DATABASE_ADVICE, UserError
from muster.settings import DEFAULT_SHARDS

CONNECT_TIMEOUT_S = 10
VERSION_TABLE = "alembic_version"
"""A run of migrations that failed at the first leaves this table behind, empty."""


def upgrade(database_url: str, shards: int = DEFAULT_SHARDS) -> str | None:
    """Bring the database to the newest schema.

    Args:
        database_url: the database; a migration in progress is waited for.
        shards: how many shards an empty database is made with; another keeps its own count.

    Returns:
        The revision it had, None when it was empty.

    Raises:
        UserError: the database does not answer, refuses, or was made by a newer program.
    """
    with _connection(database_url) as connection:
        before = _current(connection)
    config = _config()
    config.attributes.update({"database_url": database_url, "shards": shards})
    try:
        command.upgrade(config, "head")
    except CommandError as failure:
        unknown = f"The database has schema {before}, which this program does not know ({failure})"
        raise UserError(f"{unknown}; use a newer program.") from failure
    except DBAPIError as failure:
        raise UserError(f"The database could not be migrated: {_first_line(failure)}") from failure
    return before


def require_newest(database_url: str, shards: int = DEFAULT_SHARDS) -> None:
    """Make sure that the schema is this program's own; an empty database is given it, with so many shards.

    Raises:
        UserError: the schema is older or newer, or the database does not answer.
    """
    with _connection(database_url) as connection:
        current = _current(connection)
        is_empty = current is None and set(inspect(connection).get_table_names()) <= {VERSION_TABLE}
    if is_empty:
        upgrade(database_url, shards)
    elif current != newest():
        what_to_do = "use a newer program" if (current or "") > (newest() or "") else "run muster migrate"
        raise UserError(f"The database has schema {current} and this program needs {newest()}: {what_to_do}.")


def newest() -> str | None:
    """Return the newest revision that this program has."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


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
        with engine.connect() as connection:
            yield connection
    except OperationalError as failure:
        raise UserError(f"The database does not answer: {_first_line(failure)}; {DATABASE_ADVICE}.") from failure
    finally:
        engine.dispose()


def _first_line(failure: DBAPIError) -> str:
    return str(failure.orig).strip().partition("\n")[0]
