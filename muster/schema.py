"""A node works on the newest schema only, and only an empty database is given it unasked."""

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.exc import OperationalError

from muster.errors import UserError

CONNECT_TIMEOUT_S = 10


def upgrade(database_url: str) -> str | None:
    """Bring the database to the newest schema; return the revision it had, None when it was empty."""
    with _connection(database_url) as connection:
        before = _current(connection)
    config = _config()
    config.attributes["database_url"] = database_url
    command.upgrade(config, "head")
    return before


def require_newest(database_url: str) -> None:
    """Make sure that the schema is this program's own; an empty database is given it.

    Raises:
        UserError: the schema is older or newer, or the database does not answer.
    """
    with _connection(database_url) as connection:
        current = _current(connection)
        is_empty = current is None and not inspect(connection).get_table_names()
    if is_empty:
        upgrade(database_url)
    elif current != newest():
        raise UserError(f"The database has schema {current} and this program needs {newest()}: run muster migrate.")


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
        reason = str(failure.orig).strip().splitlines()[0]
        raise UserError(f"The database does not answer: {reason}") from failure
    finally:
        engine.dispose()
