"""The platform under test: a real Postgres, several nodes, and processes with many agents."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import urllib3
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import make_url

from muster.local.embedded_postgres import EmbeddedPostgres
from muster.local.processes import Child, ChildProcesses, ChildSpec
from muster.node.schema import upgrade
from muster.settings import ENVIRONMENT_PREFIX, psql_url
from tests.support.nodes import CLUSTER_SECRET
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE_S
from tests.system.chaos.link import HOST, Link

TICK_S = 0.1
STOP_S = 10.0
AGENTS_STOP_S = 30.0
DURABLE = {"fsync": "on", "synchronous_commit": "on"}


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of processes and agents, and their timeouts."""

    nodes: int = 3
    agents: int = 200
    members: int = 10
    """Members of a group."""
    processes: int = 4
    """Processes that the agents are spread over."""
    lease_ttl_ms: int = 5_000
    session_timeout_ms: int = 10_000


class _NoRegister:
    """Let the child end with the process that started it, even if that is killed."""

    def write(self, children: object) -> None:
        """Write nothing."""


class Platform:
    """The processes, by name; a killed one is started again."""

    def __init__(
        self,
        directory: Path,
        size: Size,
        postgres: EmbeddedPostgres,
        root: Path | None = None,
        *,
        database_url: str | None = None,
        launcher: tuple[str, ...] = (),
    ) -> None:
        """Start nothing yet.

        Args:
            directory: for logs and journals.
            size: numbers of processes and agents.
            postgres: a running server without a schema.
            root: the source files that the nodes run; None: this checkout.
            database_url: the nodes' URL of the database; None: each node reaches `postgres` by a link of its own.
            launcher: the program, with arguments, that starts a node, whose command line is appended.
        """
        self.directory = directory
        self._root = root
        self._shared_database_url = database_url
        self._launcher = launcher
        self.size = size
        self.postgres = postgres
        self.children = ChildProcesses(_NoRegister())
        self._ports = free_ports(size.nodes)
        self.database_links = [Link(postgres.port) for _ in self._ports]
        """Between each node and Postgres."""
        self.node_links = [Link(port) for port in self._ports]
        """At the address by which other nodes, and agents that were redirected, reach each node."""

    @property
    def node_ports(self) -> list[int]:
        """Return the ports on which agents reach the nodes first."""
        return self._ports

    @contextmanager
    def linked(self) -> Iterator[None]:
        """Run every link for the time of the block."""
        with ExitStack() as running:
            for link in (*self.database_links, *self.node_links):
                running.enter_context(link.running())
            yield

    # -- start and wait ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the nodes, then the agents, and wait until every agent has partitions."""
        self._migrate()
        for number, port in enumerate(self._ports):
            self.children.start(self._node_spec(number, port, self._root))
        self.wait_for(self.are_nodes_ready, "the nodes")
        share = self.size.agents // self.size.processes
        for number in range(self.size.processes):
            self.children.start(self._fleet_spec(number, share))

    def replace_node(self, number: int, *, root: Path | None) -> None:
        """Stop a node gracefully, start it from other source files, and wait until it is ready."""
        port = self._ports[number]
        self.children.stop(STOP_S, {f"node-{number}"})
        self.children.start(self._node_spec(number, port, root))
        self.wait_for(lambda: self._is_ready(port), f"node {number}")

    def stop_agents(self) -> None:
        """Stop every agent, which commits and leaves."""
        self.children.stop(AGENTS_STOP_S, {f"fleet-{number}" for number in range(self.size.processes)})

    def run_for(self, seconds: float) -> None:
        """Wait, and restart processes that have ended."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self._tick()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, and restart processes, until a condition holds."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, f"{what} did not come within {PATIENCE_S} s"
            self._tick()

    def _tick(self) -> None:
        self.children.tick()
        time.sleep(TICK_S)

    def node(self, number: int) -> Child | None:
        """Return a node's process, if it runs."""
        return self.children.find(f"node-{number}")

    def fleet(self, number: int) -> Child | None:
        """Return one of the agents' processes, if it runs."""
        return self.children.find(f"fleet-{number}")

    @contextmanager
    def database(self) -> Iterator[PsycopgConnection]:
        """Connect to the database; every statement commits by itself."""
        connection = psycopg2.connect(psql_url(self.postgres.database_url()))
        connection.autocommit = True
        try:
            yield connection
        finally:
            connection.close()

    # -- processes -------------------------------------------------------------------------------------

    def _migrate(self) -> None:
        """Create the schema with the program that the nodes run."""
        if self._root is None:
            upgrade(self.postgres.database_url(), 50)
        else:
            own = {**_root_environment(self._root), "MUSTER_DATABASE_URL": self.postgres.database_url()}
            subprocess.run([sys.executable, "-m", "muster", "migrate"], env=_environment(own), check=True)

    def _node_spec(self, number: int, port: int, root: Path | None) -> ChildSpec:
        own = {
            **_root_environment(root),
            "MUSTER_DATABASE_URL": self._database_url(number),
            "MUSTER_HTTP_PORT": str(port),
            "MUSTER_ADVERTISED_URL": f"http://{HOST}:{self.node_links[number].port}",
            "MUSTER_LEASE_TTL_MS": str(self.size.lease_ttl_ms),
            "MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS": str(self.size.session_timeout_ms),
            "MUSTER_CLUSTER_SECRET": CLUSTER_SECRET,
        }
        argv = (*self._launcher, sys.executable, "-m", "muster", "serve")
        return self._spec(f"node-{number}", argv, own)

    def _database_url(self, number: int) -> str:
        if self._shared_database_url is not None:
            return self._shared_database_url
        url = make_url(self.postgres.database_url()).set(port=self.database_links[number].port)
        return url.render_as_string(hide_password=False)

    def _fleet_spec(self, number: int, share: int) -> ChildSpec:
        name = f"fleet-{number}"
        options = {
            "--journal": self.directory / f"{name}.jsonl",
            "--first": number * share,
            "--count": share,
            "--members": self.size.members,
            "--session-timeout-ms": self.size.session_timeout_ms,
        }
        urls = [part for port in self._ports for part in ("--url", f"http://{HOST}:{port}")]
        words = [str(part) for option in options.items() for part in option]
        return self._spec(name, (sys.executable, "-m", "tests.system.chaos.fleet", *urls, *words), {})

    def _spec(self, name: str, argv: tuple[str, ...], own: dict[str, str]) -> ChildSpec:
        log_file = self.directory / f"{name}.log"
        return ChildSpec(name=name, argv=argv, env=_environment(own), log_file=log_file, restart=True)

    def _is_ready(self, port: int) -> bool:
        answer = _readiness(port)
        return answer is not None and answer.status == 200

    def are_nodes_ready(self) -> bool:
        """Return whether every node is ready."""
        return all(map(self._is_ready, self._ports))

    def reasons(self) -> list[str]:
        """Return why nodes are not ready, and their warnings."""
        answers = [answer for answer in map(_readiness, self._ports) if answer is not None]
        return [reason for answer in answers for reason in answer.json()["reasons"]]

    def unexpected_errors(self) -> list[str]:
        """Return the unexpected errors in the nodes' logs."""
        logs = sorted(self.directory.glob("node-*.log*"))
        return [
            f"{file.name}: {line}"
            for file in logs
            for line in file.read_text().splitlines()
            if _is_unexpected_error(line)
        ]


