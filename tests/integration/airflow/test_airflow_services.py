"""Tests of the local Airflow services: secrets, loopback addresses, isolation from other Airflow configuration."""

import base64
import json
import os
import stat
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import httpx
import psycopg2
import pytest

from muster.errors import UserError
from muster.local.airflow import AirflowServices, pool_slots
from muster.settings import Settings, psql_url
from tests.support.fake_maintenance_node import FakeNode, running

pytestmark = pytest.mark.airflow

JOBS_DATABASE = "postgresql+psycopg2://jobs:pw@127.0.0.1:5432/muster"
AIRFLOW_DATABASE = "postgresql+psycopg2://muster:pw@127.0.0.1:5432/airflow"
NODE_URL = "http://127.0.0.1:8080"


SLOTS = {"muster_spark": 1, "muster_spark_reports": 2}
PREPARED = f"{version('apache-airflow')} muster_spark=1 muster_spark_reports=2"


def services(
    data_dir: Path,
    port: int = 8081,
    airflow_database: str = AIRFLOW_DATABASE,
    slots: Mapping[str, int] = MappingProxyType(SLOTS),
) -> AirflowServices:
    return AirflowServices(data_dir, JOBS_DATABASE, airflow_database, NODE_URL, port, slots)


def test_every_service_is_a_child_process_that_is_restarted(tmp_path: Path) -> None:
    children = services(tmp_path).children()
    assert [child.name for child in children] == [
        "airflow-api-server",
        "airflow-scheduler",
        "airflow-dag-processor",
        "airflow-triggerer",
    ]
    assert all(child.restart for child in children)
    assert {child.log_file for child in children} == {tmp_path / "logs" / f"{child.name}.log" for child in children}


def test_service_is_not_reachable_from_the_network(tmp_path: Path) -> None:
    environment = services(tmp_path, port=18_081).environment
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert environment["AIRFLOW__API__PORT"] == "18081"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:18081/execution/"
    serving_logs = [
        child.argv for child in services(tmp_path).children() if child.argv[1] in {"scheduler", "triggerer"}
    ]
    assert all("--skip-serve-logs" in argv for argv in serving_logs)


def test_configuration_of_another_airflow_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW_CONFIG", "elsewhere.cfg")
    monkeypatch.setenv("MUSTER_JOBS_DATABASE_URL", "postgresql://another/database")
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://owner:secret@another/database")
    monkeypatch.setenv("MUSTER_OFFSETS_RETENTION_MINUTES", "60")
    environment = services(tmp_path).environment
    assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert environment.keys().isdisjoint({"AIRFLOW_CONFIG", "MUSTER_DATABASE_URL"})
    assert environment["MUSTER_JOBS_DATABASE_URL"] == JOBS_DATABASE
    assert environment["MUSTER_URL"] == NODE_URL
    assert environment["MUSTER_SPARK_POOL"] == "muster_spark"
    assert environment["MUSTER_SPARK_REPORT_POOL"] == "muster_spark_reports"
    assert environment["MUSTER_OFFSETS_RETENTION_MINUTES"] == "60"


def test_services_call_one_another_and_nodes_without_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's clients and the hook take a proxy from the environment; many have no exception for 127.0.0.1."""
    for name, value in (("HTTP_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "localhost"), ("no_proxy", "127.0.0.0/8")):
        monkeypatch.setenv(name, value)
    for name, value in services(tmp_path).environment.items():
        monkeypatch.setenv(name, value)
    with running(FakeNode()) as node:
        assert httpx.get(f"{node.url}/v1/maintenance/runs/7").status_code == 200


def test_no_service_gets_the_url_of_the_database_s_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = "postgresql+psycopg2://muster_owner:of-the-owner@127.0.0.1:5432/muster"
    monkeypatch.setenv("MUSTER_DATABASE_URL", owner)
    for child in services(tmp_path).children():
        assert child.env is not None
        assert not [name for name, value in child.env.items() if "muster_owner" in value or "of-the-owner" in value]


def test_dags_get_the_token_and_never_the_nodes_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "muster_of-the-dags")
    monkeypatch.setenv("MUSTER_CLUSTER_SECRET", "a secret that is of the nodes alone")
    environment = services(tmp_path).environment
    assert environment["MUSTER_TOKEN"] == "muster_of-the-dags"
    assert "a secret that is of the nodes alone" not in environment.values()


def test_tasks_of_a_killed_scheduler_are_retried_within_a_minute(tmp_path: Path) -> None:
    environment = services(tmp_path).environment
    until_it_counts_as_gone_s = 30
    check_interval_s = int(environment["AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL"])
    assert until_it_counts_as_gone_s + check_interval_s < 60
    assert int(environment["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"]) <= 60
    assert "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD" not in environment


def test_slots_of_both_pools_are_settings_and_leave_tasks_to_others(tmp_path: Path) -> None:
    slots = pool_slots(Settings(spark_slots=2, spark_report_slots=3))
    assert slots == {"muster_spark": 2, "muster_spark_reports": 3}
    assert services(tmp_path, slots=slots).environment["AIRFLOW__CORE__PARALLELISM"] == "7"


def test_secrets_are_created_once_with_owner_only_permissions(tmp_path: Path) -> None:
    first, again = services(tmp_path), services(tmp_path)
    secrets = {key: value for key, value in first.environment.items() if key.endswith(("_KEY", "JWT_SECRET"))}
    assert len(secrets) == 3
    assert {key: again.environment[key] for key in secrets} == secrets
    assert len(set(secrets.values())) == 3
    assert first.password == again.password
    private = [file for file in (tmp_path / "airflow").iterdir() if file.is_file()]
    assert len(private) >= 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in private} == {0o600}


