"""A user at a terminal: starts `muster up`, reads its output, calls the printed addresses, stops it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg2
import urllib3

from tests.support.ports import free_port
from tests.support.repository import ROOT
from tests.support.waiting import PATIENCE_S, poll_until

FIRST_ERROR_STATUS = 400
NEVER_IN_A_TEST = "0 0 1 1 *"
"""When the DAG runs by itself: not before New Year."""

Json = Any


class NewUser:
    """One `muster up`, with its commands, API and database."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir = data_dir
        self.port, self.airflow_port = free_port(), free_port()
        self.node_url = f"http://127.0.0.1:{self.port}"
        ports = ("--port", str(self.port), "--airflow-port", str(self.airflow_port))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "muster", "up", "--data-dir", str(data_dir), "--no-kafka", *ports, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=_clean_environment() | {"MUSTER_RETENTION_SCHEDULE": NEVER_IN_A_TEST},
        )
        self.lines: list[str] = []
        self._database_url: str | None = None
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip())
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def reads(self, pattern: str) -> re.Match[str]:
        """Wait until a line matches, and return the match."""
        found: list[re.Match[str]] = []

        def is_there() -> bool:
            found.extend(match for line in self.lines if (match := re.search(pattern, line)))
            return bool(found) or not self._reader.is_alive()

        with self._news:
            self._news.wait_for(is_there, PATIENCE_S)
        assert found, f"no line says {pattern!r}:\n" + "\n".join(self.lines)
        return found[0]

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def end(self) -> None:
        """Kill the run if the test has not stopped it."""
        if self.process.poll() is None:
            self.process.terminate()
        self._wait()

    def _wait(self) -> int:
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    # -- asking ------------------------------------------------------------------------------------------

    def get(self, path: str) -> Json:
        """Ask the node."""
        reply = urllib3.request("GET", f"{self.node_url}{path}", timeout=PATIENCE_S, retries=False)
        assert reply.status == 200, reply.data
        return reply.json()

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the database, by the URL that `muster database-url` prints."""
        with closing(psycopg2.connect(self.database_url())) as connection, connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def database_url(self) -> str:
        """Return the output of `muster database-url`, cached."""
        if self._database_url is not None:
            return self._database_url
        command = [sys.executable, "-m", "muster", "database-url", "--data-dir", str(self.data_dir)]
        self._database_url = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        return self._database_url

    def start(self, dag_id: str, conf: dict[str, object]) -> str:
        """Trigger a DAG with the printed password, as soon as Airflow has read its file, and return the run's id."""
        runs: list[Json] = []

        def is_started() -> bool:
            answer = self._airflow("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
            runs.append(answer.json())
            return answer.status < FIRST_ERROR_STATUS

        poll_until(is_started)
        run_id: str = runs[-1]["dag_run_id"]
        return run_id

    def end_of(self, dag_id: str, dag_run_id: str) -> str:
        """Wait until a run is over, and return how it ended."""
        states = self._airflow("GET", f"dags/{dag_id}/dagRuns/{quote(dag_run_id)}/wait?interval=0.5")
        last: str = json.loads(states.data.strip().splitlines()[-1])["state"]
        return last

    def types(self, command: str) -> str:
        """Run a command of a page in the project's folder, which must succeed, and return its output."""
        environment = {**_clean_environment(), "MUSTER_DATA_DIR": str(self.data_dir)}
        path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{environment['PATH']}"
        shell = ["bash", "-c", command.replace(".venv/bin/", "")]
        ran = subprocess.run(
            shell, env={**environment, "PATH": path}, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def clear(self, dag_id: str, dag_run_id: str, task_id: str) -> None:
        """Have a task run once more, as the button in Airflow does."""
        asked = {"dag_run_id": dag_run_id, "task_ids": [task_id], "only_failed": False, "dry_run": False}
        answer = self._airflow("POST", f"dags/{dag_id}/clearTaskInstances", asked)
        assert answer.status < FIRST_ERROR_STATUS, answer.data

    def tries(self, dag_id: str, dag_run_id: str, task_id: str) -> int:
        """Return how often a task was begun."""
        task = self._airflow("GET", f"dags/{dag_id}/dagRuns/{quote(dag_run_id)}/taskInstances/{task_id}")
        count: int = task.json()["try_number"]
        return count

    def task_states(self, dag_id: str, dag_run_id: str) -> dict[str, str]:
        """Return the state of each task of a run."""
        tasks = self._airflow("GET", f"dags/{dag_id}/dagRuns/{quote(dag_run_id)}/taskInstances")
        return {each["task_id"]: each["state"] for each in tasks.json()["task_instances"]}

    def slots(self, pool: str) -> int:
        """Return how many slots a pool has."""
        found: int = self._airflow("GET", f"pools/{pool}").json()["slots"]
        return found

    def has_active_runs(self, dag_id: str) -> bool:
        """Tell whether a run of the DAG is queued or running."""
        return bool(self.runs(dag_id, "state=queued&state=running"))

    def runs(self, dag_id: str, query: str) -> list[Json]:
        """Return the DAG's runs that the query names."""
        runs: list[Json] = self._airflow("GET", f"dags/{dag_id}/dagRuns?{query}").json()["dag_runs"]
        return runs

    def _airflow(self, method: str, path: str, body: Json = None) -> urllib3.BaseHTTPResponse:
        url, headers = f"http://127.0.0.1:{self.airflow_port}", {"Authorization": f"Bearer {self._airflow_token}"}
        return urllib3.request(
            method, f"{url}/api/v2/{path}", json=body, headers=headers, timeout=PATIENCE_S, retries=False
        )

    @cached_property
    def _airflow_token(self) -> str:
        password = self.reads(r"user admin, password (\S+)\)").group(1)
        credentials = {"username": "admin", "password": password}
        url = f"http://127.0.0.1:{self.airflow_port}/auth/token"
        token: str = urllib3.request("POST", url, json=credentials, timeout=PATIENCE_S).json()["access_token"]
        return token


@contextmanager
def new_user(data_dir: Path, *options: str) -> Iterator[NewUser]:
    """Run `muster up` for the time of a block."""
    platform = NewUser(data_dir, *options)
    try:
        yield platform
    except AssertionError as failure:
        failure.add_note("What it printed:\n" + "\n".join(platform.lines))
        raise
    finally:
        platform.end()


def _clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}


def processes_of(data_dir: Path) -> list[int]:
    """Return the processes whose command line or environment names the directory."""
    name = os.fsencode(data_dir)
    return [pid for pid in _pids() if _names(pid, name)]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _names(pid: int, name: bytes) -> bool:
    try:
        return any(name in (Path("/proc") / str(pid) / part).read_bytes() for part in ("cmdline", "environ"))
    except OSError:
        return False
