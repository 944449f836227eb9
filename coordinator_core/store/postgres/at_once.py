"""One kept connection for statements that are a transaction each, with nothing between them and the driver.

Most of what a node writes goes this way, in batches of some dozen rows, and after each the writer's code has gone cold:
what a pool and an engine do around a statement costs such a batch more than writing its parameters does.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import psycopg2
from psycopg2 import Error
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import make_url

from coordinator_core.store.interface import StoreUnavailable
from coordinator_core.store.postgres.connections import Limits, StaleConnection, connect_arguments, repeated
from coordinator_core.store.postgres.failures import (
    KNOWN_STATEMENT,
    UNKNOWN_STATEMENT,
    ConnectionLost,
    DataRefused,
    is_lost,
    sqlstate,
    translate,
    translate_alone,
)
from coordinator_core.store.postgres.prepared_statements import PreparedStatement

ALIVE_S: Final = 1
"""How long a connection that has answered counts as alive."""
KNOCK: Final = "SELECT"
"""Finds out whether anybody is there, before something is sent of which nobody could tell whether it was done."""


class AtOnce:
    """A connection that is made when it is needed; for one thread at a time."""

    def __init__(self, url: str, name: str, limits: Limits, planner: Mapping[str, str] | None = None) -> None:
        """Prepare; nothing is connected before the first call. The arguments are those of `Line`."""
        place = make_url(url)
        self._place, options = place.get_dialect()().create_connect_args(place)
        self._options = {**options, **connect_arguments(name, limits, planner or {})}
        self._connection: PsycopgConnection | None = None
        self._prepared: set[str] = set()
        """Names of the statements that the connection knows."""
        self._certainly_alive_until_s = 0.0

    def run(self, statement: PreparedStatement, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that changes something and stands alone. It may be sent more than once.

        Raises:
            StoreUnavailable: nothing was stored.
            OutcomeUnknown: the connection was lost after the statement was sent.
            DataRefused: the database does not take the data; nothing was stored.
        """
        rows = repeated(lambda: self._attempt(statement, parameters))
        self._certainly_alive_until_s = time.monotonic() + ALIVE_S
        return rows

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        self._prepared.clear()
        if connection is not None:
            connection.close()

    def _attempt(self, statement: PreparedStatement, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        connection = self._connection or self._connect()
        try:
            self._see_to(connection, statement)
            return _fetch(connection, statement.execute, parameters)
        except Error as failure:
            if is_lost(failure):
                self.close()
            elif sqlstate(failure) == UNKNOWN_STATEMENT:
                self._prepared.clear()
            raise translate_alone(failure) from failure
        except ValueError as failure:
            raise DataRefused(str(failure)) from failure  # The driver itself refuses NUL and unpaired surrogates.

    def _connect(self) -> PsycopgConnection:
        try:
            connection: PsycopgConnection = psycopg2.connect(*self._place, **self._options)
        except Error as failure:
            raise StoreUnavailable(str(translate(failure))) from failure
        connection.autocommit = True
        self._connection = connection
        return connection

    def _see_to(self, connection: PsycopgConnection, statement: PreparedStatement) -> None:
        """Make sure that the server knows the statement, and is there."""
        is_known = statement.name in self._prepared
        if is_known and time.monotonic() <= self._certainly_alive_until_s:
            return
        try:
            _fetch(connection, KNOCK if is_known else statement.prepare)
        except Error as failure:
            if is_lost(failure):
                self.close()
            if sqlstate(failure) != KNOWN_STATEMENT:
                told = translate(failure)
                raise (StaleConnection(str(told)) if isinstance(told, ConnectionLost) else told) from failure
        self._prepared.add(statement.name)


def _fetch(
    connection: PsycopgConnection, text: str, parameters: Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return list(cursor.fetchall()) if cursor.description else []
