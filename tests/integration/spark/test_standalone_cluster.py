"""Run the same job on a standalone cluster and on one machine, with our code from one zip."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.local.java import find_java, spark_environment
from spark_jobs import package, submit
from tests.integration.spark.cluster import Cluster, clean_environment, running_cluster
from tests.support.class_archive import java_options
from tests.support.documented_commands import the_command

pytestmark = pytest.mark.jvm

# Java starts many times over.

JOB = "offset_retention"
RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
AS_OF = "2026-11-21T12:00:00+00:00"
OFFSETS = """
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)
SELECT 'old-' || n, n % 50, 'orders', n, 5, timestamptz '2026-11-21 12:00Z' - n * interval '1 minute'
FROM generate_series(1, 200) AS n
"""
CONF = (
    "spark.executor.memory=512m",
    "spark.driver.host=127.0.0.1",
    f"spark.executor.extraJavaOptions={java_options()}",
)


@pytest.fixture
def environment(tmp_path: Path, database_url: str) -> dict[str, str]:
    base = clean_environment()
    return {**base, **spark_environment(find_java(tmp_path), base), "MUSTER_JOBS_DATABASE_URL": database_url}


@pytest.fixture
def cluster(tmp_path: Path, environment: dict[str, str]) -> Iterator[Cluster]:
    with running_cluster(tmp_path, environment) as cluster:
        yield cluster


@pytest.fixture
def zipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "muster_spark.zip"
    package.build(file)
    monkeypatch.setenv("MUSTER_SPARK_PY_FILES", str(file))
    return file


def submitted(
    environment: dict[str, str], directory: Path, master: str, *conf: str
) -> subprocess.CompletedProcess[str]:
    """Run the job by spark-submit as `muster job` does, in a directory without project files."""
    arguments = submit.job_arguments(run_id=RUN_ID, as_of=AS_OF, retention_ms=6_000_000, is_dry_run=False)
    command = submit.command(JOB, master=master, jar=submit.find_jdbc_jar(), arguments=arguments)
    more = [part for each in conf for part in ("--conf", each)]
    return subprocess.run(
        [*command[:1], *more, *command[1:]], env=environment, cwd=directory, capture_output=True, text=True, check=False
    )


def proposed(connection: PsycopgConnection) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT group_id FROM expiry_candidates ORDER BY partition")
        return cursor.fetchall()


DUE = [(f"old-{n}",) for n in range(100, 201)]
OUTPUT = f"{JOB}: proposed run {RUN_ID}: candidates 101, groups 101, simple_group 101.\n"


@pytest.mark.usefixtures("zipped")
@pytest.mark.slow
def test_job_has_equal_results_on_a_standalone_cluster_and_locally(
    cluster: Cluster, environment: dict[str, str], sql_connection: PsycopgConnection, tmp_path: Path
) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute(OFFSETS)
    ran = submitted(environment, tmp_path, cluster.master, *CONF)
    assert (ran.returncode, ran.stdout.endswith(OUTPUT)) == (0, True), ran.stderr[-4000:]
    assert proposed(sql_connection) == DUE
    launched = [log.read_text().count("Launch command") for log in cluster.worker_logs]
    assert all(launched), "each worker ran an executor"
    assert "Registered app offset_retention" in cluster.master_log.read_text()
    here = submitted(environment, tmp_path, "local[*]")
    assert (here.returncode, here.stdout) == (0, ran.stdout), here.stderr[-4000:]
    assert proposed(sql_connection) == DUE


@pytest.mark.slow
def test_documented_submission_proposes_on_a_cluster(
    cluster: Cluster, environment: dict[str, str], sql_connection: PsycopgConnection, tmp_path: Path, zipped: Path
) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute(OFFSETS)
    own = {
        "spark://host:7077": cluster.master,
        "dist/muster_spark.zip": str(zipped),
        "postgresql.jar": str(submit.find_jdbc_jar()),
        "spark_jobs/jobs/offset_retention.py": str(package.ROOT / "spark_jobs" / "jobs" / "offset_retention.py"),
        "…": RUN_ID,
        "604800000": "6000000",
    }
    program, *words = shlex.split(the_command("docs/maintenance.md", "spark-submit --master"))
    assert own.keys() < set(words)
    spark_submit, *_ = submit.command(JOB, master="", jar=submit.find_jdbc_jar(), arguments=[])
    assert Path(spark_submit).name == program
    conf = [part for each in CONF for part in ("--conf", each)]
    command = [spark_submit, *conf, *(own.get(word, word) for word in words)]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.endswith(OUTPUT)) == (0, True), ran.stderr[-4000:]
    assert proposed(sql_connection) == DUE


IMPORTS = """
import importlib, json, sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
sys.path = [sys.argv[1], *(path for path in sys.path if path != sys.argv[2])]
for job in sys.argv[3].split(","):
    importlib.import_module(f"spark_jobs.jobs.{job}")
ours = {name: module.__file__ for name, module in sys.modules.items() if name.startswith(("spark_jobs", "coordinator"))}
print(json.dumps(ours))
"""


def test_zip_has_every_module_that_a_job_imports(zipped: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", IMPORTS, str(zipped), str(package.ROOT), ",".join(submit.JOBS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    ours = json.loads(ran.stdout)
    assert "coordinator_core.protocol.retention" in ours
    assert [name for name, file in ours.items() if not file.startswith(str(zipped))] == []


def test_zip_has_no_node_modules_and_is_reproducible(zipped: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    package.build(again)
    assert again.read_bytes() == zipped.read_bytes()
    with ZipFile(again) as archive:
        folders = {"/".join(name.split("/")[:2]) for name in archive.namelist() if name.startswith("coordinator_core")}
    pure = {"coordinator_core/analytics", "coordinator_core/assignors", "coordinator_core/protocol"}
    assert folders == {"coordinator_core/__init__.py", "coordinator_core/jobs.py", *pure}
