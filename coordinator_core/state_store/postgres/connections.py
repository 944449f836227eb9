"""Connection pools, one per purpose so that purposes do not wait for each other, and transactions.

Rules:

* The isolation level is READ COMMITTED. The server limits statements, lock waits and idle transactions, so that a
  stopped node does not block others.
* Timeouts and the search path are set in the session, since PgBouncer refuses or ignores them as startup parameters
  (`pooler.py`).
* Every statement goes through `Transaction.execute`, which translates driver exceptions.
* A transaction that conflicts with another is repeated, up to a limit. One whose idle connection had died starts again
  on a new connection. Neither has stored anything.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg2
from psycopg2 import Error
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import Connection, CursorResult, Executable, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.postgres.failures import (
    ConnectionLost,
    DataRefused,
    FormerPrimary,
    TransactionConflict,
    is_lost,
    require_confirmed,
    translate,
    translate_commit,
)
from coordinator_core.state_store.postgres.hung_calls import HUNG_CALLS

ATTEMPTS_MAX = 3
"""The maximum number of attempts of a transaction."""

KEEPALIVE_S = 1
KEEPALIVE_PROBES = 3

T = TypeVar("T")
Result = CursorResult[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The timeouts of a pool's connections."""

    statement_timeout_ms: int
    lock_timeout_ms: int
    idle_in_transaction_timeout_ms: int
    connect_timeout_s: int


class Transaction:
    """A transaction, or a read; statements are strings with psycopg2's parameters, or SQLAlchemy's."""

    def __init__(self, connection: Connection, statement_timeout_ms: int) -> None:
        self._connection = connection
        self.statement_timeout_ms = statement_timeout_ms
        self._has_begun = False

    def extend_statement_timeout(self, timeout_ms: int) -> None:
        """Give the further statements of this transaction, and its COMMIT, more time than those of its pool have."""
        self.execute(f"SET LOCAL statement_timeout = {timeout_ms}")
        self.statement_timeout_ms = timeout_ms

    def execute(self, statement: str | Executable, parameters: Mapping[str, Any] | None = None) -> Result:
        """Run a statement.

        Raises:
            StoreError: it failed; nothing of the transaction is stored.
        """
        try:
            with _no_hanging(self._connection, self.statement_timeout_ms):
                if isinstance(statement, str):
                    result = self._connection.exec_driver_sql(statement, dict(parameters or {}))
                else:
                    result = self._connection.execute(statement, parameters)
        except DBAPIError as failure:
            cause = _cause(failure)
            if is_lost(cause):
                self._connection.invalidate()
            raise translate(cause) from failure
        except ValueError as failure:
            raise DataRefused(str(failure)) from failure  # The driver rejects NUL and unpaired surrogates.
        self._has_begun = True
        return result

    @property
    def has_begun(self) -> bool:
        """Return whether any statement has succeeded."""
        return self._has_begun

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Roll back the block only, if its data is rejected; any other error fails the transaction."""
        self.execute("SAVEPOINT attempt")
        try:
            yield
        except DataRefused:
            self.execute("ROLLBACK TO SAVEPOINT attempt")
            self.execute("RELEASE SAVEPOINT attempt")
            raise
        self.execute("RELEASE SAVEPOINT attempt")


class ConnectionPool:
    """A thread-safe pool of at most `size` connections."""

    def __init__(
        self,
        url: str,
        name: str,
        size: int,
        limits: Limits,
        planner: Mapping[str, str] | None = None,
        *,
        is_autocommit: bool = False,
    ) -> None:
        """Do not connect before the first call.

        Args:
            url: `postgresql+psycopg2://…`.
            name: the application name of the connections, after `muster-`.
            size: the maximum number of connections.
            limits: the timeouts.
            planner: server settings for these connections.
            is_autocommit: every statement is a transaction of its own; for reads.
        """
        self._engine = create_engine(
            make_url(url),
            creator=connector(url, name, limits, planner or {}),
            isolation_level="AUTOCOMMIT" if is_autocommit else "READ COMMITTED",
            pool_size=size,
            max_overflow=0,
            pool_timeout=limits.connect_timeout_s,
            use_native_hstore=False,
        )
        self._statement_timeout_ms = limits.statement_timeout_ms

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction, commit, and return its result. `work` may be called more than once.

        Raises:
            StoreUnavailable: nothing was stored.
            OutcomeUnknown: the connection was lost during COMMIT.
            DataRefused: the database rejected the data; nothing was stored.
        """
        return repeated(lambda: self._commit(work))

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads, and return its result."""
        return repeated(lambda: self._read(work))

    def close(self) -> None:
        """Close every connection that is not in use; further calls open new ones."""
        self._engine.dispose()

    def _commit(self, work: Callable[[Transaction], T]) -> T:
        with self._connected() as connection:
            transaction = Transaction(connection, self._statement_timeout_ms)
            result = _guarded(work, transaction)
            try:
                with _no_hanging(connection, transaction.statement_timeout_ms):
                    connection.commit()
            except DBAPIError as failure:
                connection.invalidate()
                raise translate_commit(_cause(failure)) from failure
            require_confirmed(_of_driver(connection))
            return result

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with self._connected() as connection:
            return _guarded(work, Transaction(connection, self._statement_timeout_ms))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            connection = self._engine.connect()
        except DBAPIError as failure:
            raise StoreUnavailable(str(translate(_cause(failure)))) from failure
        except PoolTimeout as failure:
            raise StoreUnavailable("every connection is in use") from failure
        try:
            yield connection
        except FormerPrimary:
            connection.invalidate()
            raise
        finally:
            # A lost connection cannot roll back. The error was already raised.
            with suppress(DBAPIError), _no_hanging(connection, self._statement_timeout_ms):
                connection.close()


class StaleConnection(Exception):
    """The connection had died while it was idle, or leads to a server that takes no writes."""

    def __init__(self, error: ConnectionLost) -> None:
        """Create the error for the failure of the first statement."""
        super().__init__(str(error))
        self.error = error


def repeated(attempt: Callable[[], T]) -> T:
    """Return the result of `attempt`; repeat it, up to a limit, after errors that stored nothing."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return attempt()
        except (TransactionConflict, StaleConnection):
            continue
    try:
        return attempt()
    except StaleConnection as failure:
        raise failure.error from failure


