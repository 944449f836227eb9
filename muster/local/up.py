"""`muster up`: starts everything in order, supervises it, and stops all of it within ten seconds.

Order: what can be refused is refused first (Java, disk, another run, left-overs, ports), then Postgres, its schema, the
node, the demonstration fleet, Airflow, and one maintenance run; in a mirror no fleet, and a report. From then on until
a signal comes, a child that ends is started again, and the screen shows how things stand. Stopping goes the other way
round: agents and Airflow first, so that agents can still leave their groups, then the node, then Postgres.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.runs import FINISHED
from muster.data_dir import DataDir, RunLock
from muster.errors import UserError, disk_error
from muster.live_view import Address, View, open_view, run_line
from muster.local.child_registry import ChildRegistry
from muster.local.database import database_urls, embedded_postgres
from muster.local.demo_data import insert_expired_groups
from muster.local.demo_fleet import DemoFleet, has_kafka_client
from muster.local.java import find_java
from muster.local.nodes import LocalNode, local_nodes
from muster.local.orphans import adopt_orphans, kill_strays, reap_orphans
from muster.local.ports import is_free_port, require_distinct_ports, require_free_port
from muster.local.processes import ChildProcesses, shorten_log
from muster.local.stop_request import StopRequest, StopRequested
from muster.node.mirror import describe_mirror, prepare_database, require_own_kind
from muster.node.schema import is_empty, newest, upgrade
from muster.node_client import Json, NodeClient, client_token
from muster.settings import Settings, psql_url
from muster.snapshots import SnapshotReader

if TYPE_CHECKING:
    from muster.local.airflow import AirflowServices

TICK_S = 0.2
KAFKA_PORT = 9092
"""The port of the first node's Kafka listener, unless MUSTER_KAFKA_PORT is set."""
RETRY_PAUSE_S = 10.0
"""The pause of the supervision after a failure."""
REAP_INTERVAL_S = 2.0
PROGRESS_LINE_INTERVAL_S = 10.0
"""The interval at which unchanged groups are printed into a pipe, since their offsets change."""
NODE_READY_TIMEOUT_S = 60.0
AIRFLOW_READY_TIMEOUT_S = 180.0
DAG_READ_TIMEOUT_S = 120.0
FIRST_RUN_TIMEOUT_S = 180.0
STOP_LEFTOVERS_TIMEOUT_S = 8.0
STOP_CLIENTS_TIMEOUT_S = 3.0
STOP_NODE_TIMEOUT_S = 3.0
STOP_TIMEOUT_S = 9.5
SNAPSHOT_TIMEOUT_S = 2.0
"""The timeout of the requests of the view, which the supervising loop sends."""
FIRST_DAG = "offset_retention"
FIRST_REPORT = "assignment_balance_audit"
"""The first DAG of a mirror, which proposes nothing."""
AIRFLOW_CLEANUP_DELAY_S = 600.0
"""The time from Airflow's start to its first cleanup, which takes a core for some seconds."""
AIRFLOW_CLEANUP_INTERVAL_S = 86_400.0
AIRFLOW_FINISHED = frozenset({"success", "failed"})


