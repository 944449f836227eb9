"""`muster up` and `muster serve` start, show their groups, and leave no process behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
import urllib3

from muster import process_table
from muster.data_dir import DataDir
from muster.process_table import ProcessKey
from muster.settings import ENVIRONMENT_PREFIX, psql_url
from tests.support.ports import free_consecutive_ports
from tests.support.waiting import PATIENCE_S, poll_until

pytestmark = pytest.mark.postgres


class Run:
    """A `muster` command in the background, with what it has printed."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.port = free_consecutive_ports(6)
        self.kafka_port = self.port + 3
        self.data_dir = DataDir(home / "data")
        self._output = home / "output"
        ours = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
        ours[f"{ENVIRONMENT_PREFIX}KAFKA_PORT"] = str(self.kafka_port)
        place = ("--port", str(self.port), "--data-dir", str(self.data_dir.path))
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "muster", *arguments, *place], env=ours, stdout=output, stderr=output
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, words: str) -> None:
        poll_until(lambda: words in self.output or self.process.poll() is not None)
        assert words in self.output, self.output

    def family(self) -> set[ProcessKey]:
        rows = process_table.all_processes()
        (root,) = (row.key for row in rows if row.key.pid == self.process.pid)
        return process_table.descendants_of(root, rows)

    def node_pid(self, name: str = "node") -> int | None:
        state = json.loads(self.data_dir.children_file.read_text())
        return next((int(child["key"]["pid"]) for child in state["children"] if child["name"] == name), None)

    def database_url(self) -> str:
        holder = self.data_dir.holder()
        assert holder is not None
        assert holder.database_urls is not None
        return psql_url(holder.database_urls.owner)

    def is_ready(self) -> bool:
        try:
            reply = urllib3.request("GET", f"http://127.0.0.1:{self.port}/readyz", timeout=PATIENCE_S, retries=False)
        except urllib3.exceptions.HTTPError:
            return False
        return reply.status == 200

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    """The runs that a test starts; they are stopped after it."""
    runs: list[Run] = []
    yield runs
    for run in runs:
        if run.process.poll() is None:
            run.end(signal.SIGTERM)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Give a platform with its fleet; what a test does to it, the platform mends."""
    run = Run(tmp_path_factory.mktemp("live"), "up", "--no-airflow")
    try:
        for group in ("orders-billing", "clicks-enrichment", "payments-audit", "shipments-labels"):
            run.wait_for(f"{group}: Stable, ")
        yield run
    finally:
        run.end(signal.SIGTERM)


def are_gone(keys: set[ProcessKey]) -> bool:
    return not any(map(process_table.is_alive, keys))


def run_sql(url: str, question: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchall()
    finally:
        connection.close()


def test_up_shows_live_groups_and_demo_history(live: Run) -> None:
    assert "last rebalance member_joined" in live.output
    assert "nightly-export: Empty, generation 0, members none, lag ≥ 6" in live.output


def test_kafka_client_of_the_fleet_is_a_member_and_commits(live: Run) -> None:
    live.wait_for(f"bootstrap.servers=127.0.0.1:{live.kafka_port}")
    ((client_id, _, _),) = settled_members(live, "shipments-labels", 1)
    assert str(client_id).startswith("labels-1-pid")
    committed = "SELECT count(*) FROM offsets WHERE group_id = 'shipments-labels' AND committed_offset > 0"
    poll_until(lambda: run_sql(live.database_url(), committed) == [(6,)])


def test_mirror_with_a_kafka_listener_is_refused(tmp_path: Path, runs: list[Run]) -> None:
    run = Run(tmp_path, "up", "--no-airflow", "--kafka", "--mirror", "127.0.0.1:1")
    runs.append(run)
    run.wait_for("muster: A mirror has no Kafka listener")


def test_no_process_uses_the_superuser_or_its_password(live: Run) -> None:
    password = (live.data_dir.path / "postgres" / "password").read_text().encode()
    environments = [Path(f"/proc/{key.pid}/environ").read_bytes() for key in live.family()]
    assert any(b"muster_owner" in environment for environment in environments)
    assert not any(password in environment for environment in environments)
    question = "SELECT DISTINCT usename FROM pg_stat_activity WHERE backend_type = 'client backend'"
    assert run_sql(live.database_url(), question) == [("muster_owner",)]


def test_sql_reads_as_the_reader_role_and_writes_as_the_owner(live: Run) -> None:
    def answer(*arguments: str) -> str:
        command = [sys.executable, "-m", "muster", "sql", *arguments, "--data-dir", str(live.data_dir.path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "muster_reader_login" in answer("SELECT current_user")
    assert "muster_owner" in answer("SELECT current_user", "--write")


def settled_members(run: Run, group_id: str, count: int) -> list[tuple[object, ...]]:
    """Return (client id, member id, generation) of every member, once the group is Stable with so many."""
    question = f"""
        SELECT client_id, member_id, generation FROM members JOIN groups USING (group_id)
        WHERE group_id = '{group_id}' AND state = 'Stable' AND member_count = {count} ORDER BY client_id
    """  # noqa: S608 - both are ours
    poll_until(lambda: len(run_sql(run.database_url(), question)) == count)
    return run_sql(run.database_url(), question)


def test_killed_member_is_evicted_and_restarted(live: Run) -> None:
    client_id = str(settled_members(live, "clicks-enrichment", 2)[0][0])
    os.kill(int(client_id.rpartition("pid")[2]), signal.SIGKILL)
    live.wait_for("demo-enrichment-1 was ended by SIGKILL; it starts again in 20 s")
    live.wait_for(f"last rebalance session_expired of {client_id}")


def test_killed_node_restarts_without_a_rebalance(live: Run) -> None:
    members = settled_members(live, "orders-billing", 3)
    first = live.node_pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    live.wait_for("node was ended by SIGKILL; it starts again in 0.5 s")
    poll_until(lambda: live.node_pid() not in (None, first) and live.is_ready())
    assert settled_members(live, "orders-billing", 3) == members


def test_up_stops_all_its_processes(tmp_path: Path, runs: list[Run]) -> None:
    run = Run(tmp_path, "up", "--no-airflow")
    runs.append(run)
    run.wait_for("Demonstration fleet")
    family = run.family()
    assert len(family) >= 1 + 1 + 7, "Postgres, the node and its agents"
    assert run.end(signal.SIGINT) == 0
    assert are_gone(family)
    assert "✓ Stop" in run.output


@pytest.mark.slow
def test_children_of_a_killed_run_end_and_the_next_run_keeps_its_data(tmp_path: Path, runs: list[Run]) -> None:
    run = Run(tmp_path, "up", "--no-airflow", "--no-demo")
    runs.append(run)
    run.wait_for("owns its shards")
    url = run.database_url()
    family = run.family()
    assert run.end(signal.SIGKILL) == -signal.SIGKILL
    poll_until(lambda: are_gone(family))
    again = Run(tmp_path, "up", "--no-airflow", "--no-demo")
    runs.append(again)
    again.wait_for("up to date")
    again.wait_for("owns its shards")
    assert again.database_url() == url
    # Until its lease expires, the killed node counts as alive and keeps its share.
    newest = "SELECT node_id FROM nodes ORDER BY started_at DESC LIMIT 1"
    owned = f"SELECT count(*) FROM shard_leases WHERE node_id IN ({newest})"  # noqa: S608 - words of ours
    poll_until(lambda: run_sql(url, owned) == [(50,)])


def test_serve_starts_and_stops_its_embedded_database(tmp_path: Path, runs: list[Run]) -> None:
    run = Run(tmp_path, "serve")
    runs.append(run)
    poll_until(run.is_ready)
    family = run.family()
    assert family, "the embedded Postgres"
    assert run.end(signal.SIGTERM) == 0
    assert are_gone(family)


@pytest.mark.slow
def test_three_nodes_share_shards_and_survive_the_loss_of_one(tmp_path: Path, runs: list[Run]) -> None:
    run = Run(tmp_path, "up", "--no-airflow", "--no-demo", "--nodes", "3", "--kafka")
    runs.append(run)
    run.wait_for("own their shards")

    def shares() -> list[tuple[object, ...]]:
        return run_sql(run.database_url(), OWNED_SHARDS)

    poll_until(lambda: shares() == [(16,), (17,), (17,)])
    killed = run.node_pid("node-2")
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    run.wait_for("node-2 was ended by SIGKILL; it starts again in 0.5 s")
    poll_until(lambda: run.node_pid("node-2") not in (None, killed) and shares() == [(16,), (17,), (17,)])
    family = run.family()
    assert run.end(signal.SIGTERM) == 0
    assert are_gone(family)


OWNED_SHARDS = """
    SELECT count(*) FROM shard_leases WHERE expires_at > now() GROUP BY node_id HAVING node_id IS NOT NULL ORDER BY 1
"""
