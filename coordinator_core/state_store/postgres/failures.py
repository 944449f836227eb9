"""Translation of driver exceptions to store errors, by SQLSTATE: reject the data, repeat the transaction, or try later.

Nothing is stored before COMMIT is sent. After that the outcome is unknown, unless the server reports a rollback and the
connection is alive.
"""

from typing import Final

from psycopg2 import Error
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.interface import OutcomeUnknown, StoreError, StoreUnavailable

DATA_CLASSES = ("22", "23", "54")
"""SQLSTATE classes: data exception, integrity constraint violation, program limit exceeded."""

ROLLBACK_CLASS = "40"
"""SQLSTATE class of transactions that the client may repeat: serialization failure, deadlock."""

INVALID_STATEMENT_NAME = "26000"
DUPLICATE_PREPARED_STATEMENT = "42P05"
"""A prepared statement is missing on the server, or exists already: a connection pooler has changed the server."""

LOCK_NOT_AVAILABLE = "55P03"
READ_ONLY = "25006"
DISK_FULL = "53100"
LOST_CLASSES = ("08", "57P")
"""Connection exceptions, and operator interventions that end it (57014, a cancelled statement, does not)."""

IDLE_IN_TRANSACTION = "25P03"

STANDBY_WAIT_CANCELLED: Final = "canceling wait for synchronous replication"
"""The warning, in English, of a COMMIT that succeeds although no synchronous standby has confirmed it."""


class DataRefused(StoreError):
    """The database rejects this data; repeating the write does not help."""

    summary = "the database refused a value"


class TransactionConflict(StoreUnavailable):
    """The transaction was rolled back because of another one; it may succeed when repeated."""

    summary = "another transaction was in the way"


class LockTimeout(StoreUnavailable):
    """A lock was not available within the lock timeout."""

    summary = "another session of the database holds a lock that the request needs"


class ConnectionLost(StoreUnavailable):
    """The connection was lost; its open transaction is not stored."""

    summary = "the connection to the database was lost"


class ReadOnlyServer(ConnectionLost):
    """The server takes no writes; a new connection may find another server."""

    summary = "the database is read-only: a standby, or default_transaction_read_only is on"


class FormerPrimary(ConnectionLost):
    """The server has a timeline that ended with the promotion of another; a new connection may find that one."""

    summary = "the database is a former primary, without what was stored since another server was promoted"


class DiskFull(StoreUnavailable):
    """The server could not extend a file."""

    summary = "the disk of the database is full"


class NotOnStandby(OutcomeUnknown):
    """A COMMIT succeeded although its wait for a synchronous standby was cancelled; a failover may lose it."""

    summary = "the wait of a commit for a synchronous standby was cancelled"


def translate(failure: Error) -> StoreError:
    """Return the error for a failed statement; nothing of its transaction is stored."""
    sentence, code = _sentence(failure), sqlstate(failure)
    if code == READ_ONLY:
        return ReadOnlyServer(f"{ReadOnlyServer.summary} ({sentence})")
    if is_lost(failure):
        return ConnectionLost(sentence)
    if code == DISK_FULL:
        return DiskFull(sentence)
    if code.startswith(DATA_CLASSES):
        return DataRefused(sentence)
    if code.startswith(ROLLBACK_CLASS) or code == INVALID_STATEMENT_NAME:
        return TransactionConflict(sentence)
    if code == LOCK_NOT_AVAILABLE:
        return LockTimeout(sentence)
    return StoreUnavailable(sentence)


def translate_commit(failure: Error) -> StoreError:
    """Return the error for a failed COMMIT."""
    if not is_lost(failure) and sqlstate(failure).startswith(ROLLBACK_CLASS):
        return translate(failure)
    return OutcomeUnknown(_sentence(failure))


def translate_autocommit(failure: Error) -> StoreError:
    """Return the error for a failed autocommit statement, whose COMMIT was sent with it."""
    if is_lost(failure) and sqlstate(failure) != READ_ONLY:
        return OutcomeUnknown(_sentence(failure))
    return translate(failure)


def require_confirmed(connection: PsycopgConnection) -> None:
    """Check, after a COMMIT, that its wait for a synchronous standby was not cancelled (`pg_cancel_backend`).

    Raises:
        NotOnStandby: it was.
    """
    if not connection.notices:
        return
    said = "".join(connection.notices)
    connection.notices.clear()
    if STANDBY_WAIT_CANCELLED in said:
        raise NotOnStandby(NotOnStandby.summary)


def is_lost(failure: Error) -> bool:
    """Return whether the connection is unusable.

    This includes a connection to a read-only server: it was the primary once, and a new connection may find another.
    """
    code = sqlstate(failure)
    return not code or code.startswith((*LOST_CLASSES, IDLE_IN_TRANSACTION, READ_ONLY))


def sqlstate(failure: Error) -> str:
    """Return the SQLSTATE, or an empty text if the server sent none."""
    return failure.pgcode or ""


def _sentence(failure: Error) -> str:
    lines = str(failure).strip().splitlines()
    return lines[0] if lines else type(failure).__name__
