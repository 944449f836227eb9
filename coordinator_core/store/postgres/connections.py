"""A line is a small pool of connections for one purpose, so that no purpose ever waits for another.

Rules:

* READ COMMITTED, said explicitly. Statements, lock waits and idle transactions are bounded by the server itself, so
  that a node that stops in the middle of a transaction holds nobody up.
* Every statement goes through `Transaction.execute`, which is where driver exceptions end.
* A transaction that collided is repeated, a bounded number of times. One whose connection had died in the pool is
  begun again on a fresh connection. Neither has stored anything.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg2 import Error
from sqlalchemy import Connection, CursorResult, Engine, Executable, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from coordinator_core.store.interface import StoreUnavailable
from coordinator_core.store.postgres.failures import (
    Collided,
    ConnectionLost,
    DataRefused,
    is_lost,
    translate,
    translate_commit,
)

ATTEMPTS_MAX = 3
"""How often a transaction that collides is tried."""

KEEPALIVE_S = 1
KEEPALIVE_PROBES = 3

T = TypeVar("T")
Result = CursorResult[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a line waits, for what."""

    statement_timeout_ms: int
    lock_timeout_ms: int
    idle_in_transaction_timeout_ms: int
    connect_timeout_s: int


class Transaction:
    """One transaction under way, or a single read; statements are strings with psycopg2's parameters, or Core's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._has_begun = False

    def execute(self, statement: str | Executable, parameters: Mapping[str, Any] | None = None) -> Result:
        """Run a statement.

        Raises:
            StoreError: it failed; nothing of the transaction is stored.
        """
        try:
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
            raise DataRefused(str(failure)) from failure  # The driver itself refuses NUL and unpaired surrogates.
        self._has_begun = True
        return result

    @property
    def has_begun(self) -> bool:
        """Tell whether any statement has gone through."""
        return self._has_begun

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Take back what the block did, and only that, when its data is refused; any other failure ends it all."""
        self.execute("SAVEPOINT attempt")
        try:
            yield
        except DataRefused:
            self.execute("ROLLBACK TO SAVEPOINT attempt")
            self.execute("RELEASE SAVEPOINT attempt")
            raise
        self.execute("RELEASE SAVEPOINT attempt")


class Line:
    """A pool of at most `size` connections; usable from any thread, a thread a connection."""

    def __init__(
        self,
        url: str,
        name: str,
        size: int,
        limits: Limits,
        planner: Mapping[str, str] | None = None,
        *,
        stands_alone: bool = False,
    ) -> None:
        """Prepare; nothing is connected before the first call.

        Args:
            url: `postgresql+psycopg2://…`.
            name: what the server calls its connections by, after `muster-`.
            size: how many there are at most.
            limits: how long they wait.
            planner: server settings that are stronger than the server's own.
            stands_alone: every statement is a transaction of its own; for reads.
        """
        self._engine = create_engine(
            make_url(url),
            isolation_level="AUTOCOMMIT" if stands_alone else "READ COMMITTED",
            pool_size=size,
            max_overflow=0,
            pool_timeout=limits.connect_timeout_s,
            use_native_hstore=False,
            connect_args=connect_arguments(name, limits, planner or {}),
        )

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Return what `work` returns, once everything it did is committed. It may be called more than once.

        Raises:
            StoreUnavailable: nothing was stored.
            OutcomeUnknown: the connection was lost while committing.
            DataRefused: the database does not take the data; nothing was stored.
        """
        return repeated(lambda: self._commit(work))

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what `work` returns; it changes nothing."""
        return repeated(lambda: self._read(work))

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _commit(self, work: Callable[[Transaction], T]) -> T:
        with _connected(self._engine) as connection:
            result = _guarded(work, connection)
            try:
                connection.commit()
            except DBAPIError as failure:
                connection.invalidate()
                raise translate_commit(_cause(failure)) from failure
            return result

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with _connected(self._engine) as connection:
            return _guarded(work, connection)


class StaleConnection(Exception):
    """The connection had died while nobody used it."""


def repeated(attempt: Callable[[], T]) -> T:
    """Return what an attempt returns, which is made again, a bounded number of times, where it has stored nothing."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return attempt()
        except (Collided, StaleConnection):
            continue
    try:
        return attempt()
    except StaleConnection as failure:
        raise StoreUnavailable(str(failure)) from failure


def _cause(failure: DBAPIError) -> Error:
    """Return what the driver said."""
    assert isinstance(failure.orig, Error)
    return failure.orig


def _guarded(work: Callable[[Transaction], T], connection: Connection) -> T:
    transaction = Transaction(connection)
    try:
        return work(transaction)
    except ConnectionLost as failure:
        if transaction.has_begun:
            raise
        raise StaleConnection(str(failure)) from failure


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    try:
        connection = engine.connect()
    except DBAPIError as failure:
        raise StoreUnavailable(str(translate(_cause(failure)))) from failure
    except PoolTimeout as failure:
        raise StoreUnavailable("every connection is in use") from failure
    try:
        yield connection
    finally:
        # One that was lost meanwhile cannot roll back. It is closed all the same, and what was lost has been told.
        with suppress(DBAPIError):
            connection.close()


def connect_arguments(name: str, limits: Limits, planner: Mapping[str, str]) -> dict[str, Any]:
    """Return what psycopg2 connects with, beside the place."""
    settings = {
        "timezone": "UTC",
        "statement_timeout": str(limits.statement_timeout_ms),
        "lock_timeout": str(limits.lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(limits.idle_in_transaction_timeout_ms),
        "jit": "off",
        **planner,
    }
    return {
        "application_name": f"muster-{name}",
        "client_encoding": "utf8",
        "connect_timeout": limits.connect_timeout_s,
        "keepalives_idle": KEEPALIVE_S,
        "keepalives_interval": KEEPALIVE_S,
        "keepalives_count": KEEPALIVE_PROBES,
        "tcp_user_timeout": limits.lock_timeout_ms,
        "options": " ".join(f"-c {key}={value}" for key, value in settings.items()),
    }
