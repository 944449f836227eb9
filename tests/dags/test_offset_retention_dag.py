"""The DAG run for real: its own tasks, real Spark and Postgres, and a fake node that keeps what it was asked."""

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg2.extensions as pg
import pytest

from spark_jobs.database import parse_url
from spark_jobs.submit import maintenance_run_id
from tests.dags.airflow_process import AirflowProcess
from tests.dags.fake_node import FakeNode

DAG = "offset_retention"
OFFSETS = (
    "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
    " VALUES ('old', 3, 'orders', 0, 5, now() - interval '30 days'), ('new', 4, 'orders', 0, 5, now())"
)

# Spark starts anew in every run.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def connection(database_url: str) -> Iterator[pg.connection]:
    with closing(parse_url(database_url).connect()) as connection:
        rows(connection, OFFSETS)
        yield connection


def rows(connection: pg.connection, statement: str) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def env(database_url: str, node: FakeNode) -> dict[str, str]:
    return {"MUSTER_JOBS_DATABASE_URL": database_url, "MUSTER_URL": node.url}


def test_what_is_due_is_proposed_and_applied(
    airflow: AirflowProcess, node: FakeNode, connection: pg.connection, env: dict[str, str]
) -> None:
    node.statuses = ["applying", "applied"]
    run = airflow.run(DAG, {}, env)
    assert run["state"] == "success"
    assert run["tasks"] == dict.fromkeys(["propose", "gate", "apply", "applied"], "success")
    run_id = maintenance_run_id(DAG, run["run_id"])
    assert rows(connection, "SELECT run_id::text, group_id, reason FROM expiry_candidates") == [
        (run_id, "old", "simple_group")
    ]
    described = "SELECT run_id::text, as_of, interval_start, dry_run FROM maintenance_runs"
    assert rows(connection, described) == [(run_id, datetime.fromisoformat(run["run_after"]), None, False)]
    assert node.calls() == ["POST apply", f"GET {run_id}", f"GET {run_id}"]
    assert node.seen[0].path == f"/v1/maintenance/runs/{run_id}/apply"
    assert node.seen[0].headers["X-Muster-Actor"] == "dag:offset_retention"
    assert node.seen[0].body["reason"]


def test_a_dry_run_proposes_and_asks_nobody(
    airflow: AirflowProcess, node: FakeNode, connection: pg.connection, env: dict[str, str]
) -> None:
    run = airflow.run(DAG, {"dry_run": True}, env)
    assert run["state"] == "success"
    assert run["tasks"] == {"propose": "success", "gate": "success", "apply": "skipped", "applied": "skipped"}
    assert rows(connection, "SELECT status, dry_run FROM maintenance_runs") == [("proposed", True)]
    assert rows(connection, "SELECT count(*) FROM expiry_candidates") == [(1,)]
    assert node.seen == []


@pytest.fixture
def env_without_spark(tmp_path: Path, node: FakeNode) -> dict[str, str]:
    """Put a spark-submit first that is done at once, for what comes after the proposal."""
    quick = tmp_path / "spark-submit"
    quick.write_text("#!/bin/sh\n")
    quick.chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "MUSTER_URL": node.url}


def test_a_refusal_is_final_and_told_in_the_coordinator_s_words(
    airflow: AirflowProcess, node: FakeNode, env_without_spark: dict[str, str]
) -> None:
    node.refusals = [(409, {"code": "INVALID_REQUEST", "detail": "somebody rejected this run"})] * 9
    run = airflow.run(DAG, {}, env_without_spark)
    assert run["state"] == "failed"
    assert run["tasks"] == {"propose": "success", "gate": "success", "apply": "failed", "applied": "upstream_failed"}
    assert node.calls() == ["POST apply"]
    assert "INVALID_REQUEST (409): somebody rejected this run" in airflow.log()


def test_a_run_that_is_rejected_while_it_waits_fails(
    airflow: AirflowProcess, node: FakeNode, env_without_spark: dict[str, str]
) -> None:
    node.statuses = ["applying", "rejected"]
    run = airflow.run(DAG, {}, env_without_spark)
    assert (run["state"], run["tasks"]["applied"]) == ("failed", "failed")
    assert f"Run {maintenance_run_id(DAG, run['run_id'])} was rejected; its candidates stay." in airflow.log()
    assert len(node.seen) == 3


def test_no_secret_is_logged(airflow: AirflowProcess, database_url: str) -> None:
    assert parse_url(database_url).password not in airflow.log()