def run_up(
    settings: Settings, *, node_count: int, with_airflow: bool, with_demo: bool, with_kafka: bool | None = None
) -> None:
    """Run the local platform until it is stopped.

    Args:
        settings: where everything is, and the first node's own; with `mirror_bootstrap_servers` the nodes are a mirror.
        node_count: how many nodes there are to be.
        with_airflow: whether Airflow runs, with the maintenance DAGs on.
        with_demo: whether there are groups to look at; a mirror has those of its cluster.
        with_kafka: whether nodes have a Kafka listener; None: if it has a port, or the fleet has a Kafka client for it.

    Raises:
        UserError: it cannot be started; the sentence says why, and nothing is left running.
    """
    if settings.database_url is not None:
        raise UserError("muster up brings its own Postgres: unset MUSTER_DATABASE_URL, or use muster serve.")
    if client_token() is None and settings.has_tokens:
        raise UserError(
            "Requests need tokens (MUSTER_TOKENS_FILE, MUSTER_REQUIRE_TOKENS), so muster up needs an operator's token"
            " in MUSTER_TOKEN for its DAGs and fleet."
        )
    settings = _with_kafka_port(settings, node_count, with_kafka, with_demo=with_demo)
    data_dir = DataDir(settings.data_dir)
    data_dir.create(settings.min_free_disk_mb)
    nodes = local_nodes(settings, node_count)
    places = _places(settings, nodes, with_airflow=with_airflow)
    require_distinct_ports(places)
    if with_airflow:
        find_java(data_dir.path)
    with data_dir.locked("up") as lock, StopRequest() as stop:
        lock.publish_node_url(settings.node_url)
        registry = ChildRegistry(data_dir.children_file)
        registry.stop_leftovers(STOP_LEFTOVERS_TIMEOUT_S)
        for place in places:
            require_free_port(*place)
        adopt_orphans()
        children = ChildProcesses(registry, settings.log_file_max_mb * 2**20)
        platform = LocalPlatform(settings, nodes, data_dir, lock, stop, children, open_view(PROGRESS_LINE_INTERVAL_S))
        try:
            platform.start(with_airflow=with_airflow, with_demo=with_demo)
            platform.watch()
        except StopRequested:
            pass
        finally:
            platform.stop()


def _places(settings: Settings, nodes: Sequence[LocalNode], *, with_airflow: bool) -> list[tuple[str, int, str]]:
    """Return where the nodes and Airflow listen: each an address, a port, and the option that sets it."""
    found = [(settings.http_host, node.port, "--port") for node in nodes]
    kafka = (node.settings.kafka_port for node in nodes)
    found += [(settings.kafka_host, port, "MUSTER_KAFKA_PORT") for port in kafka if port is not None]
    return [*found, ("127.0.0.1", settings.airflow_port, "--airflow-port")] if with_airflow else found


def _with_kafka_port(settings: Settings, node_count: int, with_kafka: bool | None, *, with_demo: bool) -> Settings:
    """Return the settings with the port of the first node's Kafka listener, or without one.

    Without a request the listener of the fleet's Kafka client is left out if its port is taken, or another part's.
    """
    if settings.mirror_bootstrap_servers is not None:
        if with_kafka:
            raise UserError("A mirror has no Kafka listener: its groups are at the brokers. Leave out --kafka.")
        return settings.model_copy(update={"kafka_port": None})
    if with_kafka is None and settings.kafka_port is None:
        ports = range(KAFKA_PORT, KAFKA_PORT + node_count)
        others = {settings.airflow_port, *(node.port for node in local_nodes(settings, node_count))}
        is_free = others.isdisjoint(ports) and all(is_free_port(settings.kafka_host, port) for port in ports)
        with_kafka = with_demo and has_kafka_client() and is_free
    port = None if with_kafka is False else settings.kafka_port or KAFKA_PORT
    return settings.model_copy(update={"kafka_port": port})


