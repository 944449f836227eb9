"""Airflow for the local platform: four child processes that listen on loopback.

`airflow standalone` is not used: asked to stop, it leaves its own children behind, and restarts none that died. Here
every service is a child process like any other, and its environment says all there is to say.
"""

import base64
import json
import os
import secrets
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg2
import urllib3

import dags
from muster.data_dir import DataDir, keep_secret, write_private
from muster.errors import UserError
from muster.local.java import find_java, spark_environment
from muster.local.processes import ChildSpec, tied_command
from muster.node_client import FIRST_ERROR_STATUS
from muster.settings import Settings, psql_url
from spark_jobs.submit import archive_uri

LOOPBACK = "127.0.0.1"
USERNAME = "admin"
SPARK_MASTER = "local[2]"
SPARK_POOL = "muster_spark"
REPORT_POOL = "muster_spark_reports"
POOL_DESCRIPTIONS: Mapping[str, str] = {SPARK_POOL: "Spark jobs that propose", REPORT_POOL: "Spark jobs that report"}
OTHER_TASKS = 2
"""The number of slots for tasks other than those of Spark."""
UNCHANGED_DAGS_INTERVAL_S = 120
"""The interval at which unchanged DAG files are parsed again; the default of 30 s takes 4 s of a core every minute."""
ORPHANS_CHECK_INTERVAL_S = 10
"""The interval at which a scheduler adopts the tasks of a dead one, which counts as dead after half a minute."""
TASK_HEARTBEAT_TIMEOUT_S = 60
"""How long after its last heartbeat a task counts as killed, and is retried."""
REQUEST_TIMEOUT_S = 10.0
RESTART_DELAY_S = 2.0
FERNET_KEY_BYTES = 32
MIGRATED = "migrated-to"

TRIGGERER = "airflow-triggerer"
TRIGGERER_LOGGING = {
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    "AIRFLOW__LOGGING__NAMESPACE_LEVELS": "airflow=WARNING airflow.task=INFO httpx=WARNING",
}
"""The log level of the triggerer: at a higher one Airflow drops the progress of triggers from task logs."""

SERVICES: Mapping[str, tuple[str, ...]] = {
    "airflow-api-server": ("api-server",),
    "airflow-scheduler": ("scheduler", "--skip-serve-logs"),
    "airflow-dag-processor": ("dag-processor",),
    TRIGGERER: ("triggerer", "--skip-serve-logs"),
}
"""The name of each child process, and its arguments of `airflow`."""

CLEANUP = "airflow-cleanup"
WITHOUT_GRAPHVIZ = "ignore:Could not import graphviz"
"""Airflow prints this warning to the standard output, before the JSON of `airflow dags list --output json`."""
CLEANED_TABLES = "asset_event,callback,dag_run,log"
"""Those that grow with each run. Not that of DAGs, which has whether one is paused: none is parsed while a machine
sleeps."""
DAY_S = 86_400

REQUIRED_COMPONENTS = ("metadatabase", "scheduler", "dag_processor")

FOREIGN_VARIABLES = ("AIRFLOW", "MUSTER_DATABASE_URL", "MUSTER_JOBS_")
"""Prefixes of variables that are not inherited: they may be meant for another Airflow or another database."""

NODE_ONLY_VARIABLES = ("MUSTER_CLUSTER_SECRET",)
"""Not inherited: it grants every identity, and DAGs have a token of their own."""

EXCLUDED_VARIABLES = (*FOREIGN_VARIABLES, *NODE_ONLY_VARIABLES)

_SET_POOL = """
INSERT INTO slot_pool (pool, slots, description, include_deferred) VALUES (%s, %s, %s, false)
ON CONFLICT (pool) DO UPDATE SET slots = excluded.slots
"""