def _readiness(port: int) -> urllib3.BaseHTTPResponse | None:
    """Return a node's answer about its readiness; None if it gives none."""
    try:
        return urllib3.request("GET", f"http://{HOST}:{port}/readyz", timeout=2, retries=False)
    except urllib3.exceptions.HTTPError:
        return None


def _environment(own: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process: this one's without settings, and its own."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ENVIRONMENT_PREFIX)}
    return {**inherited, **own}


def _root_environment(root: Path | None) -> dict[str, str]:
    """Return what makes Python import other source files than this checkout's."""
    return {} if root is None else {"PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}


def _is_unexpected_error(line: str) -> bool:
    """Return whether a line of a node's log reports an unexpected error."""
    try:
        return json.loads(line).get("event") in {"request_failed", "invariant_violated"}
    except ValueError:
        return line.startswith("Traceback")


@contextmanager
def running_platform(directory: Path, size: Size, root: Path | None = None) -> Iterator[Platform]:
    """Yield a platform whose agents consume, with nodes of this checkout or of `root`; stop everything at the end."""
    with EmbeddedPostgres(directory / "database", options=DURABLE) as postgres:
        platform = Platform(directory, size, postgres, root)
        with running(platform):
            yield platform


@contextmanager
def running(platform: Platform) -> Iterator[None]:
    """Run a platform for the time of a block."""
    with platform.linked():
        try:
            platform.start()
            yield
        finally:
            for number in range(platform.size.nodes):
                resume(platform.node(number))
            platform.stop_agents()
            platform.children.stop(STOP_S)


def resume(child: Child | None) -> None:
    """Resume a stopped process."""
    if child is not None:
        os.kill(child.pid, signal.SIGCONT)
