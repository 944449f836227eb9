"""Run the same job on a standalone cluster and on one machine, with our code from one zip."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from pyspark.sql import SparkSession

from muster.local.java import find_java, spark_environment
from spark_jobs import package, submit
from spark_jobs.arguments import read_arguments
from spark_jobs.database import parse_url
from spark_jobs.jobs import offset_retention
from spark_jobs.proposal_job import describe, propose
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


def proposed(connection: PsycopgConnection) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT group_id FROM expiry_candidates ORDER BY partition")
        return cursor.fetchall()


DUE = [(f"old-{n}",) for n in range(100, 201)]
OUTPUT = f"{JOB}: proposed run {RUN_ID}: candidates 101, groups 101, simple_group 101.\n"


@pytest.mark.slow
def test_documented_submission_proposes_on_a_cluster_what_the_job_proposes_locally(
    spark: SparkSession,
    cluster: Cluster,
    environment: dict[str, str],
    sql_connection: PsycopgConnection,
    tmp_path: Path,
    zipped: Path,
) -> None:
    """By the documented words, with the configuration of `muster job`, in a directory without project files."""
    with sql_connection.cursor() as cursor:
        cursor.execute(OFFSETS)
    jar, file = submit.find_jdbc_jar(), submit.application(JOB)
    own = {
        "spark://host:7077": cluster.master,
        "dist/muster_spark.zip": str(zipped),
        "postgresql.jar": str(jar),
        "spark_jobs/jobs/offset_retention.py": file,
        "…": RUN_ID,
        "604800000": "6000000",
    }
    program, *words = shlex.split(the_command("docs/maintenance.md", "spark-submit --master"))
    assert own.keys() < set(words)
    spark_submit, *of_muster_job = submit.command(JOB, master=cluster.master, jar=jar, arguments=[])
    assert Path(spark_submit).name == program
    documented = [own.get(word, word) for word in words]
    options = documented[: documented.index(file)]
    assert {*zip(options[::2], options[1::2], strict=True)} <= {*pairwise(of_muster_job)}
    conf = [part for each in (*starmap("{}={}".format, submit.SPARK_CONF.items()), *CONF) for part in ("--conf", each)]
    command = [spark_submit, *conf, *documented]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.endswith(OUTPUT)) == (0, True), ran.stderr[-4000:]
    assert proposed(sql_connection) == DUE
    launched = [log.read_text().count("Launch command") for log in cluster.worker_logs]
    assert all(launched), "each worker ran an executor"
    assert f"Registered app {JOB}" in cluster.master_log.read_text()

    arguments = read_arguments(JOB, ["--run-id", RUN_ID, "--as-of", AS_OF, "--retention-ms", "6000000"])
    database = parse_url(environment["MUSTER_JOBS_DATABASE_URL"])
    with closing(database.connect()) as connection:
        here = propose(offset_retention.JOB, spark, database, connection, arguments)
    assert f"{describe(JOB, RUN_ID, here)}\n" == OUTPUT
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
