"""Run DAGs for a further cluster, which is configured as docs/maintenance.md shows."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2.extensions as pg
import pytest

from spark_jobs.database import SHARED_OPTIONS, Database, parse_url
from spark_jobs.submit import JOBS, maintenance_run_id
from spark_jobs.submit.clusters import DATABASE_OPTIONS
from tests.integration.airflow.airflow_process import AirflowProcess
from tests.support.databases import Databases
from tests.support.fake_maintenance_node import FakeNode
from tests.support.repository import ROOT
from tests.support.stored_history import group, insert, member, table_rows
from tests.support.webhook import Webhook

KAFKA_CLUSTER = "bXVzdGVyLW1pcnJvcg"
OLD_ROW = """
INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, member_id)
VALUES ('g', 1, 'orders', 0, '2026-01-02 10:00:00+00', 5, '')
"""


@pytest.fixture
def other_url(databases: Databases) -> Iterator[str]:
    """Give the database of the cluster `prod`."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def other(other_url: str) -> Iterator[pg.connection]:
    with closing(parse_url(other_url).connect()) as connection:
        yield connection


@pytest.fixture
def env(databases: Databases, jobs_url: str, other_url: str, node: FakeNode, webhook: Webhook) -> dict[str, str]:
    """Return the variables of the page, with addresses of this test."""
    own = {"MUSTER_JOBS_DATABASE_URL": jobs_url, "MUSTER_URL": "http://127.0.0.1:1"}
    alerts = {"MUSTER_ALERT_WEBHOOK_URL": webhook.url}
    return {**own, **alerts, **documented(node.url, databases.jobs_url(other_url))}


def documented(node_url: str, database_url: str) -> dict[str, str]:
    page = (ROOT / "docs" / "maintenance.md").read_text()
    (block,) = re.findall(r"^```text\n(MUSTER_CLUSTERS=.*?)^```$", page, re.MULTILINE | re.DOTALL)
    addresses = {
        "mirror-1:8080,mirror-2:8080": node_url.removeprefix("http://"),
        "postgresql://muster_jobs_login:…@postgres:5432/mirror": database_url.replace("+psycopg2", ""),
    }
    for example, used in addresses.items():
        assert example in block, example
        block = block.replace(example, used)
    return dict(line.split("=", 1) for line in shlex.split(block))


def test_each_job_has_a_dag_for_the_cluster(airflow: AirflowProcess, env: dict[str, str]) -> None:
    bag = airflow.describe(env)
    assert bag["import_errors"] == {}
    dags = {dag["dag_id"]: dag for dag in bag["dags"]}
    assert dags.keys() == set(JOBS) | {f"{job}.prod" for job in JOBS}
    for job in JOBS:
        own, other = dags[job], dags[f"{job}.prod"]
        assert own["params"]["cluster"]["enum"] == ["default", "prod"]
        assert other["params"]["cluster"]["enum"] == ["prod"]
        assert [task["task_id"] for task in own["tasks"]] == [task["task_id"] for task in other["tasks"]]
    assert dags["group_cleanup.prod"]["starts_on"] == ["offsets_expired.prod"]
    updated = {asset for task in dags["offset_retention.prod"]["tasks"] for asset in task["assets"]}
    assert updated == {"offsets_expired.prod"}


@pytest.mark.parametrize(
    ("extra", "options"),
    [
        ("{}", ()),  # what Airflow's pages store
        ('{"sslmode": "require", "connect_timeout": 5, "cursor": "dictcursor"}', (("sslmode", "require"),)),
    ],
)
def test_a_database_connection_is_read_whatever_its_extra(
    airflow: AirflowProcess, extra: str, options: tuple[tuple[str, str], ...]
) -> None:
    fields = {"host": "one,two", "login": "a@b", "password": "p?/%:", "schema": "mirror", "extra": extra}
    connection = json.dumps({"conn_type": "postgres", **fields})
    url = airflow.database_url("prod", {"AIRFLOW_CONN_MUSTER_PROD_DATABASE": connection})
    expected = Database((("one", "5432"), ("two", "5432")), "mirror", "a@b", "p?/%:", options)
    assert parse_url(url) == expected
    assert (*SHARED_OPTIONS, "target_session_attrs") == DATABASE_OPTIONS


