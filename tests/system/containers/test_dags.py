"""Each DAG runs on the Spark cluster: its tasks in the scheduler's container, its executors in the workers'."""

import json
from collections.abc import Iterator

import pytest

from spark_jobs.submit import JOBS
from tests.support.http_client import Client, position
from tests.support.waiting import poll_until
from tests.system.containers.airflow_api import AirflowApi
from tests.system.containers.platform import PROJECT, Platform

pytestmark = pytest.mark.containers

ASK_MASTER = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/json/').read().decode())"
WITHOUT_THE_SECRET = (
    "from pyspark.sql import SparkSession as s; s.Builder().master('spark://spark-master:7077').getOrCreate()"
)
OLD = "old"
SEED = (
    "UPDATE offsets SET committed_at = now() - interval '30 days' WHERE group_id = 'old'",
    """INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, member_id)
    VALUES ('old', 1, 'orders', 0, '2026-01-02 10:00Z', 5, '')""",
)
RESULTS = {
    "offset_retention": "SELECT count(*) FROM archived_offsets WHERE group_id = 'old'",
    "group_cleanup": "SELECT count(*) FROM maintenance_runs WHERE kind = 'group_cleanup' AND status = 'applied'",
    "history_archive": "SELECT count(*) FROM archived_partitions WHERE table_name = 'offset_history'",
}


@pytest.fixture(scope="module")
def airflow(platform: Platform) -> Iterator[AirflowApi]:
    api = AirflowApi(platform)
    yield api
    api.close()


@pytest.fixture(scope="module")
def old_history(platform: Platform) -> None:
    """Let there be an offset and a day of history that are past their retention."""
    client = Client(platform.url("load-balancer", 8080))
    headers = {"Authorization": f"Bearer {platform.token('operator')}"}
    path = f"/v1/groups/{OLD}/offsets"
    commit = {"generation": -1, "member_id": "", "offsets": [position(5)]}
    # A shard that is just changing its owner gives a retriable error.
    poll_until(lambda: client.call("POST", path, commit, headers).status < 300)
    client.close()
    poll_until(lambda: platform.sql("SELECT count(*) FROM offsets WHERE group_id = 'old'") == [["1"]])
    for statement in SEED:
        platform.sql(statement)


@pytest.mark.usefixtures("old_history")
@pytest.mark.parametrize("job", JOBS)
def test_dag_runs_on_the_cluster(platform: Platform, airflow: AirflowApi, job: str) -> None:
    assert airflow.run(job) == "success", airflow.task_states(job)
    master = json.loads(platform.ask("spark-master", "python", "-c", ASK_MASTER))
    assert job in {each["name"] for each in master["completedapps"]}
    if job in RESULTS:
        assert platform.sql(RESULTS[job]) != [["0"]]


def test_master_refuses_an_application_without_the_secret(platform: Platform) -> None:
    ran = platform.podman.attempt(
        "exec", "--env=SPARK_CONF_DIR=/tmp", f"{PROJECT}-airflow-scheduler-1", "python", "-c", WITHOUT_THE_SECRET
    )
    assert ran.returncode != 0
    assert "maybe your client does not have SASL enabled" in ran.stderr
