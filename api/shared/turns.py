"""Turns: heartbeats and small commits come in between many joins and syncs, and large requests; queries by client.

A commit of 10,000 partitions takes the event loop some 30 ms. So few large requests begin in one turn and are in
progress at once, and clients take turns: one client's large requests delay its own. After one that had a turn for
itself the next ones wait, so that Postgres and its checkpoints, which need as long again, do not fall behind.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
R = TypeVar("R")

LONG_POLLS_AT_ONCE: Final = 25
"""How many joins and syncs begin in one turn; they take some ten milliseconds."""


class LongPollTurns:
    """Limits how many long polls begin before the event loop reads its sockets again."""

    def __init__(self) -> None:
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Long polls that begin in a later turn, in order."""

    async def wait(self) -> None:
        """Return in this turn of the event loop, or in a later one if too many long polls have begun in it."""
        turn = self.begin()
        if turn is not None:
            await turn

    def begin(self) -> asyncio.Future[None] | None:
        """Return what a long poll has to wait for; None: it begins now."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._begun < LONG_POLLS_AT_ONCE:
            self._begun += 1
            return None
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        return turn

    def _next_turn(self) -> None:
        """Let the longest waiting begin; new ones begin at once only if none waits."""
        self._begun = 0
        while self._waiting and self._begun < LONG_POLLS_AT_ONCE:
            turn = self._waiting.popleft()
            if not turn.done():  # A client may have gone meanwhile.
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)


class QueryTurns:
    """Limits the queries of one client that run at once, so that those of others find a connection."""

    def __init__(self, max_queries: int) -> None:
        """Start without queries.

        Args:
            max_queries: how many run at once; one client may have three quarters of them.
        """
        self._max_of_client = max(1, max_queries * 3 // 4)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Client → the turns that are left to it, while it has queries."""

    async def run(self, client: str, query: Callable[[], Awaitable[T]]) -> T:
        """Run a query of a client when it is its turn; that lasts until the query ends, if its request is cancelled."""
        turns = self._turns.get(client)
        if turns is None:
            turns = self._turns[client] = asyncio.Semaphore(self._max_of_client)
        await turns.acquire()
        running = asyncio.ensure_future(query())

        def end(ended: asyncio.Future[T]) -> None:
            turns.release()
            if not ended.cancelled():
                ended.exception()  # the request may have been cancelled

        running.add_done_callback(end)
        return await asyncio.shield(running)


SMALL_REQUEST_MAX_BYTES: Final = 4_096
"""A request with a body up to this size, of some 50 partitions, never waits."""
LARGE_REQUESTS_AT_ONCE_BYTES: Final = 65_536
"""The bodies of the large requests that begin in one turn, unless one alone is larger; they take some milliseconds."""
LARGE_REQUESTS_IN_PROGRESS_BYTES: Final = 1_048_576
"""The bodies of the large requests in progress, unless one alone is larger: more would only wait for the database."""


class LargeRequestTurns:
    """Limits the large requests that begin in one turn of the event loop, and those in progress.

    The next one is that of the waiting client whose requests have had the fewest bytes (start-time fair queuing).
    """

    def __init__(self, bytes_per_s: int) -> None:
        """Start without requests.

        Args:
            bytes_per_s: how many bytes of requests over `LARGE_REQUESTS_AT_ONCE_BYTES` begin a second at most.
        """
        self._bytes_per_s = bytes_per_s
        self._begun_bytes = 0
        """Of requests that began in this turn."""
        self._in_progress_bytes = 0
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """Client → the sizes of its waiting requests, in order."""
        self._served_bytes: dict[str, int] = {}
        """Waiting client → the bytes that it has had, counted from those of the client that began last."""
        self._last_served_bytes = 0

    async def begin(self, client: str, size: int) -> None:
        """Return when a request of a client with a body of `size` bytes may begin; `end` must follow."""
        if not self._waiting and self._fits(size):
            self._begin(size)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append((size, turn))
        self._served_bytes.setdefault(client, self._last_served_bytes)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(size)
            raise

    def end(self, size: int, rest_bytes: int) -> None:
        """End a request that has begun: it is answered, or parked.

        Args:
            size: the size with which it began.
            rest_bytes: as how many bytes it counts for the rest after it.
        """
        if size > LARGE_REQUESTS_AT_ONCE_BYTES:
            asyncio.get_running_loop().call_later(rest_bytes / self._bytes_per_s, self._release, size)
        else:
            self._release(size)

    def shrink(self, excess: int) -> None:
        """Let others begin, since a request in progress has so many bytes less than it began with."""
        self._release(excess)

    def _release(self, size: int) -> None:
        self._in_progress_bytes -= size
        self._begin_waiting()

    def _fits(self, size: int) -> bool:
        is_first_of_turn = not self._begun_bytes or self._begun_bytes + size <= LARGE_REQUESTS_AT_ONCE_BYTES
        is_alone = not self._in_progress_bytes
        return is_first_of_turn and (is_alone or self._in_progress_bytes + size <= LARGE_REQUESTS_IN_PROGRESS_BYTES)

    def _begin(self, size: int) -> None:
        if not self._begun_bytes:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._begun_bytes += size
        self._in_progress_bytes += size

    def _next_turn(self) -> None:
        self._begun_bytes = 0
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Let waiting requests begin in fair order while they fit."""
        while self._waiting:
            client = min(self._waiting, key=self._served_bytes.__getitem__)
            size, turn = self._waiting[client][0]
            if not turn.done() and not self._fits(size):
                return
            self._waiting[client].popleft()
            if not turn.done():  # A client may have gone meanwhile.
                turn.set_result(None)
                self._begin(size)
                self._last_served_bytes = self._served_bytes[client]
                self._served_bytes[client] += size
            if not self._waiting[client]:
                del self._waiting[client], self._served_bytes[client]


CONVERTED_AT_ONCE: Final = 250
"""How many items are converted in one turn; they take some milliseconds."""


async def convert_all(items: Sequence[T], convert: Callable[[T], R]) -> list[R]:
    """Convert items one by one; other requests come in between those of a group of thousands of members."""
    converted = [convert(item) for item in items[:CONVERTED_AT_ONCE]]
    for begin in range(CONVERTED_AT_ONCE, len(items), CONVERTED_AT_ONCE):
        await asyncio.sleep(0)
        converted += [convert(item) for item in items[begin : begin + CONVERTED_AT_ONCE]]
    return converted
