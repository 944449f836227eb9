"""The provider in a real Airflow: API server, scheduler, DAG processor and triggerer, as `muster up` starts them."""

import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3

from muster.local.airflow import TRIGGERER, AirflowServices
from muster.local.processes import Child, stop_children
from tests.integration.airflow.airflow_process import EXAMPLE_DAGS
from tests.support.databases import Databases
from tests.support.http_client import Client, fresh_id, position
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.ports import free_port
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import PATIENCE_S, poll_until

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

DAG = "replay_consumer_group"
TOKEN = "ada's"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
STOP_TIMEOUT_S = 30.0
TRIGGERER_TIMEOUT_S = 10
"""After how long without a heartbeat another triggerer continues the triggers of one."""


class RealAirflow:
    """Airflow's services, as child processes on a database of their own."""

    def __init__(self, services: AirflowServices) -> None:
        self._services = services
        self._changes = {
            "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLE_DAGS),
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": str(TRIGGERER_TIMEOUT_S),
        }
        self._environment = services.environment | self._changes
        self._children: dict[str, Child] = {}

    def start(self, *names: str) -> None:
        """Start the services with these names, or all."""
        for spec in self._services.children():
            if not names or spec.name in names:
                self._children[spec.name] = Child(replace(spec, env={**spec.env, **self._changes}))

    def stop(self) -> None:
        stop_children(list(self._children.values()), STOP_TIMEOUT_S)

    def kill(self, name: str) -> None:
        child = self._children[name]
        os.kill(child.pid, signal.SIGKILL)
        poll_until(lambda: child.exit_code() is not None)

    def command(self, *arguments: str) -> str:
        """Run Airflow's command line, and return its output."""
        program = Path(sysconfig.get_path("scripts")) / "airflow"
        done = subprocess.run([program, *arguments], env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def trigger(self, conf: dict[str, object]) -> str:
        """Start a run of the example, as soon as Airflow has read its file, and return the path of the run."""
        poll_until(lambda: self._services.is_healthy() and self._services.has_dag(DAG))
        started = self._call("POST", f"/api/v2/dags/{DAG}/dagRuns", {"logical_date": None, "conf": conf})
        return f"/api/v2/dags/{DAG}/dagRuns/{started['dag_run_id']}"

    def read(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        return self._call("GET", path)

    def reaches(self, path: str, state: str) -> None:
        """Wait until a run or a task is in a state; fail if it has failed."""

        def is_there() -> bool:
            now = self.read(path)["state"]
            assert now != "failed", self.log()
            return bool(now == state)

        poll_until(is_there)

    def clear(self, run: str, task_id: str) -> None:
        """Run a task of a finished run once more."""
        body = {"dag_run_id": run.rpartition("/")[2], "task_ids": [task_id], "only_failed": False, "dry_run": False}
        self._call("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", body)

    def _call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        credentials = {"username": self._services.username, "password": self._services.password}
        token = self._send("POST", "/auth/token", credentials)["access_token"]
        return self._send(method, path, body, {"Authorization": f"Bearer {token}"})

    def _send(self, method: str, path: str, body: object, headers: dict[str, str] | None = None) -> Any:  # noqa: ANN401 - any JSON
        url = self._services.url + path
        reply = urllib3.request(method, url, json=body, headers=headers, timeout=PATIENCE_S, retries=False)
        assert reply.status < 300, reply.data
        return reply.json()

    def log(self) -> str:
        """Return what tasks and triggers have logged."""
        folder = Path(self._environment["AIRFLOW__LOGGING__BASE_LOG_FOLDER"])
        return "\n".join(file.read_text() for file in sorted(folder.rglob("*.log*")))


@pytest.fixture
def client(databases: Databases, tmp_path: Path) -> Iterator[Client]:
    """Serve a node that requires a token."""
    file = TokensFile(tmp_path / "tokens.json")
    file.write(ADA)
    url = databases.create()
    with (
        running_node(url, tokens_file=str(file.path), cluster_secret=CLUSTER_SECRET) as node,
        closing(Client(node.url)) as client,
    ):
        yield client
    databases.drop(url)


@pytest.fixture
def airflow(tmp_path: Path, empty_database_url: str) -> Iterator[RealAirflow]:
    # Its own node does not exist, so that only the connection can lead to one.
    nowhere = "http://127.0.0.1:1"
    services = AirflowServices(tmp_path, "postgresql+psycopg2://unused", empty_database_url, nowhere, free_port(), {})
    services.prepare()
    airflow = RealAirflow(services)
    try:
        yield airflow
    finally:
        airflow.stop()


@pytest.mark.timeout(1_200)
def test_example_survives_a_killed_triggerer_and_resets_once(airflow: RealAirflow, client: Client) -> None:
    assert "muster-airflow" in airflow.command("providers", "list")
    hosts = f"127.0.0.1:1,{urlsplit(client.url).netloc}"
    airflow.command(
        *("connections", "add", "muster_default", "--conn-type", "muster", "--conn-host", hosts),
        *("--conn-password", TOKEN),
    )
    group, topic = client.group(fresh_id()), fresh_id("topic")
    # However long a slow machine takes, log ends are not stale.
    client.ok("PUT", "/v1/config", {"values": {"log_end_max_age_ms": 2**31 - 1}, "reason": "a test"}, AUTHORIZED)
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1, "reason": "a test"}, AUTHORIZED)
    commit(client, group.path, position(10, topic=topic, log_end_offset=10))
    airflow.start()

    run = airflow.trigger({"group_id": group.group_id, "topic": topic})
    airflow.reaches(f"{run}/taskInstances/wait_until_caught_up", "deferred")
    poll_until(lambda: "Known lag: 10 records (target: 0)" in airflow.log())
    airflow.kill(TRIGGERER)
    commit(client, group.path, position(10, topic=topic, log_end_offset=10))
    airflow.start(TRIGGERER)
    airflow.reaches(run, "success")

    airflow.clear(run, "reset_offsets")
    poll_until(lambda: airflow.read(f"{run}/taskInstances/reset_offsets")["try_number"] == 2)
    airflow.reaches(run, "success")
    (change,) = client.ok("GET", f"/v1/changes?group_id={group.group_id}", headers=AUTHORIZED)["changes"]
    assert (change["actor"], change["action"]) == (f"ada (dag:{DAG})", "reset_offsets")
    assert f"An earlier try made change {change['change_id']}; nothing is reset again." in airflow.log()
    (partition,) = client.ok("GET", f"{group.path}/lag", headers=AUTHORIZED)["partitions"]
    assert partition["current_offset"] == 10


def commit(client: Client, group: str, offset: Any) -> None:  # noqa: ANN401 - JSON
    body = {"generation": -1, "member_id": "", "offsets": [offset]}
    client.ok("POST", f"{group}/offsets", body, AUTHORIZED)
