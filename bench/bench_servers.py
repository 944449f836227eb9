"""Servers to measure: nodes on a durable Postgres, and bare servers for comparison.

Each listens on a free local port and stops at the end of the block that started it.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar
from urllib.parse import urljoin

import psycopg2
import urllib3

from bench.cpu_time import Pids, postmaster_pid
from bench.figures import Figure
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.local.ports import is_free_port
from muster.local.processes import Child, ChildSpec, stop_children
from muster.node.schema import upgrade
from muster.settings import ENVIRONMENT_PREFIX, psql_url

HOST: Final = "127.0.0.1"
DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
SERVER_PORTS: Final = range(15_000, 20_000)
"""Neither those that the kernel gives to clients, nor those of the tests."""
READY_S: Final = 60.0
OWNER_S: Final = 30.0
STOP_S: Final = 10.0
SHARED_S: Final = 60.0
OWNED_SHARDS: Final = 'muster_num_shards{state="active"}'
POLL_S: Final = 0.02

SizeT = TypeVar("SizeT")

_http = urllib3.PoolManager(maxsize=64, retries=False, timeout=60)


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers requests."""

    url: str
    child: Child

    def pids(self, name: str) -> Pids:
        """Return the process, to measure its processor time by a name."""
        return {name: [self.child.pid]}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a benchmark works."""

    database_url: str
    """A migrated database, `postgresql+psycopg2://…`."""
    directory: Path
    """Directory of the servers' logs."""

    def pids(self, *nodes: Server) -> Pids:
        """Return the processes whose processor time a request to nodes takes."""
        with closing(psycopg2.connect(psql_url(self.database_url))) as connection:
            return {"node": [each.child.pid for each in nodes], "postgres": [postmaster_pid(connection)]}


@contextmanager
def durable_place() -> Iterator[Place]:
    """Run a separate Postgres with `fsync` and `synchronous_commit` until the block ends."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        directory = Path(name)
        with EmbeddedPostgres(directory, options=DURABLE) as postgres:
            upgrade(postgres.database_url())
            yield Place(postgres.database_url(), directory)


def in_durable_place(measure: Callable[[Place, SizeT], list[Figure]], size: SizeT) -> Callable[[], list[Figure]]:
    """Return the benchmark that measures in a durable place of its own."""

    def measure_there() -> list[Figure]:
        with durable_place() as place:
            return measure(place, size)

    return measure_there


@contextmanager
def node(place: Place, **settings: int | str) -> Iterator[Server]:
    """Run a node with settings named as in `muster.settings`; it releases its shards and stops with the block."""
    server = start_node(place, **settings)
    try:
        yield server
    finally:
        stop_children([server.child], STOP_S)


def start_node(place: Place, **settings: int | str) -> Server:
    """Start a node and return when it serves; the caller stops its child process."""
    port = free_port()
    own = {"database_url": place.database_url, "http_port": port, "group_initial_rebalance_delay_ms": 0, **settings}
    environment = {f"{ENVIRONMENT_PREFIX}{name.upper()}": str(value) for name, value in own.items()}
    return _started(place, ("-m", "muster", "serve"), port, "/readyz", environment)


def start_mirror(place: Place, bootstrap: str, source: str = "topic") -> Server:
    """Start a mirror of a Kafka cluster and return when it answers; the caller stops its child process.

    Args:
        place: where it runs.
        bootstrap: the brokers.
        source: `topic` or `poll`, as MUSTER_MIRROR_SOURCE.
    """
    port = free_port()
    own = {
        "database_url": place.database_url,
        "http_port": port,
        "mirror_bootstrap_servers": bootstrap,
        "mirror_source": source,
    }
    environment = {f"{ENVIRONMENT_PREFIX}{name.upper()}": str(value) for name, value in own.items()}
    return _started(place, ("-m", "muster", "mirror"), port, "/metrics", environment)


@contextmanager
def bare_server(place: Place) -> Iterator[Server]:
    """Run `bench.bare_server`."""
    port = free_port()
    server = _started(place, ("-m", "bench.bare_server", str(port)), port, "/asgi", {})
    try:
        yield server
    finally:
        stop_children([server.child], STOP_S)


@contextmanager
def bare_commits(place: Place) -> Iterator[Server]:
    """Run `bench.bare_commits`."""
    port = free_port()
    server = _started(place, ("-m", "bench.bare_commits", str(port), place.database_url), port, "/asgi", {})
    try:
        yield server
    finally:
        stop_children([server.child], STOP_S)


def ask(method: str, url: str, body: object = None, token: str = "") -> Any:  # noqa: ANN401 - whatever JSON may hold
    """Send one request, with a bearer token unless it is empty, and return the response's JSON."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return _http.request(method, url, json=body, headers=headers).json()


def sums(url: str) -> dict[str, float]:
    """Return a node's metrics, by name with labels."""
    page = _http.request("GET", urljoin(url, "/metrics")).data.decode()
    lines = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def owner_of(group_url: str) -> str:
    """Return the URL of the node that serves a group; wait while its shard moves."""
    deadline_s = time.monotonic() + OWNER_S
    while (owner := _http.request("GET", group_url).headers.get("x-muster-coordinator")) is None:
        assert time.monotonic() < deadline_s, "no node serves the group"
        time.sleep(POLL_S)  # There is no notification of an acquired shard.
    return owner


def until_shared(*urls: str) -> None:
    """Wait until nodes own equally many shards."""
    deadline_s = time.monotonic() + SHARED_S
    while len({sums(url)[OWNED_SHARDS] for url in urls}) > 1:
        assert time.monotonic() < deadline_s, "the shards were not shared"
        time.sleep(POLL_S)  # Only the metrics show how shards are distributed.


def is_answered(url: str) -> bool:
    """Return whether a request is answered with status 200."""
    try:
        return _http.request("GET", url, timeout=2).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _started(place: Place, arguments: tuple[str, ...], port: int, path: str, own: dict[str, str]) -> Server:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ENVIRONMENT_PREFIX)}
    log_file = place.directory / f"{port}.log"
    child = Child(ChildSpec(str(port), (sys.executable, *arguments), {**inherited, **own}, log_file))
    server = Server(f"http://{HOST}:{port}", child)
    deadline_s = time.monotonic() + READY_S
    try:
        while not is_answered(server.url + path):
            is_starting = child.is_alive() and time.monotonic() < deadline_s
            assert is_starting, f"{arguments} does not serve: {log_file.read_text()[-2000:]}"
            time.sleep(POLL_S)  # A closed port cannot be waited for.
    except BaseException:
        stop_children([child], 0)
        raise
    return server


def free_port() -> int:
    """Return a local port that is free now, and that the kernel gives to no client before a server listens on it."""
    return next(port for port in Random().sample(SERVER_PORTS, len(SERVER_PORTS)) if is_free_port(HOST, port))
