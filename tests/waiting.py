"""A call that waits runs on a thread of its own, and a test waits until the database says that it waits."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TypeVar

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

PATIENCE_S = 30.0
POLL_S = 0.01

T = TypeVar("T")


@contextmanager
def in_background(call: Callable[[], T], release: Callable[[], object]) -> Iterator[Future[T]]:
    """Run a call beside the block. With the block's end comes `release`, which lets go of what the call waits for."""
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(call)
        try:
            yield called
        finally:
            release()


def wait_until_blocked(connection: PsycopgConnection, application: str, how_many: int = 1) -> None:
    """Return when as many connections of this name wait for a lock; `connection` must be in no transaction."""
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"

    def is_so() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(blocked, (application,))
            row = cursor.fetchone()
        assert row is not None, "a count always returns a row"
        return int(row[0]) >= how_many

    poll_until(is_so)


def poll_until(is_so: Callable[[], bool]) -> None:
    """Ask again and again, because a database tells nobody when somebody waits."""
    never = Event()
    for _ in range(round(PATIENCE_S / POLL_S)):
        if is_so():
            return
        never.wait(POLL_S)
    raise AssertionError("what was waited for did not come")