class AirflowServices:
    """One Airflow for one data directory."""

    def __init__(
        self,
        data_dir: Path,
        jobs_database_url: str,
        airflow_database_url: str,
        node_url: str,
        port: int,
        pool_slots: Mapping[str, int],
    ) -> None:
        """Prepare, without creating or starting anything.

        Args:
            data_dir: the platform's directory; Airflow's home and secrets go into `airflow/` there, logs into `logs/`.
            jobs_database_url: Muster's database as a member of `muster_jobs`, which can read and propose.
            airflow_database_url: Airflow's own database, which exists.
            node_url: the node that DAGs ask to apply what a job proposed.
            port: of Airflow's pages and API.
            pool_slots: pool of Spark tasks → how many of them run at once.
        """
        self.url = f"http://{LOOPBACK}:{port}"
        self.username = USERNAME
        self._port = port
        self._pool_slots = pool_slots
        self._home = data_dir / "airflow"
        self._logs = data_dir / "logs"
        self._task_logs = self._logs / "airflow-tasks"
        self._spark_files = self._home / "spark"
        self._data_dir = data_dir
        self._jobs_database_url = jobs_database_url
        self._airflow_database_url = airflow_database_url
        self._node_url = node_url

    @property
    def password(self) -> str:
        """The password of the only user; it is created once per data directory."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return keep_secret(self._home / "password")

    # -- starting --------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create missing secrets, and the tables and pools of this version of Airflow; blocks for some seconds.

        Raises:
            UserError: Airflow cannot use its database; the sentence names the log.
        """
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(self._spark_files, ignore_errors=True)  # Killed jobs remove nothing.
        write_private(self._home_file("users.json"), json.dumps({self.username: self.password}))
        if self._has_tables():
            return
        log = self._logs / "airflow-migrate.log"
        with log.open("wb") as output:
            command = tied_command((_airflow(), "db", "migrate"))
            done = subprocess.run(command, env=self.environment, stdout=output, stderr=output, check=False)
        if done.returncode != 0:
            raise UserError(f"Airflow could not prepare its database; see {log}.")
        self._set_pools()
        write_private(self._home_file(MIGRATED), self._prepared())

    def _set_pools(self) -> None:
        """Create the pools, or set their slots; `airflow pools import` takes two seconds of a core for it."""
        rows = [(pool, slots, POOL_DESCRIPTIONS[pool]) for pool, slots in self._pool_slots.items()]
        with closing(psycopg2.connect(psql_url(self._airflow_database_url))) as connection, connection:
            connection.cursor().executemany(_SET_POOL, rows)

    def children(self) -> list[ChildSpec]:
        """Return the services, each of which is restarted when it ends."""
        return [
            ChildSpec(
                name=name,
                argv=(_airflow(), *arguments),
                env=self.environment | (TRIGGERER_LOGGING if name == TRIGGERER else {}),
                log_file=self._logs / f"{name}.log",
                restart=True,
                restart_delay_s=RESTART_DELAY_S,
            )
            for name, arguments in SERVICES.items()
        ]

    def cleanup(self, keep_days: int) -> ChildSpec:
        """Return the process that deletes older runs from Airflow's database, and ends."""
        before = datetime.now(UTC) - timedelta(days=keep_days)
        what = ("--clean-before-timestamp", before.isoformat(), "--tables", CLEANED_TABLES)
        arguments = ("db", "clean", *what, "--skip-archive", "--yes")
        return ChildSpec(CLEANUP, (_airflow(), *arguments), self.environment, self._logs / f"{CLEANUP}.log")

    def remove_old_logs(self, keep_days: int) -> None:
        """Remove the logs of tasks and of parsing DAGs that were last written before; Airflow itself keeps them all."""
        for directory in (self._task_logs, self._home / "logs"):
            _remove_old_files(directory, time.time() - keep_days * DAY_S)

    @cached_property
    def environment(self) -> dict[str, str]:
        """The complete environment of every service; no configuration file is edited.

        Raises:
            UserError: there is no Java that Spark could use.
        """
        base = {key: value for key, value in os.environ.items() if not key.startswith(EXCLUDED_VARIABLES)}
        return (
            {"SPARK_LOCAL_DIRS": str(self._spark_files)}
            | base
            | spark_environment(find_java(self._data_dir), base)
            | self._airflow_settings()
            | self._muster_variables()
        )

    def _airflow_settings(self) -> dict[str, str]:
        return {
            "AIRFLOW_HOME": str(self._home),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._airflow_database_url,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": str(sum(self._pool_slots.values()) + OTHER_TASKS),
            "AIRFLOW__CORE__DAGS_FOLDER": str(Path(dags.__file__).parent),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__FERNET_KEY": self._fernet_key(),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{self.username}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._home_file("users.json")),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__SECRET_KEY": keep_secret(self._home_file("api-secret")),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": self._long_secret("jwt-secret"),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": str(UNCHANGED_DAGS_INTERVAL_S),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": str(ORPHANS_CHECK_INTERVAL_S),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(TASK_HEARTBEAT_TIMEOUT_S),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self._task_logs),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "AIRFLOW__LOGGING__NAMESPACE_LEVELS": "airflow.task=INFO",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            # Its services and tasks call one another, and the nodes of this machine.
            "no_proxy": "*",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": SPARK_MASTER}),
        }

    def _muster_variables(self) -> dict[str, str]:
        """Return the variables that the DAGs and jobs of Muster read, and the path of its packages."""
        return {
            "MUSTER_JOBS_DATABASE_URL": self._jobs_database_url,
            "MUSTER_URL": self._node_url,
            "MUSTER_SPARK_POOL": os.environ.get("MUSTER_SPARK_POOL") or SPARK_POOL,
            "MUSTER_SPARK_REPORT_POOL": os.environ.get("MUSTER_SPARK_REPORT_POOL") or REPORT_POOL,
            "MUSTER_ARCHIVE_URI": archive_uri(self._data_dir),
            "MUSTER_REPORTS_SINCE": os.environ.get("MUSTER_REPORTS_SINCE") or self._reports_since(),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_project_root()), os.environ.get("PYTHONPATH", "")])),
        }

    def _reports_since(self) -> str:
        """Return the day on which Airflow was first started here: earlier days have nothing to report."""
        file = self._home_file("first-day")
        if not file.exists():
            write_private(file, datetime.now(UTC).date().isoformat())
        return file.read_text()

    def _has_tables(self) -> bool:
        """Return whether this version of Airflow has created its tables; a query is faster than Airflow's command."""
        migrated = self._home_file(MIGRATED)
        if not migrated.exists() or migrated.read_text() != self._prepared():
            return False
        try:
            connection = psycopg2.connect(psql_url(self._airflow_database_url))
        except psycopg2.OperationalError:
            return False
        with closing(connection), connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('alembic_version') IS NOT NULL")
            return cursor.fetchone() == (True,)

    def _prepared(self) -> str:
        """Return the marker of completed preparation for this version of Airflow."""
        pools = (f"{pool}={slots}" for pool, slots in self._pool_slots.items())
        return " ".join((version("apache-airflow"), *pools))

    def _home_file(self, name: str) -> Path:
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._home / name

    def _fernet_key(self) -> str:
        """Return the key that Airflow encrypts connections with: 32 bytes in URL-safe base64."""
        file = self._home_file("fernet-key")
        if not file.exists():
            write_private(file, base64.urlsafe_b64encode(secrets.token_bytes(FERNET_KEY_BYTES)).decode())
        return file.read_text()

    def _long_secret(self, name: str) -> str:
        """Return a secret of at least 64 characters, as Airflow's tokens require."""
        return "".join(keep_secret(self._home_file(f"{name}-{part}")) for part in (1, 2))

    # -- asking ----------------------------------------------------------------------------------------

    def is_answering(self) -> bool:
        """Return whether the API server is up, which tasks need."""
        return self._health() is not None

    def is_healthy(self) -> bool:
        """Return whether all components that a DAG run needs report healthy."""
        health = self._health() or {}
        return all((health.get(part) or {}).get("status") == "healthy" for part in REQUIRED_COMPONENTS)

    def has_dag(self, dag_id: str) -> bool:
        """Return whether Airflow has parsed a DAG's file."""
        try:
            return bool(self._call("GET", f"/api/v2/dags/{dag_id}")["dag_id"] == dag_id)
        except UserError:
            return False

    def is_paused(self, dag_id: str) -> bool:
        """Return whether an operator has paused a DAG, so that its runs wait; False if Airflow has not parsed it."""
        try:
            return bool(self._call("GET", f"/api/v2/dags/{dag_id}")["is_paused"])
        except UserError:
            return False

    def _health(self) -> dict[str, Any] | None:
        try:
            return self._call("GET", "/api/v2/monitor/health", is_signed_in=False)
        except UserError:
            return None

    def trigger(self, dag_id: str, conf: Mapping[str, object]) -> str:
        """Start a DAG run now and return its id; `conf` sets the DAG's params."""
        run = self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": dict(conf)})
        return str(run["dag_run_id"])

    def state_of(self, dag_id: str, dag_run_id: str) -> str:
        """Return the state of a DAG run."""
        return str(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{quote(dag_run_id)}")["state"])

    def _call(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, is_signed_in: bool = True
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._sign_in()}"} if is_signed_in else {}
        try:
            reply = urllib3.request(
                method, self.url + path, json=body, headers=headers, timeout=REQUEST_TIMEOUT_S, retries=False
            )
            answer: dict[str, Any] = reply.json()
        except (urllib3.exceptions.HTTPError, ValueError) as failure:
            raise UserError(f"Airflow does not answer at {self.url}.") from failure
        if reply.status >= FIRST_ERROR_STATUS:
            raise UserError(
                f"Airflow refused {method} {path} ({reply.status}): {answer.get('detail', 'no reason given')}"
            )
        return answer

    def _sign_in(self) -> str:
        # Each call has a token of its own: calls are few, and a token that was kept would run out one day.
        credentials = {"username": self.username, "password": self.password}
        return str(self._call("POST", "/auth/token", credentials, is_signed_in=False)["access_token"])


def pool_slots(settings: Settings) -> dict[str, int]:
    """Return the pools of Spark tasks and their slots."""
    return {SPARK_POOL: settings.spark_slots, REPORT_POOL: settings.spark_report_slots}


def airflow_in_use(settings: Settings) -> tuple[str, dict[str, str]]:
    """Return Airflow's program, and the environment of the Airflow of the running platform.

    Raises:
        UserError: nothing runs in the data directory, it runs without Airflow, or Airflow is not installed.
    """
    holder = DataDir(settings.data_dir).holder()
    if holder is None:
        advice = "start muster up, or name its directory in MUSTER_DATA_DIR"
        raise UserError(f"Nothing runs in {settings.data_dir}; {advice}.")
    if not (holder.database_urls and holder.node_url and holder.airflow_url and holder.airflow_database_url):
        raise UserError(f"{holder} runs without Airflow, or is still starting it; see what it prints.")
    if not Path(_airflow()).exists():
        raise UserError(f"Airflow is not installed: there is no {_airflow()}; make setup installs it.")
    port = urllib3.util.parse_url(holder.airflow_url).port
    assert port is not None, "muster up publishes its port"
    jobs_url, airflow_url = holder.database_urls.jobs, holder.airflow_database_url
    airflow = AirflowServices(settings.data_dir, jobs_url, airflow_url, holder.node_url, port, pool_slots(settings))
    return _airflow(), {"PYTHONWARNINGS": WITHOUT_GRAPHVIZ} | airflow.environment


def _remove_old_files(directory: Path, before_s: float) -> None:
    """Remove the files that were last written before an instant (Unix time), and directories that this empties."""
    removed: set[Path] = set()
    for place, directories, names in os.walk(directory, topdown=False):
        here = Path(place)
        for file in (here / name for name in names):
            if file.lstat().st_mtime < before_s:
                file.unlink()
                removed.add(file)
        # A directory that is empty already may be that of a task which starts.
        if (directories or names) and removed.issuperset(here / name for name in (*directories, *names)):
            here.rmdir()
            removed.add(here)


def _airflow() -> str:
    return str(Path(sysconfig.get_path("scripts")) / "airflow")


def _project_root() -> Path:
    """Return the folder of Muster's packages, which spark-submit's Python needs, too."""
    return Path(dags.__file__).parent.parent
