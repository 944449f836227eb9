"""What Postgres complains of says what to do: refuse the data, repeat the transaction, or try later.

Driver exceptions are translated here and go no further. Until COMMIT is sent nothing is stored, whatever happens.
Once it is sent, only a server that says that it rolled back, and is still there, is believed.
"""

from psycopg2 import Error

from coordinator_core.store.interface import OutcomeUnknown, StoreError, StoreUnavailable

DATA_CLASSES = ("22", "23", "54")
"""SQLSTATE classes: data exception, integrity constraint violation, program limit exceeded."""

ROLLBACK_CLASS = "40"
"""SQLSTATE class of what the server rolled back and wants to see again: serialization failure, deadlock."""

UNKNOWN_STATEMENT = "26000"
KNOWN_STATEMENT = "42P05"
"""The server knows a prepared statement no more, or knows it already: somebody in between has changed servers."""

LOCK_NOT_AVAILABLE = "55P03"
READ_ONLY = "25006"
LOST_CLASSES = ("08", "57P")
"""Connection exceptions, and operator interventions that end it (57014, a cancelled statement, does not)."""

IDLE_IN_TRANSACTION = "25P03"


class DataRefused(StoreError):
    """The database does not take this data, now or later."""


class Collided(StoreUnavailable):
    """The transaction was rolled back for the sake of another one; the same one may go through at once."""


class Blocked(StoreUnavailable):
    """Somebody held a lock for too long."""


class ConnectionLost(StoreUnavailable):
    """The connection is gone, and whatever was not committed with it."""


def translate(failure: Error) -> StoreError:
    """Tell what a failed statement means; nothing of its transaction is stored."""
    sentence, code = _sentence(failure), sqlstate(failure)
    if is_lost(failure):
        return ConnectionLost(sentence)
    if code.startswith(DATA_CLASSES):
        return DataRefused(sentence)
    if code.startswith(ROLLBACK_CLASS) or code == UNKNOWN_STATEMENT:
        return Collided(sentence)
    if code == LOCK_NOT_AVAILABLE:
        return Blocked(sentence)
    return StoreUnavailable(sentence)


def translate_commit(failure: Error) -> StoreError:
    """Tell what a failed COMMIT means."""
    if not is_lost(failure) and sqlstate(failure).startswith(ROLLBACK_CLASS):
        return translate(failure)
    return OutcomeUnknown(_sentence(failure))


def translate_alone(failure: Error) -> StoreError:
    """Tell what a failed statement means that was a transaction of its own: its COMMIT was sent with it."""
    if is_lost(failure) and sqlstate(failure) != READ_ONLY:
        return OutcomeUnknown(_sentence(failure))
    return translate(failure)


def is_lost(failure: Error) -> bool:
    """Tell whether the connection is of no more use.

    One that answers read-only is of none either: its server was the primary once, and the next may be another.
    """
    code = sqlstate(failure)
    return not code or code.startswith((*LOST_CLASSES, IDLE_IN_TRANSACTION, READ_ONLY))


def sqlstate(failure: Error) -> str:
    """Return Postgres' code, or an empty text when the server did not get to say one."""
    return failure.pgcode or ""


def _sentence(failure: Error) -> str:
    lines = str(failure).strip().splitlines()
    return lines[0] if lines else type(failure).__name__
