"""Run the timeout_advice DAG with real Spark and Postgres."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2.extensions as pg
import pytest

from spark_jobs.database import parse_url
from spark_jobs.submit import maintenance_run_id
from tests.integration.airflow.airflow_process import AirflowProcess
from tests.integration.airflow.queries import rows
from tests.support.random_history import Past

DAG = "timeout_advice"
REPORT_TASKS = {"wait_until_settled": "success", "report": "success"}

# Each run starts Spark.


@pytest.fixture
def connection(database_url: str) -> Iterator[pg.connection]:
    past = Past(datetime.now(UTC) - timedelta(hours=1))
    past.group("flapping", 1)
    with closing(parse_url(database_url).connect()) as connection:
        past.store(connection)
        yield connection


@pytest.mark.slow
def test_every_group_gets_advice_under_the_run_id_of_the_dag(
    airflow: AirflowProcess, connection: pg.connection, jobs_url: str
) -> None:
    run = airflow.run(DAG, {"spurious_per_week": 2}, {"MUSTER_JOBS_DATABASE_URL": jobs_url})
    assert (run["state"], run["tasks"]) == ("success", REPORT_TASKS)
    advice_query = "SELECT run_id::text, group_id, session_verdict, as_of, interval_end FROM timeout_advice"
    at = datetime.fromisoformat(run["run_after"])
    assert rows(connection, advice_query) == [(maintenance_run_id(DAG, run["run_id"]), "flapping-1", "change", at, at)]


@pytest.mark.slow
def test_dry_run_writes_no_advice(airflow: AirflowProcess, connection: pg.connection, jobs_url: str) -> None:
    run = airflow.run(DAG, {"dry_run": True}, {"MUSTER_JOBS_DATABASE_URL": jobs_url})
    assert (run["state"], run["tasks"]) == ("success", REPORT_TASKS)
    assert rows(connection, "SELECT * FROM timeout_advice") == []