def _cause(failure: DBAPIError) -> Error:
    """Return the driver's exception."""
    assert isinstance(failure.orig, Error)
    return failure.orig


def _guarded(work: Callable[[Transaction], T], transaction: Transaction) -> T:
    try:
        return work(transaction)
    except ConnectionLost as failure:
        if transaction.has_begun:
            raise
        raise StaleConnection(failure) from failure


def _no_hanging(connection: Connection, statement_timeout_ms: int) -> AbstractContextManager[None]:
    if connection.invalidated:
        return nullcontext()
    return HUNG_CALLS.ended(_of_driver(connection), statement_timeout_ms)


def _of_driver(connection: Connection) -> PsycopgConnection:
    """Return the driver's connection of one that is checked out."""
    found: PsycopgConnection | None = connection.connection.driver_connection
    assert found is not None, "a connection that is checked out has one of the driver"
    return found


def connector(url: str, name: str, limits: Limits, planner: Mapping[str, str]) -> Callable[[], PsycopgConnection]:
    """Return a function that opens a connection with its settings made; the arguments are those of `ConnectionPool`."""
    parsed = make_url(url)
    address, options = parsed.get_dialect()().create_connect_args(parsed)
    arguments = {**options, **_connect_arguments(name, limits)}
    begin = "; ".join(f"SET {key} = '{value}'" for key, value in _session_settings(limits, planner).items())

    def connect() -> PsycopgConnection:
        connection: PsycopgConnection = psycopg2.connect(*address, **arguments)
        try:
            connection.autocommit = True
            with HUNG_CALLS.ended(connection, limits.statement_timeout_ms), connection.cursor() as cursor:
                cursor.execute(begin)
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def _connect_arguments(name: str, limits: Limits) -> dict[str, Any]:
    """Return the arguments of psycopg2's connect, without host and credentials."""
    return {
        "application_name": f"muster-{name}",
        "client_encoding": "utf8",
        "connect_timeout": limits.connect_timeout_s,
        "keepalives_idle": KEEPALIVE_S,
        "keepalives_interval": KEEPALIVE_S,
        "keepalives_count": KEEPALIVE_PROBES,
        "tcp_user_timeout": limits.lock_timeout_ms,
    }


def _session_settings(limits: Limits, planner: Mapping[str, str]) -> dict[str, str]:
    return {
        "timezone": "UTC",
        "client_min_messages": "warning",  # The server warns if a COMMIT did not wait for a standby (failures.py).
        "search_path": "public",
        "statement_timeout": str(limits.statement_timeout_ms),
        "lock_timeout": str(limits.lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(limits.idle_in_transaction_timeout_ms),
        "jit": "off",
        **planner,
    }
