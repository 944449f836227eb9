"""The writer's autocommit connection, for single statements that are a transaction each.

Most writes of a node use it, in batches of a few dozen rows. It uses the driver directly, because a connection pool and
SQLAlchemy's engine cost more time than such a batch itself.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from psycopg2 import Error
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.postgres.connections import Limits, StaleConnection, connector, repeated
from coordinator_core.state_store.postgres.failures import (
    DUPLICATE_PREPARED_STATEMENT,
    INVALID_STATEMENT_NAME,
    ConnectionLost,
    DataRefused,
    is_lost,
    require_confirmed,
    sqlstate,
    translate,
    translate_autocommit,
)
from coordinator_core.state_store.postgres.hung_calls import HUNG_CALLS
from coordinator_core.state_store.postgres.prepared_statements import PreparedStatement

ALIVE_S: Final = 1
"""How long a connection counts as alive after a response, in seconds."""
PING: Final = "SELECT"
"""Sent first on an idle connection, so that a statement is not sent on a dead connection with an unknown outcome."""


class AutocommitConnection:
    """A connection that is opened on demand; for one thread at a time."""

    def __init__(self, url: str, name: str, limits: Limits, planner: Mapping[str, str] | None = None) -> None:
        """Do not connect before the first call. The arguments are those of `ConnectionPool`."""
        self._open = connector(url, name, limits, planner or {})
        self._statement_timeout_ms = limits.statement_timeout_ms
        self._connection: PsycopgConnection | None = None
        self._prepared: set[str] = set()
        """Names of the statements that are prepared on the connection."""
        self._certainly_alive_until_s = 0.0

    def run(self, statement: PreparedStatement, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run a statement as a transaction of its own; return its rows. Repeats it if nothing was stored.

        Raises:
            StoreUnavailable: nothing was stored.
            OutcomeUnknown: the connection was lost after the statement was sent.
            DataRefused: the database rejected the data; nothing was stored.
        """
        rows = repeated(lambda: self._attempt(statement, parameters))
        self._certainly_alive_until_s = time.monotonic() + ALIVE_S
        return rows

    def close(self) -> None:
        """Close the connection, if open."""
        connection, self._connection = self._connection, None
        self._prepared.clear()
        if connection is not None:
            connection.close()

    def _attempt(self, statement: PreparedStatement, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        connection = self._connection or self._connect()
        try:
            self._ensure_prepared(connection, statement)
            with HUNG_CALLS.ended(connection, self._statement_timeout_ms):
                rows = _fetch(connection, statement.execute, parameters)
        except Error as failure:
            if is_lost(failure):
                self.close()
            elif sqlstate(failure) == INVALID_STATEMENT_NAME:
                self._prepared.clear()
            raise translate_autocommit(failure) from failure
        except ValueError as failure:
            raise DataRefused(str(failure)) from failure  # The driver rejects NUL and unpaired surrogates.
        require_confirmed(connection)
        return rows

    def _connect(self) -> PsycopgConnection:
        try:
            connection = self._open()
        except Error as failure:
            raise StoreUnavailable(str(translate(failure))) from failure
        connection.autocommit = True
        self._connection = connection
        return connection

    def _ensure_prepared(self, connection: PsycopgConnection, statement: PreparedStatement) -> None:
        """Prepare the statement if necessary, and check that the connection is alive."""
        is_prepared = statement.name in self._prepared
        if is_prepared and time.monotonic() <= self._certainly_alive_until_s:
            return
        try:
            with HUNG_CALLS.ended(connection, self._statement_timeout_ms):
                _fetch(connection, PING if is_prepared else statement.prepare)
        except Error as failure:
            if is_lost(failure):
                self.close()
            if sqlstate(failure) != DUPLICATE_PREPARED_STATEMENT:
                error = translate(failure)
                raise (StaleConnection(error) if isinstance(error, ConnectionLost) else error) from failure
        self._prepared.add(statement.name)


def _fetch(
    connection: PsycopgConnection, text: str, parameters: Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return list(cursor.fetchall()) if cursor.description else []
