"""A server with write batching and nothing else, as a comparison for commits.

It decodes a body and queues its bytes; while one statement runs, others queue, and the next one appends them all as one
row of a log. Answered commits are durable. There are no members, leases, tables of offsets or history.

Run: python -m bench.bare_commits PORT DATABASE_URL
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final, cast

import msgspec
import psycopg2
import uvloop
from litestar.types import HTTPScope, Receive, Send

from api.http.asgi import SINGLE_WRITE_EXTENSION, AsgiApp, SingleWrite
from api.http.endpoints.offsets import CommitBody
from api.http.limits import HttpLimits
from api.http.server import HttpServer
from api.shared.connection_gate import ConnectionCounts
from bench.bare_server import ANSWER, HEADERS, body_of
from muster.node.serve import bound_listener
from muster.settings import psql_url

LOG: Final = "CREATE TABLE IF NOT EXISTS bare_log (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data bytea)"
PREPARE: Final = "PREPARE append (bytea) AS INSERT INTO bare_log (data) VALUES ($1)"

Waiting = tuple[bytes, asyncio.Future[None]]


class BareCommits:
    """An ASGI application that stores bodies and returns a constant."""

    def __init__(self, database_url: str) -> None:
        self._connection = psycopg2.connect(psql_url(database_url))
        self._connection.autocommit = True
        self._cursor = self._connection.cursor()
        self._cursor.execute(LOG)
        self._cursor.execute(PREPARE)
        self._decoder = msgspec.json.Decoder(CommitBody)
        self._thread = ThreadPoolExecutor(1)
        self._queue: list[Waiting] = []
        self._is_writing = False

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer one request after its body is stored."""
        if scope["method"] == "POST":
            body = await body_of(receive)
            self._decoder.decode(body)
            await self._stored(body)
        send_in_one_write = cast("SingleWrite", (scope["extensions"] or {})[SINGLE_WRITE_EXTENSION])
        assert send_in_one_write(send, 200, HEADERS, ANSWER)

    async def close(self) -> None:
        """Stop the writer when the server stops."""
        self._connection.close()

    def _stored(self, body: bytes) -> asyncio.Future[None]:
        stored = asyncio.get_running_loop().create_future()
        self._queue.append((body, stored))
        if not self._is_writing:
            self._write_queued()
        return stored

    def _write_queued(self) -> None:
        batch, self._queue = self._queue, []
        self._is_writing = True
        written = asyncio.get_running_loop().run_in_executor(self._thread, self._write, [body for body, _ in batch])
        written.add_done_callback(lambda done: self._complete(batch, done))

    def _write(self, bodies: list[bytes]) -> None:
        self._cursor.execute("EXECUTE append (%s)", (psycopg2.Binary(b"".join(bodies)),))

    def _complete(self, batch: list[Waiting], written: asyncio.Future[None]) -> None:
        written.result()
        self._is_writing = False
        if self._queue:
            self._write_queued()
        for _, stored in batch:
            stored.set_result(None)


async def _serve(port: int, database_url: str) -> None:
    with bound_listener("127.0.0.1", port) as listener:
        await HttpServer(cast("AsgiApp", BareCommits(database_url)), listener, HttpLimits(), ConnectionCounts()).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), sys.argv[2]))
