"""Run the proposing DAGs with real Spark and Postgres, and a fake node that records its requests."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import psycopg2.extensions as pg
import pytest

from spark_jobs.database import parse_url
from spark_jobs.submit import PROPOSALS, maintenance_run_id
from tests.integration.airflow.airflow_process import AirflowProcess
from tests.integration.airflow.answering import NO_ANSWER, USER
from tests.integration.airflow.queries import rows
from tests.support.fake_maintenance_node import FakeNode
from tests.support.webhook import Webhook

DAG = "offset_retention"
OFFSETS = (
    "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
    " VALUES ('old', 3, 'orders', 0, 5, now() - interval '30 days'), ('new', 4, 'orders', 0, 5, now())"
)

# Each run starts Spark.


@pytest.fixture
def connection(database_url: str) -> Iterator[pg.connection]:
    with closing(parse_url(database_url).connect()) as connection:
        rows(connection, OFFSETS)
        yield connection


@pytest.fixture
def env(jobs_url: str, node: FakeNode) -> dict[str, str]:
    return {"MUSTER_JOBS_DATABASE_URL": jobs_url, "MUSTER_URL": node.url}


WITHIN = {
    "propose": "success",
    "gate": "success",
    "request_approval": "skipped",
    "decision": "skipped",
    "reject": "skipped",
    "apply": "success",
    "wait_until_applied": "success",
}
DRY = {**dict.fromkeys(WITHIN, "skipped"), "propose": "success", "gate": "success"}
APPROVED = {**dict.fromkeys(WITHIN, "success"), "reject": "skipped"}
HELD = {**dict.fromkeys(WITHIN, "skipped"), "propose": "success", "gate": "success", "reject": "success"}
REJECTED = {**dict.fromkeys(WITHIN, "success"), "apply": "skipped", "wait_until_applied": "skipped"}


def test_due_offsets_are_proposed_and_applied(
    airflow: AirflowProcess, node: FakeNode, connection: pg.connection, env: dict[str, str]
) -> None:
    node.statuses = ["proposed", "applying", "applied"]
    run = airflow.run(DAG, {}, env)
    assert (run["state"], run["tasks"]) == ("success", WITHIN)
    run_id = maintenance_run_id(DAG, run["run_id"])
    assert rows(connection, "SELECT run_id::text, group_id, reason FROM expiry_candidates") == [
        (run_id, "old", "simple_group")
    ]
    assert rows(connection, "SELECT group_id, within_a_week FROM offset_expiry_forecasts") == [("new", 1)]
    described = "SELECT run_id::text, as_of, interval_start, dry_run FROM maintenance_runs"
    assert rows(connection, described) == [(run_id, datetime.fromisoformat(run["run_after"]), None, False)]
    assert node.calls() == [f"GET {run_id}", "POST apply", f"GET {run_id}", f"GET {run_id}"]
    assert node.seen[1].path == f"/v1/maintenance/runs/{run_id}/apply"
    assert node.seen[1].headers["X-Muster-Actor"] == "dag:offset_retention"
    assert node.seen[1].body == {"reason": "it is within its limits", "candidates": 1}
    link = f"{node.url}/#/maintenance/{run_id}"
    assert run["results"]["propose"]["counts"] == {
        "candidates": 1,
        "of": 2,
        "groups": 1,
        "largest_group": 1,
        "largest_group_permille": 0,
        "simple_group": 1,
    }
    assert run["results"]["propose"]["largest_groups"] == [["old", 1]]
    assert {task: run["results"][task]["console"] for task in ("propose", "apply", "wait_until_applied")} == {
        "propose": link,
        "apply": link,
        "wait_until_applied": link,
    }
    assert run["results"]["wait_until_applied"]["counts"] == node.counts
    assert f"Run {run_id} is applied. Counts: candidates 1, of 2. See {link}" in airflow.log()


@pytest.mark.slow
def test_dry_run_proposes_without_approval(
    airflow: AirflowProcess, node: FakeNode, connection: pg.connection, env: dict[str, str]
) -> None:
    run = airflow.run(DAG, {"dry_run": True}, env, as_the_form=True)
    assert (run["state"], run["tasks"]) == ("success", DRY)
    assert rows(connection, "SELECT status, dry_run FROM maintenance_runs") == [("proposed", True)]
    # Airflow's form assigns the last whole interval, but a manual run evaluates the present.
    assert rows(connection, "SELECT as_of, interval_start, interval_end FROM maintenance_runs") == [
        (datetime.fromisoformat(run["run_after"]), None, None)
    ]
    assert rows(connection, "SELECT count(*) FROM expiry_candidates") == [(1,)]
    assert node.seen == []


@pytest.mark.slow
def test_empty_groups_are_proposed_and_retired(
    airflow: AirflowProcess, node: FakeNode, connection: pg.connection, env: dict[str, str]
) -> None:
    group = "INSERT INTO groups (group_id, shard_id, state, state_since) VALUES ('{}', 3, 'Empty', now())"
    rows(connection, "; ".join(map(group.format, ("old", "gone"))))
    run = airflow.run("group_cleanup", {}, env)
    assert (run["state"], run["tasks"]) == ("success", WITHIN)
    run_id = maintenance_run_id("group_cleanup", run["run_id"])
    assert rows(connection, "SELECT run_id::text, group_id FROM cleanup_candidates") == [(run_id, "gone")]
    assert node.calls() == [f"GET {run_id}", "POST apply", f"GET {run_id}"]
    assert node.seen[1].headers["X-Muster-Actor"] == "dag:group_cleanup"


@pytest.fixture
def env_without_spark(tmp_path: Path, node: FakeNode) -> dict[str, str]:
    """Put a spark-submit first that is done at once, for what comes after the proposal."""
    quick = tmp_path / "spark-submit"
    quick.write_text("#!/bin/sh\n")
    quick.chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "MUSTER_URL": node.url}


def test_a_failed_job_is_reported_with_its_reason_only(
    airflow: AirflowProcess, env_without_spark: dict[str, str], webhook: Webhook
) -> None:
    """The rest of what it printed, and its command, are in the log."""
    script = Path(env_without_spark["PATH"].partition(os.pathsep)[0], "spark-submit")
    script.write_text("#!/bin/sh\necho java.lang.Error: a trace\necho 'offset_retention: Cannot connect.'\nexit 1\n")
    env = {**env_without_spark, "MUSTER_ALERT_WEBHOOK_URL": webhook.url}
    assert airflow.run(DAG, {}, env, is_retried=False)["tasks"]["propose"] == "failed"
    alert = {each["event"]: each for each in webhook.alerts}["task_failed"]
    assert alert["text"] == "offset_retention.propose failed: offset_retention: Cannot connect."
    assert "Last spark-submit output:\njava.lang.Error: a trace\n" in airflow.log()


def test_job_that_refuses_its_arguments_is_not_retried(
    airflow: AirflowProcess, env_without_spark: dict[str, str], tmp_path: Path
) -> None:
    """They are the same for every try."""
    refusal = "assignment_balance_audit: error: the interval ended too long ago"
    (tmp_path / "spark-submit").write_text(f"#!/bin/sh\necho >> {tmp_path}/tries\necho '{refusal}'\nexit 2\n")
    run = airflow.run("assignment_balance_audit", {}, env_without_spark)
    assert (run["tasks"], (tmp_path / "tries").read_text()) == ({"report": "failed"}, "\n")
    assert refusal in airflow.log()


def test_job_of_a_cluster_without_nodes_is_not_submitted(
    airflow: AirflowProcess, env_without_spark: dict[str, str], tmp_path: Path
) -> None:
    """Its link needs the connection: the job would run for nothing, with each try."""
    (tmp_path / "spark-submit").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    database = "postgresql://jobs@127.0.0.1:1/mirror"
    env = {**env_without_spark, "MUSTER_CLUSTERS": "prod", "AIRFLOW_CONN_MUSTER_PROD_DATABASE": database}
    run = airflow.run("assignment_balance_audit.prod", {}, env, is_retried=False)
    assert (run["tasks"], (tmp_path / "ran").exists()) == ({"report": "failed"}, False)
    assert "The conn_id `muster_prod` isn't defined" in airflow.log()


def test_job_runs_in_yarn_s_cluster_mode(airflow: AirflowProcess, env_without_spark: dict[str, str]) -> None:
    yarn = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    run = airflow.run(DAG, {}, {**env_without_spark, "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(yarn)}, is_retried=False)
    assert run["tasks"]["propose"] == "success"


# -- the gate -------------------------------------------------------------------------------------------------


def exceeded(dag_id: str) -> str:
    return f"7 candidates are more than 5 (max_candidates, MUSTER_{dag_id.upper()}_MAX_CANDIDATES)."


EXCEEDED = exceeded(DAG)


@pytest.fixture
def beyond(node: FakeNode, env_without_spark: dict[str, str]) -> dict[str, str]:
    node.counts = {"candidates": 7, "of": 100}
    node.statuses = ["proposed", "applied"]
    return env_without_spark


@pytest.mark.parametrize("dag_id", PROPOSALS)
def test_proposal_that_exceeds_limits_waits_for_approval(
    airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str], dag_id: str
) -> None:
    run = airflow.run(dag_id, {"max_candidates": 5}, beyond, answer="Approve")
    assert (run["answered"], run["state"], run["tasks"]) == (200, "success", APPROVED)
    run_id = maintenance_run_id(dag_id, run["run_id"])
    assert node.calls() == [f"GET {run_id}", "POST apply", f"GET {run_id}"]
    assert node.seen[1].headers["X-Muster-Actor"] == f"airflow:{USER}"
    assert node.seen[1].body == {"reason": f"approved in Airflow: {exceeded(dag_id)}", "candidates": 7}


def test_rejected_proposal_is_not_applied(airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str]) -> None:
    run = airflow.run(DAG, {"max_candidates": 5}, beyond, answer="Reject")
    assert (run["answered"], run["state"], run["tasks"]) == (200, "success", REJECTED)
    assert node.calls()[1:] == ["POST reject"]
    assert node.seen[1].headers["X-Muster-Actor"] == f"airflow:{USER}"
    assert node.seen[1].body == {"reason": f"rejected in Airflow: {EXCEEDED}"}
    assert run["question"].startswith(
        "This run would expire 7 of 100 committed offsets, of an unknown number of groups."
    )
    assert f"because: {EXCEEDED}" in run["question"]
    link = f"{node.url}/#/maintenance/{maintenance_run_id(DAG, run['run_id'])}"
    assert f"]({link}) lists every candidate." in run["question"]


@pytest.mark.parametrize("limit", [5, 100], ids=["beyond the limits", "within the limits"])
def test_rejection_that_holds_is_repeated_without_approval(
    airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str], webhook: Webhook, limit: int
) -> None:
    node.held_by = {"run_id": "r-1", "actor": "airflow:ada", "at": "2026-11-20T10:00:00Z", "reason": "too many"}
    run = airflow.run(DAG, {"max_candidates": limit}, {**beyond, "MUSTER_ALERT_WEBHOOK_URL": webhook.url})
    assert (run["state"], run["tasks"]) == ("success", HELD)
    assert node.calls()[1:] == ["POST reject"]
    assert node.seen[1].headers["X-Muster-Actor"] == "dag:offset_retention"
    held = "the candidates are those of run r-1, which airflow:ada rejected at 2026-11-20T10:00:00Z: too many"
    assert node.seen[1].body == {"reason": held}
    assert f"It is to be rejected: {held}" in airflow.log()
    assert webhook.alerts == []


def test_request_without_an_answer_is_a_rejection(
    airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str]
) -> None:
    run = airflow.run(DAG, {"max_candidates": 5}, beyond, answer=NO_ANSWER)
    assert (run["state"], run["tasks"]) == ("success", REJECTED)
    assert node.calls()[1:] == ["POST reject"]
    assert node.seen[1].headers["X-Muster-Actor"] == "dag:offset_retention"
    assert node.seen[1].body == {"reason": f"no answer within 240 minutes: {EXCEEDED}"}


def test_proposal_without_counts_waits_for_approval(
    airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str]
) -> None:
    node.counts = {}
    run = airflow.run(DAG, {}, beyond, answer="Reject")
    assert run["tasks"] == REJECTED
    assert "has no counts" in node.seen[1].body["reason"]


def test_waiting_run_calls_the_webhook(
    airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str], webhook: Webhook
) -> None:
    airflow.run(DAG, {"max_candidates": 5}, {**beyond, "MUSTER_ALERT_WEBHOOK_URL": webhook.url}, answer="Reject")
    (alert,) = webhook.alerts
    assert (alert["event"], alert["dag_id"]) == ("approval_needed", DAG)
    assert alert["text"] == f"offset_retention waits for approval: {EXCEEDED}"


@pytest.mark.parametrize("status", ["applying", "applied"])
def test_decided_run_requests_no_second_approval(
    airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str], status: str
) -> None:
    """As after clearing the gate of a finished run."""
    node.statuses = [status, "applied"]
    run = airflow.run(DAG, {"max_candidates": 5}, beyond)
    assert (run["state"], run["tasks"]) == ("success", WITHIN)
    assert node.seen[1].body == {"reason": f"it is {status} already"}


def test_an_answer_counts_only_if_the_gate_has_requested_it(airflow: AirflowProcess) -> None:
    """Airflow deletes the XComs of a cleared task when it runs again, and so keeps those of one that is skipped."""
    answer = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": USER}}
    assert airflow.approval({"gate.exceeded": EXCEEDED, "request_approval.return_value": answer}) == answer
    assert airflow.approval({"request_approval.return_value": answer}) is None


def test_rejected_run_fails_at_the_gate(airflow: AirflowProcess, node: FakeNode, beyond: dict[str, str]) -> None:
    node.statuses = ["rejected"]
    run = airflow.run(DAG, {"max_candidates": 5}, beyond)
    assert (run["state"], run["tasks"]["gate"]) == ("failed", "failed")
    assert f"Run {maintenance_run_id(DAG, run['run_id'])} was rejected and is not applied." in airflow.log()
    assert len(node.seen) == 1


# -- failures -------------------------------------------------------------------------------------------------


def test_rejection_by_the_node_fails_the_run_with_its_detail(
    airflow: AirflowProcess, node: FakeNode, env_without_spark: dict[str, str], webhook: Webhook
) -> None:
    node.refusals = [(409, {"code": "INVALID_REQUEST", "detail": "an operator rejected this run"})] * 9
    run = airflow.run(DAG, {}, {**env_without_spark, "MUSTER_ALERT_WEBHOOK_URL": webhook.url})
    assert run["state"] == "failed"
    assert run["tasks"] == {**WITHIN, "apply": "failed", "wait_until_applied": "upstream_failed"}
    assert node.calls()[1:] == ["POST apply"]
    assert "INVALID_REQUEST (409): an operator rejected this run" in airflow.log()
    alert = {one["event"]: one for one in webhook.alerts}
    assert alert.keys() == {"task_failed", "run_failed"}
    assert alert["task_failed"]["task_id"] == "apply"
    assert "an operator rejected this run" in alert["task_failed"]["text"]


@pytest.mark.slow
def test_run_rejected_while_waiting_fails(
    airflow: AirflowProcess, node: FakeNode, env_without_spark: dict[str, str]
) -> None:
    node.statuses = ["proposed", "applying", "rejected"]
    run = airflow.run(DAG, {}, env_without_spark)
    assert (run["state"], run["tasks"]["wait_until_applied"]) == ("failed", "failed")
    assert f"Run {maintenance_run_id(DAG, run['run_id'])} was rejected; its candidates are kept." in airflow.log()
    assert len(node.seen) == 4


def test_no_secret_is_logged(airflow: AirflowProcess, jobs_url: str) -> None:
    assert parse_url(jobs_url).password not in airflow.log()
