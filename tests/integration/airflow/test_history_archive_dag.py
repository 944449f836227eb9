"""Run the history_archive DAG with real Spark and a fake node."""

from datetime import date
from pathlib import Path

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from spark_jobs.submit import maintenance_run_id
from tests.integration.airflow.airflow_process import AirflowProcess
from tests.support.fake_maintenance_node import FakeNode

DAG = "history_archive"
OLD = date(2026, 1, 2)
ROW = """
INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, member_id)
VALUES ('g', 1, 'orders', 0, '2026-01-02 10:00:00+00', 5, ''), ('g', 1, 'orders', 0, now(), 6, '')
"""

# Each run starts Spark.


@pytest.mark.slow
def test_old_history_is_copied_and_its_drop_requested(
    airflow: AirflowProcess, node: FakeNode, sql_connection: PsycopgConnection, jobs_url: str, tmp_path: Path
) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute(ROW)
    archive = (tmp_path / "archive").as_uri()
    settings = {"MUSTER_JOBS_DATABASE_URL": jobs_url, "MUSTER_URL": node.url, "MUSTER_ARCHIVE_URI": archive}
    run = airflow.run(DAG, {"keep_days": 40}, settings)
    assert (run["state"], run["tasks"]["wait_until_applied"], run["tasks"]["request_approval"]) == (
        "success",
        "success",
        "skipped",
    )
    run_id = maintenance_run_id(DAG, run["run_id"])
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT run_id::text, table_name, day, row_count, path FROM archive_candidates")
        ((found, table, day, row_count, path),) = cursor.fetchall()
    assert (found, table, day, row_count) == (run_id, "offset_history", OLD, 1)
    assert list(Path(path.removeprefix("file://")).glob("*.parquet"))
    assert node.calls() == [f"GET {run_id}", "POST apply", f"GET {run_id}"]
    assert node.seen[1].headers["X-Muster-Actor"] == "dag:history_archive"


@pytest.mark.slow
def test_history_retention_can_be_set_for_one_run(airflow: AirflowProcess) -> None:
    (dag,) = [dag for dag in airflow.describe()["dags"] if dag["dag_id"] == DAG]
    assert dag["catchup"] is False
    assert dag["params"]["keep_days"]["minimum"] == 1
