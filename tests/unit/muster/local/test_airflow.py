"""Airflow's preparation ends with the run that started it, and removes what killed jobs have left."""

import subprocess
import sys
from pathlib import Path

import pytest

from muster import process_table
from muster.errors import UserError
from muster.local import airflow
from tests.support.waiting import poll_until

PREPARING = """
import sys
from pathlib import Path
from muster.local import airflow

class Services(airflow.AirflowServices):
    environment = {}

airflow._airflow = lambda: sys.argv[1]
Services(Path(sys.argv[2]), "jobs", "airflow", "http://127.0.0.1:1", 1, {}).prepare()
"""


def test_preparation_ends_if_the_run_is_killed(tmp_path: Path) -> None:
    program, said = tmp_path / "airflow", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {said}\nexec /bin/sleep 1000\n")
    program.chmod(0o700)
    with subprocess.Popen([sys.executable, "-c", PREPARING, str(program), str(tmp_path / "data")]) as run:
        pid = int(poll_until(lambda: said.exists() and said.read_text()))
        run.kill()
    poll_until(lambda: (row := process_table.find_process(pid)) is None or row.is_zombie)


def test_files_of_killed_jobs_are_removed_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(airflow, "find_java", lambda _: tmp_path)
    monkeypatch.setattr(airflow, "_airflow", lambda: "/bin/false")
    services = airflow.AirflowServices(tmp_path, "jobs", "airflow", "http://127.0.0.1:1", 1, {})
    left = Path(services.environment["SPARK_LOCAL_DIRS"], "blockmgr-1")
    left.mkdir(parents=True)
    with pytest.raises(UserError, match="could not prepare"):
        services.prepare()
    assert not left.exists()