def test_links_lead_to_the_console_that_browsers_open(airflow: AirflowProcess) -> None:
    connection = {"conn_type": "muster", "host": "node-1.prod,node-2.prod:8090"}
    named = {**connection, "extra": {"console_url": "https://muster.example.org/"}}

    def url(cluster: str = "default", **env: Any) -> str:  # noqa: ANN401 - text, or JSON
        variables = {name: value if isinstance(value, str) else json.dumps(value) for name, value in env.items()}
        return airflow.console_url(cluster, {"MUSTER_CONSOLE_URL": "", "MUSTER_URL": "", **variables})

    assert url() == "http://127.0.0.1:8080/#/reports"
    assert url(MUSTER_URL="http://node:8080") == "http://node:8080/#/reports"
    assert url(MUSTER_URL="http://ada:hunter2@node:8080") == "http://node:8080/#/reports"
    own: dict[str, Any] = {"MUSTER_URL": "http://node:8080", "AIRFLOW_CONN_MUSTER_DEFAULT": connection}
    assert url(**own) == "http://node-1.prod:8080/#/reports"
    own["AIRFLOW_CONN_MUSTER_DEFAULT"] = named
    assert url(**own) == "https://muster.example.org/#/reports"
    assert url(**own, MUSTER_CONSOLE_URL="https://own") == "https://own/#/reports"
    prod = url("prod", AIRFLOW_CONN_MUSTER_PROD=named, MUSTER_CONSOLE_URL="https://own", MUSTER_CLUSTERS="prod")
    assert prod == "https://muster.example.org/#/reports"


@pytest.mark.slow
def test_report_is_about_the_database_of_the_cluster(
    airflow: AirflowProcess, node: FakeNode, other: pg.connection, sql_connection: pg.connection, env: dict[str, str]
) -> None:
    insert(other, "groups", group())
    insert(other, "members", member("a", ["t"], {"t": {0: 1}}))
    dag = "assignment_balance_audit.prod"
    run = airflow.run(dag, {}, env)
    assert (run["state"], run["tasks"]) == ("success", {"report": "success"})
    assert run["results"]["report"]["console"] == f"{node.url}/#/reports"
    (row,) = table_rows(other, "assignment_balance_audits")
    assert (row["score"], row["run_id"]) == (100, maintenance_run_id(dag, run["run_id"]))
    by_param = airflow.run("assignment_balance_audit", {"cluster": "prod"}, env)
    assert by_param["state"] == "success"
    assert len(table_rows(other, "assignment_balance_audits")) == 2
    assert table_rows(sql_connection, "assignment_balance_audits") == []


@pytest.mark.slow
def test_history_goes_to_the_archive_of_the_cluster_by_its_nodes(
    airflow: AirflowProcess, node: FakeNode, other: pg.connection, env: dict[str, str], tmp_path: Path
) -> None:
    with other, other.cursor() as cursor:
        cursor.execute(OLD_ROW)
    node.mirrored_cluster = KAFKA_CLUSTER
    nodes = {**json.loads(env["AIRFLOW_CONN_MUSTER_PROD"]), "extra": {"console_url": "https://muster.example.org"}}
    run = airflow.run(
        "history_archive.prod",
        {},
        {**env, "AIRFLOW_CONN_MUSTER_PROD": json.dumps(nodes), "MUSTER_ARCHIVE_URI": tmp_path.as_uri()},
    )
    assert (run["state"], run["tasks"]["wait_until_applied"]) == ("success", "success")
    run_id = maintenance_run_id("history_archive.prod", run["run_id"])
    assert node.calls() == [f"GET {run_id}", "POST apply", f"GET {run_id}"]
    assert node.seen[1].headers["X-Muster-Actor"] == "dag:history_archive.prod"
    assert run["results"]["apply"]["console"] == f"https://muster.example.org/#/maintenance/{run_id}"
    (candidate,) = table_rows(other, "archive_candidates")
    assert candidate["path"].startswith(f"{tmp_path.as_uri()}/cluster=prod/offset_history/day=2026-01-02/")


@pytest.mark.parametrize("job", [job.name for job in JOBS.values() if job.changes_groups])
def test_retention_and_cleanup_of_a_mirror_are_skipped_without_an_alert(
    airflow: AirflowProcess, node: FakeNode, webhook: Webhook, env: dict[str, str], job: str
) -> None:
    node.mirrored_cluster = KAFKA_CLUSTER
    run = airflow.run(job, {"cluster": "prod"}, env)
    assert (run["state"], set(run["tasks"].values())) == ("success", {"skipped"})
    assert (
        f"The nodes mirror the Kafka cluster {KAFKA_CLUSTER}: its offsets and groups expire there. Nothing"
        in airflow.log()
    )
    assert (node.calls(), webhook.alerts) == ([], [])
