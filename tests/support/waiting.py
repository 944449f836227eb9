"""How tests wait: for a condition, with one limit that only something that hangs reaches."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from threading import Event
from typing import Any, TypeVar

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

PATIENCE_S = 300
"""Limit of every wait, far beyond what a busy machine needs; no result depends on its length."""
POLL_S = 0.01
POLL_MAX_S = 0.1
POLL_SHARE = 0.1
"""The part of the wait so far after which a condition is looked at again: often at first, and rarely in a long wait."""
LOOP_TURNS = 100

T = TypeVar("T")


@contextmanager
def in_background(call: Callable[[], T], release: Callable[[], object]) -> Iterator[Future[T]]:
    """Run a call in a thread during the block. At its end call `release`, which ends the call's wait."""
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(call)
        try:
            yield called
        finally:
            release()


def wait_until_blocked(
    connection: PsycopgConnection, application: str, how_many: int = 1, *, call: Future[Any] | None = None
) -> None:
    """Return when as many connections of this name wait for a lock; `connection` must be in no transaction.

    Raises:
        AssertionError: `call`, which should have come to wait for the lock, has ended instead.
    """
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"

    def is_so() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(blocked, (application,))
            row = cursor.fetchone()
        assert row is not None, "a count always returns a row"
        if int(row[0]) >= how_many:
            return True
        if call is not None and call.done():
            raise AssertionError(f"it ended instead of waiting for a lock: {call.exception() or call.result()!r}")
        return False

    poll_until(is_so)


def poll_until(look: Callable[[], T]) -> T:
    """Call `look` until it returns a true value, and return that; for conditions without notification.

    Raises:
        AssertionError: it did not within `PATIENCE_S`; the message shows the source of `look`.
    """
    never = Event()
    started_s = time.monotonic()
    while (waited_s := time.monotonic() - started_s) < PATIENCE_S:
        if found := look():
            return found
        never.wait(min(max(POLL_S, POLL_SHARE * waited_s), POLL_MAX_S))
    raise AssertionError(f"not true within {PATIENCE_S} s: {inspect.getsource(look).strip()}")


async def turns() -> None:
    """Let the event loop turn so often that each task has come to wait for something outside of it.

    `anyio.wait_all_tasks_blocked` looks every 0.1 s, and may always find a loop that wakes as often.
    """
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)


@asynccontextmanager
async def limited(what: str) -> AsyncIterator[None]:
    """Limit the time of an `async with` block; the error names what it waited for."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what}") from None
