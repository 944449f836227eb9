"""A call that waits runs on a thread of its own, and a test waits until the database says that it waits."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TypeVar

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

PATIENCE_S = 30.0
POLL_S = 0.01
GATE = 4711

T = TypeVar("T")

GATED_FUNCTION = f"""
CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({GATE});
    RETURN NULL;
END
$$;
CREATE TRIGGER gate BEFORE INSERT ON offsets FOR EACH STATEMENT EXECUTE FUNCTION wait_at_gate();
"""


class Gate:
    """Holds up every commit of offsets in the middle of its transaction, until it is opened."""

    def __init__(self, connection: PsycopgConnection) -> None:
        self._connection = connection
        self._execute(GATED_FUNCTION)

    def close(self) -> None:
        self._execute(f"SELECT pg_advisory_lock({GATE})")

    def open(self) -> None:
        self._execute("SELECT pg_advisory_unlock_all()")

    def wait_for(self, application: str, how_many: int = 1) -> None:
        """Return when a connection of this name, or as many as are asked for, wait for a lock."""
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
        poll_until(lambda: self._fetch_count(waiting, application) >= how_many)

    def _fetch_count(self, statement: str, *parameters: object) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            row = cursor.fetchone()
        assert row is not None, "a count always returns a row"
        return int(row[0])

    def _execute(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)


@contextmanager
def in_background(call: Callable[[], T]) -> Iterator[Future[T]]:
    """Run a call beside the block; its end is awaited with the block's."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(call)


def poll_until(is_so: Callable[[], bool]) -> None:
    """Ask again and again, because a database tells nobody when somebody waits."""
    never = Event()
    for _ in range(round(PATIENCE_S / POLL_S)):
        if is_so():
            return
        never.wait(POLL_S)
    raise AssertionError("what was waited for did not come")
