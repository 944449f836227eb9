"""Detection of a connection pooler that shares sessions of Postgres, as PgBouncer does in transaction mode.

Nodes keep settings (timeouts above all) and prepared statements in their sessions, so a pooler between must be in
session mode. A pooler accepts a connection before it has a session for it, and reports a process id that it made up.
"""

from typing import Final

from sqlalchemy import Connection, Engine

ROUNDS: Final = 5
"""How many times sessions are compared: what others do meanwhile may hide that they are shared."""


def shares_sessions(engine: Engine) -> bool:
    """Return whether two connections can get the same session of Postgres, or one connection several.

    Raises:
        DBAPIError: the database does not answer.
    """
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as one:
        first = _session(one)
        driver_connection = one.connection.driver_connection
        assert driver_connection is not None, "a connection that is checked out has one of the driver"
        if first == driver_connection.get_backend_pid():
            return False
        with autocommit.connect() as other:
            # One connection twice in a row, or sessions that are shared in turn could look like sessions of their own.
            return any(_session(other) == first or {_session(one), _session(one)} != {first} for _ in range(ROUNDS))


def _session(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
