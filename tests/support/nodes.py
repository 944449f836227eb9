"""Real nodes for tests: coordinator, front door and server over a real database, each in a thread of its own."""

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

import psycopg2
import uvloop

from api.http.request_context import RequestContext
from muster.node.serve import bound_listener, open_database, serve_node
from muster.settings import Settings, psql_url
from tests.support.waiting import PATIENCE_S

PATIENT: Final[dict[str, int | str]] = {"lease_ttl_ms": 10_000, "request_timeout_ms": 60_000}
"""Settings with which a node keeps its leases, and answers, on a machine that stands still for seconds."""
CLUSTER_SECRET = "the secret that all nodes of a test share"


@dataclass(frozen=True, slots=True)
class Node:
    """A node that serves."""

    url: str
    settings: Settings
    loop: asyncio.AbstractEventLoop

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let the node do nothing during the block: its event loop is blocked, and its sockets fill."""
        paused, resumed = threading.Event(), threading.Event()

        def pause() -> None:
            paused.set()
            resumed.wait(PATIENCE_S)

        self.loop.call_soon_threadsafe(pause)
        assert paused.wait(PATIENCE_S)
        try:
            yield
        finally:
            resumed.set()


@contextlib.contextmanager
def running_node(database_url: str, **options: int | str) -> Iterator[Node]:
    """Serve a node on a free loopback port for the time of the block.

    Args:
        database_url: a migrated database.
        options: the node's settings, by their names in `muster.settings`, instead of their defaults and `PATIENT`.
    """
    with _running(database_url, None, options) as node:
        yield node


@contextlib.contextmanager
def running_kafka_node(database_url: str, **options: int | str) -> Iterator[Node]:
    """Serve a node, like `running_node`, with a listener for Kafka clients at `settings.kafka_address`."""
    with bound_listener("127.0.0.1", 0) as listener, _running(database_url, listener, options) as node:
        yield node


@contextlib.contextmanager
def _running(
    database_url: str, kafka_listener: socket.socket | None, options: Mapping[str, int | str]
) -> Iterator[Node]:
    kafka_port = None if kafka_listener is None else kafka_listener.getsockname()[1]
    with bound_listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        settings = Settings(database_url=database_url, http_port=port, kafka_port=kafka_port, **{**PATIENT, **options})  # type: ignore[arg-type]  # validated there
        loop = uvloop.new_event_loop()
        with _serving(settings, listener, kafka_listener, loop):
            yield Node(settings.node_url, settings, loop)


@contextlib.contextmanager
def hanging_node(database_url: str) -> Iterator[str]:
    """Add a node that has renewed just now and does not renew again, for the time of the block; return its id."""
    with contextlib.closing(psycopg2.connect(psql_url(database_url))) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(
            "INSERT INTO nodes (node_id, listeners, version, started_at, expires_at)"
            " VALUES ('hanging:8080', '{\"http\": \"http://hanging:8080\"}', '1', now(), now() + interval '10 minutes')"
        )
        try:
            yield "hanging:8080"
        finally:
            cursor.execute("DELETE FROM nodes WHERE node_id = 'hanging:8080'")


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector during the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def requests_in_memory() -> int:
    """Return how many requests are in this process's memory, bodies included, answered or not."""
    return sum(type(each) is RequestContext for each in gc.get_objects())


@contextlib.contextmanager
def _serving(
    settings: Settings,
    listener: socket.socket,
    kafka_listener: socket.socket | None,
    loop: asyncio.AbstractEventLoop,
) -> Iterator[None]:
    """Run the node in a thread; an error of its own comes out here."""
    started: Future[None] = Future()
    stopping = asyncio.Event()

    def run() -> None:
        with (
            open_database(settings) as (store, queries),
            asyncio.Runner(loop_factory=lambda: loop) as runner,
        ):

            def announce() -> None:
                started.set_result(None)

            runner.run(serve_node(settings, store, queries, listener, stopping, announce, kafka_listener))

    with ThreadPoolExecutor(1, thread_name_prefix="node") as executor:
        serving = executor.submit(run)
        wait([started, serving], PATIENCE_S, FIRST_COMPLETED)
        if not started.done():
            assert serving.done(), f"the node did not start within {PATIENCE_S} s"
            serving.result()
        try:
            yield
        finally:
            if not serving.done():
                loop.call_soon_threadsafe(stopping.set)
            serving.result(PATIENCE_S)