def test_secrets_have_the_length_that_airflow_requires(tmp_path: Path) -> None:
    environment = services(tmp_path).environment
    assert len(base64.urlsafe_b64decode(environment["AIRFLOW__CORE__FERNET_KEY"])) == 32
    assert len(environment["AIRFLOW__API_AUTH__JWT_SECRET"]) >= 64


def test_unusable_airflow_database_is_reported_in_one_sentence(tmp_path: Path) -> None:
    lost = services(tmp_path, airflow_database="postgresql+psycopg2://muster:secret@127.0.0.1:1/airflow")
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "migrated-to").write_text(
        f"{version('apache-airflow')} muster_spark=1 muster_spark_reports=2"
    )
    with pytest.raises(UserError) as failure:
        lost.prepare()
    log = tmp_path / "logs" / "airflow-migrate.log"
    assert failure.value.sentence.startswith("Airflow could not prepare its database; ")
    assert str(log) in failure.value.sentence
    assert "Connection refused" in log.read_text()
    users = json.loads((tmp_path / "airflow" / "users.json").read_text())
    assert users == {"admin": lost.password}


PAUSED_DAG = """
INSERT INTO dag_bundle (name) VALUES ('b');
INSERT INTO dag (
    dag_id, is_paused, is_stale, last_parsed_time, bundle_name, timetable_type, partition_mapper_info, max_active_tasks,
    max_consecutive_failed_dag_runs, has_task_concurrency_limits, fail_fast
) VALUES ('d', true, false, now() - interval '4 days', 'b', '', '[]', 1, 0, false, false)
"""


@pytest.mark.slow
def test_airflow_tables_are_created_in_a_new_database(tmp_path: Path, empty_database_url: str) -> None:
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "migrated-to").write_text(
        f"{version('apache-airflow')} muster_spark=1 muster_spark_reports=2"
    )
    services(tmp_path, airflow_database=empty_database_url).prepare()
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_name IN ('dag_run', 'alembic_version')"
    with closing(psycopg2.connect(psql_url(empty_database_url))) as connection, connection.cursor() as cursor:
        cursor.execute(tables)
        assert cursor.fetchone() == (2,)
        cursor.execute("SELECT pool, slots FROM slot_pool WHERE pool LIKE 'muster%'")
        assert dict(cursor.fetchall()) == SLOTS
    log = tmp_path / "logs" / "airflow-migrate.log"
    log.unlink()
    services(tmp_path, airflow_database=empty_database_url).prepare()
    assert not log.exists(), "the tables that are there need no second migration"
    run = "INSERT INTO dag_run (dag_id, run_id, run_type, start_date, run_after, clear_number, state) VALUES"
    with (
        closing(psycopg2.connect(psql_url(empty_database_url))) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        for age_days in (4, 2):
            cursor.execute(
                f"{run} ('d', %s, 'manual', now() - %s * interval '1 day', now(), 0, 'success')", [age_days] * 2
            )
        cursor.execute(PAUSED_DAG)
    cleanup = services(tmp_path, airflow_database=empty_database_url).cleanup(3)
    assert not cleanup.restart
    subprocess.run(cleanup.argv, env=cleanup.env, check=True, capture_output=True)
    with closing(psycopg2.connect(psql_url(empty_database_url))) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT run_id FROM dag_run")
        assert cursor.fetchall() == [("2",)]
        cursor.execute("SELECT is_paused FROM dag")
        assert cursor.fetchall() == [(True,)], "a DAG that was last parsed before the machine slept stays, and paused"
        cursor.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE '\\_airflow\\_deleted%'")
        assert cursor.fetchone() == (0,), "nothing is kept in tables beside"
    more = {**SLOTS, "muster_spark": 3}
    services(tmp_path, airflow_database=empty_database_url, slots=more).prepare()
    with closing(psycopg2.connect(psql_url(empty_database_url))) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT slots FROM slot_pool WHERE pool = 'muster_spark'")
        assert cursor.fetchone() == (3,)


def test_old_logs_are_removed_with_the_directories_that_this_empties(tmp_path: Path) -> None:
    tasks, days = tmp_path / "logs" / "airflow-tasks", tmp_path / "airflow" / "logs" / "dag_processor"
    old = tasks / "dag_id=offset_retention" / "run_id=1" / "task_id=gate" / "attempt=1.log"
    new = tasks / "dag_id=offset_retention" / "run_id=2" / "task_id=gate" / "attempt=1.log"
    both = [old.with_name("attempt=2.log"), old]
    for log in (*both, new, days / "2026-01-01" / "a.py.log", days / "2026-02-01" / "a.py.log"):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
    (days / "latest").symlink_to("2026-01-01")
    (empty := tasks / "dag_id=offset_retention" / "run_id=3").mkdir()
    for log in (*both, days / "2026-01-01" / "a.py.log"):
        os.utime(log, (long_ago := time.time() - 2.5 * 86_400, long_ago))
    services(tmp_path).remove_old_logs(3)
    assert old.exists()
    services(tmp_path).remove_old_logs(2)
    assert sorted(tasks.glob("*/*")) == [new.parent.parent, empty]
    assert sorted(days.iterdir()) == [days / "2026-02-01", days / "latest"]
    assert new.exists()


def test_unreachable_airflow_is_reported_as_unhealthy(tmp_path: Path) -> None:
    unreachable = services(tmp_path, port=1)
    assert not unreachable.is_answering()
    assert not unreachable.is_healthy()
    assert not unreachable.has_dag("offset_retention")
    assert not unreachable.is_paused("offset_retention")
    with pytest.raises(UserError, match=r"Airflow does not answer at http://127\.0\.0\.1:1\."):
        unreachable.trigger("offset_retention", {})