class LocalPlatform:
    """The processes of the platform, and the loop that supervises them."""

    def __init__(
        self,
        settings: Settings,
        nodes: list[LocalNode],
        data_dir: DataDir,
        lock: RunLock,
        stop: StopRequest,
        children: ChildProcesses,
        view: View,
    ) -> None:
        self._settings = settings
        self._nodes = nodes
        self._data_dir = data_dir
        self._lock = lock
        self._stop = stop
        self._children = children
        self._view = view
        self._postgres = embedded_postgres(settings)
        self._reader: SnapshotReader | None = None
        self._fleet: DemoFleet | None = None
        self._airflow: AirflowServices | None = None
        self._cleanup_at_s = 0.0
        self._addresses: list[Address] = []
        self._tidy_at_s = 0.0
        self._is_mirror = settings.mirror_bootstrap_servers is not None

    def start(self, *, with_airflow: bool, with_demo: bool) -> None:
        """Start the parts in order, each when the one before it is ready."""
        self._start_postgres()
        if self._is_mirror:
            self._prepare_mirror()
        else:
            self._migrate()
        self._lock.publish_database_urls(database_urls(self._postgres))
        has_fleet = with_demo and not self._is_mirror
        if has_fleet:
            self._insert_demo_data()
        reader = self._start_nodes()
        if has_fleet:
            self._start_fleet()
        if with_airflow:
            airflow = self._start_airflow()
            if self._is_mirror:
                self._run_first_report(airflow)
            else:
                self._run_first_maintenance(airflow, reader)
        self._addresses.append(Address("Stop", f"Ctrl-C (logs are in {self._data_dir.logs})"))

    def watch(self) -> None:
        """Supervise everything until a signal raises StopRequested; after a failure, such as a full disk, go on."""
        while True:
            try:
                self._tick()
            except (OSError, UserError) as failure:
                explained = disk_error(failure) if isinstance(failure, OSError) else failure
                self._view.event(f"{explained or failure} It is tried again in {RETRY_PAUSE_S:g} s.")
                self._stop.wait(RETRY_PAUSE_S)
            self._stop.wait(TICK_S)

    def stop(self) -> None:
        """Stop everything that was started; an error of one part does not keep the others running."""
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._view.close, erases=True)
            step = last_first.enter_context(self._view.step("Stop"))
            step.note = f"the data remains in {self._data_dir.path}"
            last_first.callback(kill_strays)
            # Postgres gets what is left of the time: one that is killed needs longer for its next start.
            last_first.callback(lambda: self._postgres.stop(deadline_s - time.monotonic()))
            last_first.callback(self._children.stop, STOP_NODE_TIMEOUT_S)
            clients = self._children.names() - {node.name for node in self._nodes}
            last_first.callback(self._children.stop, STOP_CLIENTS_TIMEOUT_S, clients)

    def _start_postgres(self) -> None:
        with self._view.step("Postgres") as step:
            self._postgres.start(self._stop.raise_if_requested)
            step.note = f"on 127.0.0.1:{self._postgres.port}"

    def _migrate(self) -> None:
        url = self._postgres.database_url()
        with self._view.step("Schema") as step:
            before = upgrade(url, self._settings.shards)
            step.note = (
                "created" if before is None else "up to date" if before == newest() else f"upgraded from {before}"
            )
        with contextlib.closing(PostgresStore(url)) as store:
            require_own_kind(self._settings, store)

    def _prepare_mirror(self) -> None:
        """Migrate the database too: an empty one gets as many shards as the log of the cluster has partitions."""
        url = self._postgres.database_url()
        notes: list[str] = []

        def prepare() -> None:
            if not is_empty(url):
                upgrade(url)
            prepare_database(self._settings, url)
            notes.append(describe_mirror(self._settings, url))

        with self._view.step("Kafka cluster") as step:
            self._run_in_thread(prepare)
            (step.note,) = notes
        self._addresses.append(Address("Mirror", f"read-only, of Kafka cluster {step.note}"))

    def _insert_demo_data(self) -> None:
        if self._data_dir.demo_data_file.exists():
            return
        with self._view.step("Demonstration offsets") as step:
            due = insert_expired_groups(self._postgres.database_url(), self._settings.shards)
            self._data_dir.demo_data_file.touch()
            step.note = f"{due} are due to expire"

    def _start_nodes(self) -> SnapshotReader:
        with self._view.step("Node" if len(self._nodes) == 1 else f"{len(self._nodes)} nodes") as step:
            for node in self._nodes:
                self._children.start(node.spec(self._data_dir, self._postgres.database_url()))
            for node in self._nodes:
                self._wait_until(partial(self._is_ready, node), NODE_READY_TIMEOUT_S, f"The node on port {node.port}")
            urls = ", ".join(node.url for node in self._nodes)
            step.note = f"{urls} owns its shards" if len(self._nodes) == 1 else f"{urls} own their shards"
        url = self._settings.node_url
        self._addresses += [
            Address("Console", f"{url}/"),
            Address("Node", f"{url}/v1/groups (described at {url}/docs)"),
            Address("Postgres", f"psql {psql_url(self._postgres.reader_url())}"),
        ]
        if kafka := self._kafka_addresses():
            self._addresses.append(Address("Kafka", f"clients' bootstrap.servers={','.join(kafka)}, without records"))
        clients = [NodeClient(node.url, retry_timeout_s=0, timeout_s=SNAPSHOT_TIMEOUT_S) for node in self._nodes]
        self._reader = SnapshotReader(clients, with_runs=True)
        return self._reader

    def _is_ready(self, node: LocalNode) -> bool:
        if self._children.find(node.name) is None:
            log = self._data_dir.log_file(node.name)
            lines = log.read_text(errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line), "it said nothing")
            raise UserError(f"The node ended while it was starting: {last.removeprefix('muster: ')} (see {log}).")
        return node.is_ready()

    def _kafka_addresses(self) -> list[str]:
        return [node.settings.kafka_address for node in self._nodes if node.settings.kafka_port is not None]

    def _start_fleet(self) -> None:
        with self._view.step("Demonstration fleet") as step:
            urls = [node.url for node in self._nodes]
            fleet = DemoFleet(self._children, urls, self._kafka_addresses(), self._data_dir, os.environ)
            step.note = f"{fleet.start()} consumers, each a process; kill one and watch"
            self._fleet = fleet

    def _start_airflow(self) -> AirflowServices:
        # Without Airflow its packages need not be there.
        from muster.local.airflow import AirflowServices, pool_slots  # noqa: PLC0415

        airflow = AirflowServices(
            self._data_dir.path,
            self._postgres.jobs_url(),
            self._postgres.airflow_url(),
            self._settings.node_url,
            self._settings.airflow_port,
            pool_slots(self._settings),
        )
        self._lock.publish_airflow(airflow.url, self._postgres.airflow_url())
        with self._view.step("Airflow's database"):
            self._run_in_thread(airflow.prepare)
        with self._view.step("Airflow") as step:
            # Tasks cannot do without the API server, and the scheduler starts one as soon as it is up itself.
            api_server, *others = airflow.children()
            self._children.start(api_server)
            self._wait_until(airflow.is_answering, AIRFLOW_READY_TIMEOUT_S, "Airflow's API server")
            for spec in others:
                self._children.start(spec)
            self._wait_until(airflow.is_healthy, AIRFLOW_READY_TIMEOUT_S, "Airflow")
            step.note = airflow.url
        sign_in = f"{airflow.url} (user {airflow.username}, password {airflow.password})"
        self._addresses.append(Address("Airflow", sign_in))
        self._airflow, self._cleanup_at_s = airflow, time.monotonic() + AIRFLOW_CLEANUP_DELAY_S
        return airflow

    def _run_first_maintenance(self, airflow: AirflowServices, reader: SnapshotReader) -> None:
        """Trigger a first maintenance run for the demonstration; a failure does not stop the platform."""
        seen = {run["run_id"] for run in reader.last.runs}

        def over() -> list[Json]:
            new = [run for run in reader.last.runs if run["run_id"] not in seen]
            return [run for run in new if run["kind"] == FIRST_DAG and run["status"] in FINISHED]

        with self._view.step("A maintenance run") as step:
            if airflow.is_paused(FIRST_DAG):
                step.note = f"{FIRST_DAG} is paused in Airflow"
            elif not self._poll(lambda: _trigger(airflow, FIRST_DAG) is not None, DAG_READ_TIMEOUT_S):
                step.note = f"Airflow has not parsed the DAG {FIRST_DAG} yet; see its UI"
            elif not self._poll(lambda: bool(over()), FIRST_RUN_TIMEOUT_S):
                step.note = f"not over after {FIRST_RUN_TIMEOUT_S:.0f} s; see Airflow's UI"
            else:
                step.note = run_line(over()[0])

    def _run_first_report(self, airflow: AirflowServices) -> None:
        """Trigger a first report for the demonstration; a failure does not stop the platform."""
        run_id: str | None = None
        state: str | None = None

        def is_triggered() -> bool:
            nonlocal run_id
            run_id = _trigger(airflow, FIRST_REPORT)
            return run_id is not None

        def is_over() -> bool:
            nonlocal state
            state = _state_of(airflow, FIRST_REPORT, str(run_id))
            return state in AIRFLOW_FINISHED

        with self._view.step("A report") as step:
            if airflow.is_paused(FIRST_REPORT):
                step.note = f"{FIRST_REPORT} is paused in Airflow"
            elif not self._poll(is_triggered, DAG_READ_TIMEOUT_S):
                step.note = f"Airflow has not parsed the DAG {FIRST_REPORT} yet; see its UI"
            elif not self._poll(is_over, FIRST_RUN_TIMEOUT_S):
                step.note = f"not over after {FIRST_RUN_TIMEOUT_S:.0f} s; see Airflow's UI"
            else:
                step.note = f"{FIRST_REPORT}: {state}; see {self._settings.node_url}/#/reports"

    def _run_in_thread(self, work: Callable[[], None]) -> None:
        """Run blocking work on a thread while the loop continues; raise its error here."""
        failures: list[BaseException] = []
        thread = threading.Thread(target=_collect, args=(work, failures), daemon=True)
        thread.start()
        while thread.is_alive():
            self._tick()
            self._stop.wait(TICK_S)
        if failures:
            raise failures[0]

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float, name: str) -> None:
        if not self._poll(condition, timeout_s):
            raise UserError(f"{name} was not ready after {timeout_s:.0f} s; see the logs in {self._data_dir.logs}.")

    def _poll(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            self._tick()
            self._stop.wait(TICK_S)
        return True

    def _tick(self) -> None:
        """Supervise everything once."""
        if not self._postgres.is_alive():
            self._view.event("Postgres ended; it starts again.")
            self._postgres.start(self._stop.raise_if_requested)
        for death in self._children.tick():
            if death.exit_code != 0 or death.restart_in_s is not None:
                self._view.event(str(death))
        if self._fleet is not None:
            self._fleet.tick()
        if time.monotonic() >= self._tidy_at_s:
            reap_orphans(self._own_pids())
            shorten_log(self._postgres.log_file, self._settings.log_file_max_mb * 2**20)
            self._tidy_at_s = time.monotonic() + REAP_INTERVAL_S
        if self._airflow is not None and time.monotonic() >= self._cleanup_at_s:
            self._cleanup_at_s = time.monotonic() + AIRFLOW_CLEANUP_INTERVAL_S
            self._airflow.remove_old_logs(self._settings.airflow_keep_days)
            self._children.start(self._airflow.cleanup(self._settings.airflow_keep_days))
        if self._reader is not None and self._reader.refresh():
            self._view.show(self._reader.last, tuple(self._addresses))

    def _own_pids(self) -> set[int]:
        postgres = {self._postgres.child.pid} if self._postgres.child else set()
        return self._children.pids() | postgres


def _collect(work: Callable[[], None], failures: list[BaseException]) -> None:
    try:
        work()
    except BaseException as failure:  # noqa: BLE001 - it is raised again on the thread that waits
        failures.append(failure)


def _trigger(airflow: AirflowServices, dag_id: str) -> str | None:
    """Trigger a DAG run, and return its id; retried on a busy machine, where a second run does no harm."""
    try:
        return airflow.trigger(dag_id, {}) if airflow.has_dag(dag_id) else None
    except UserError:
        return None


def _state_of(airflow: AirflowServices, dag_id: str, dag_run_id: str) -> str | None:
    try:
        return airflow.state_of(dag_id, dag_run_id)
    except UserError:
        return None
