"""`muster airflow`: Airflow's command line in the environment of the running platform."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.data_dir import DatabaseUrls, DataDir, RunLock
from muster.settings import ENVIRONMENT_PREFIX
from tests.support.muster_command import Muster
from tests.support.repository import ROOT

pytestmark = pytest.mark.airflow

AIRFLOW_DATABASE = "postgresql+psycopg2://airflow:pw@127.0.0.1:5432/airflow"
URL = "postgresql+psycopg2://muster:pw@127.0.0.1:5432/muster"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path))
    data_dir = DataDir(tmp_path)
    data_dir.create()
    return data_dir


@pytest.fixture
def lock(data_dir: DataDir) -> Iterator[RunLock]:
    """Hold the directory as a `muster up` without Airflow does."""
    with data_dir.locked("up") as lock:
        lock.publish_database_urls(DatabaseUrls(URL, URL, URL))
        lock.publish_node_url("http://127.0.0.1:8080")
        yield lock


def run(data_dir: DataDir, *arguments: str) -> "subprocess.CompletedProcess[str]":
    ours = {name: value for name, value in os.environ.items() if not name.startswith((ENVIRONMENT_PREFIX, "AIRFLOW"))}
    environment = {**ours, "MUSTER_DATA_DIR": str(data_dir.path)}
    command = [sys.executable, "-m", "muster", "airflow", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_airflow_runs_with_the_configuration_of_the_platform(data_dir: DataDir, lock: RunLock) -> None:
    lock.publish_airflow("http://127.0.0.1:18081", AIRFLOW_DATABASE)

    ran = run(data_dir, "config", "list", "--show-values")
    assert ran.returncode == 0, ran.stderr
    assert f"dags_folder = {ROOT / 'dags'}\n" in ran.stdout
    assert "execution_api_server_url = http://127.0.0.1:18081/execution/\n" in ran.stdout
    assert (data_dir.airflow / "airflow.cfg").exists()
    assert f"\nsql_alchemy_conn = {AIRFLOW_DATABASE}\n" in ran.stdout


def test_output_has_no_warning_of_a_library_that_is_not_needed(data_dir: DataDir, lock: RunLock) -> None:
    """Airflow prints warnings to the standard output, where JSON is read from."""
    lock.publish_airflow("http://127.0.0.1:18081", AIRFLOW_DATABASE)

    assert "py.warnings" not in run(data_dir, "dags", "details", "offset_retention", "--output", "json").stdout


def test_arguments_and_exit_code_are_airflow_s(data_dir: DataDir, lock: RunLock) -> None:
    lock.publish_airflow("http://127.0.0.1:18081", AIRFLOW_DATABASE)

    ran = run(data_dir, "pools", "get", "default_pool", "--data-dir", "--", "--help")
    assert ran.returncode == 2
    assert "airflow command error: unrecognized arguments: --data-dir -- --help" in ran.stderr


def test_without_a_run_there_is_one_sentence(bare_muster: Muster, data_dir: DataDir) -> None:
    assert bare_muster.refused(1, "airflow", "dags", "list") == (
        f"Nothing runs in {data_dir.path}; start muster up, or name its directory in MUSTER_DATA_DIR."
    )


def test_run_without_airflow_is_reported(bare_muster: Muster, lock: RunLock) -> None:
    del lock  # It is held.
    assert bare_muster.refused(1, "airflow", "dags", "list") == (
        f"muster up (pid {os.getpid()}) runs without Airflow, or is still starting it; see what it prints."
    )


def test_missing_airflow_is_reported(
    bare_muster: Muster, lock: RunLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.publish_airflow("http://127.0.0.1:18081", AIRFLOW_DATABASE)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    assert bare_muster.refused(1, "airflow", "dags", "list") == (
        f"Airflow is not installed: there is no {tmp_path}/scripts/airflow; make setup installs it."
    )
