"""Run the report DAGs with real Spark and Postgres."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2.extensions as pg
import pytest

from spark_jobs.database import parse_url
from spark_jobs.submit import maintenance_run_id
from tests.integration.airflow.airflow_process import AirflowProcess
from tests.support.stored_history import group, insert, member, rebalance, table_rows

# Each run starts Spark.


@pytest.fixture
def connection(database_url: str) -> Iterator[pg.connection]:
    with closing(parse_url(database_url).connect()) as connection:
        yield connection


@pytest.fixture
def env(jobs_url: str) -> dict[str, str]:
    return {"MUSTER_JOBS_DATABASE_URL": jobs_url}


@pytest.mark.slow
def test_manual_run_reports_the_last_whole_day(
    airflow: AirflowProcess, connection: pg.connection, env: dict[str, str]
) -> None:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    insert(connection, "rebalances", rebalance(midnight - timedelta(hours=5), took_s=3))
    run = airflow.run("rebalance_frequency_report", {"churn_min_rebalances": 2, "report_days": 30}, env)
    assert (run["state"], run["tasks"]) == ("success", {"wait_until_settled": "success", "report": "success"})
    (row,) = table_rows(connection, "rebalance_frequency_reports")
    assert (row["interval_start"], row["interval_end"]) == (midnight - timedelta(days=1), midnight)
    assert (row["run_id"], row["took_max_ms"]) == (
        maintenance_run_id("rebalance_frequency_report", run["run_id"]),
        3_000,
    )


def test_audit_reports_the_current_state(
    airflow: AirflowProcess, connection: pg.connection, env: dict[str, str]
) -> None:
    insert(connection, "groups", group())
    insert(connection, "members", member("a", ["t"], {"t": {0: 1, 1: 1}}), member("b", ["t"], {}))
    run = airflow.run("assignment_balance_audit", {}, env, as_the_form=True)
    assert (run["state"], run["tasks"]) == ("success", {"report": "success"})
    assert run["assets"] == ["assignments_audited"]
    (row,) = table_rows(connection, "assignment_balance_audits")
    asked_at = datetime.fromisoformat(run["run_after"])
    assert (row["interval_start"], row["interval_end"], row["score"]) == (asked_at, asked_at, 50)
    assert asked_at < row["as_of"] <= datetime.now(UTC)
    assert row["run_id"] == maintenance_run_id("assignment_balance_audit", run["run_id"])


@pytest.mark.slow
def test_dry_run_counts_rows_writes_none_and_updates_no_asset(
    airflow: AirflowProcess, connection: pg.connection, env: dict[str, str]
) -> None:
    insert(connection, "groups", group())
    insert(connection, "members", member("a", ["t"], {"t": {0: 1}}))
    run = airflow.run("assignment_balance_audit", {"dry_run": True}, env)
    assert (run["state"], run["assets"]) == ("success", [])
    assert table_rows(connection, "assignment_balance_audits") == []
    assert "would write the report" in airflow.log()


def test_empty_report_says_why_with_a_link(airflow: AirflowProcess, env: dict[str, str]) -> None:
    run = airflow.run("rebalance_frequency_report", {}, env)
    assert run["state"] == "success"
    result = run["results"]["report"]
    assert (result["counts"], result["why_nothing"]) == ({"rebalance_frequency_reports": 0}, "there are no groups")
    line = f"Counts: rebalance_frequency_reports 0 (there are no groups). See {result['console']}"
    assert line in airflow.log()
