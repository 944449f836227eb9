"""Policy tests for every DAG."""

from typing import Any

import pytest

from spark_jobs.submit import JOBS, PROPOSALS, REPORTS
from tests.integration.airflow.airflow_process import DAGS, PROPOSAL_POOL, REPORT_POOL, AirflowProcess

PROPOSING = frozenset({"offset_retention", "group_cleanup", "history_archive"})
"""DAGs that change live groups."""


@pytest.fixture(scope="session")
def bag(airflow: AirflowProcess) -> dict[str, Any]:
    return airflow.describe()


@pytest.fixture(scope="session")
def dags(bag: dict[str, Any]) -> list[dict[str, Any]]:
    # An empty list would pass every policy.
    assert bag["dags"], "there are no DAGs"
    found: list[dict[str, Any]] = bag["dags"]
    return found


def tasks_of(dags: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{dag['dag_id']}.{task['task_id']}", task) for dag in dags for task in dag["tasks"]]


def test_every_file_can_be_imported(bag: dict[str, Any]) -> None:
    assert bag["import_errors"] == {}


def test_a_schedule_that_is_no_cron_expression_is_refused_with_its_variable(airflow: AirflowProcess) -> None:
    env = {"MUSTER_RETENTION_SCHEDULE": "hourly", "MUSTER_REBALANCE_REPORT_SCHEDULE": " "}
    errors = airflow.describe(env)["import_errors"]
    expected = "MUSTER_RETENTION_SCHEDULE is 'hourly'; it must be a cron expression such as */10 * * * *: "
    assert {file: expected in error for file, error in errors.items()} == {"offset_retention.py": True}


def test_dag_files_use_no_deprecated_api(bag: dict[str, Any]) -> None:
    """Airflow's own packages warn of each other; a warning names the file that caused it."""
    assert [warning for warning in bag["warnings"] if warning.startswith(str(DAGS))] == []


def test_every_job_has_a_dag_and_every_file_one_dag_with_its_name(dags: list[dict[str, Any]]) -> None:
    assert {dag["dag_id"] for dag in dags} >= set(JOBS)
    assert {dag["file"] for dag in dags} == {file.name for file in DAGS.glob("[!_]*.py")}
    assert [dag["dag_id"] for dag in dags if dag["file"] != f"{dag['dag_id']}.py"] == []


@pytest.mark.parametrize("section", ["**What.**", "**Why.**", "**When it fails.**"])
def test_every_dag_documents_its_purpose_and_failures(dags: list[dict[str, Any]], section: str) -> None:
    assert [dag["dag_id"] for dag in dags if section not in (dag["doc_md"] or "")] == []


def test_every_dag_has_the_muster_tag(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if not {"muster", "maintenance"} <= set(dag["tags"])] == []


def test_every_dag_has_one_active_run_and_a_timeout(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if dag["max_active_runs"] != 1 or not dag["timeout_s"]] == []


def test_dag_timeout_exceeds_the_sum_of_response_timeouts(dags: list[dict[str, Any]]) -> None:
    waiting = [(dag["timeout_s"], sum(task["response_timeout_s"] or 0 for task in dag["tasks"])) for dag in dags]
    assert [(whole, parts) for whole, parts in waiting if whole <= parts] == []


def test_dag_timeout_exceeds_the_wait_until_an_interval_is_settled(airflow: AirflowProcess) -> None:
    dags = airflow.describe({"MUSTER_REPORT_SETTLE_MINUTES": "1440"})["dags"]
    assert [dag["dag_id"] for dag in dags if dag["dag_id"] in REPORTS and dag["timeout_s"] <= 1_440 * 60] == []


def test_every_dag_has_a_deadline_with_an_alert(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if dag["deadlines"] != ["spark_jobs.submit.deadline_missed"]] == []


def test_deadlines_are_in_seconds_so_that_a_failed_task_can_be_cleared(dags: list[dict[str, Any]]) -> None:
    """Airflow 3.3.2 fails when a task is cleared in a run whose deadline it cannot read."""
    assert {tuple(dag["deadlines_s"]) for dag in dags} == {(3_600.0,)}


def test_every_failure_is_reported(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if not dag["tells_of_failure"]] == []
    assert [name for name, task in tasks_of(dags) if not task["tells_of_failure"]] == []


def test_current_state_dags_do_not_catch_up(dags: list[dict[str, Any]]) -> None:
    assert {dag["dag_id"]: dag["catchup"] for dag in dags if dag["dag_id"] in PROPOSING} == dict.fromkeys(
        PROPOSING, False
    )


def test_only_interval_reports_catch_up(dags: list[dict[str, Any]]) -> None:
    catching_up = {dag["dag_id"]: dag["catchup"] for dag in dags}
    assert catching_up["rebalance_frequency_report"]
    assert not catching_up["assignment_balance_audit"]


def test_no_report_covers_time_before_the_first_data(dags: list[dict[str, Any]]) -> None:
    reporting = {dag["dag_id"]: dag["start_date"] for dag in dags if dag["dag_id"] in REPORTS}
    assert reporting == dict.fromkeys(REPORTS, "2026-11-20T00:00:00+00:00")


def test_every_option_of_a_job_is_a_parameter_with_its_bounds(dags: list[dict[str, Any]]) -> None:
    params = {dag["dag_id"]: dag["params"] for dag in dags}
    for job in JOBS.values():
        for option in job.options:
            schema = params[job.name][option.name]
            assert (schema["minimum"], schema["maximum"]) == (option.least, option.most), (job.name, option.name)


def test_proposal_has_priority_over_a_report(
    dags: list[dict[str, Any]],
) -> None:
    spark = [(dag["dag_id"], task) for dag in dags for task in dag["tasks"] if task["operator"] == "SparkJobOperator"]
    weights = {dag_id: task["priority"] for dag_id, task in spark}
    assert max(weights[job] for job in REPORTS) < min(weights[job] for job in PROPOSALS)


def test_every_parameter_has_a_type(dags: list[dict[str, Any]]) -> None:
    untyped = [(dag["dag_id"], name) for dag in dags for name, schema in dag["params"].items() if "type" not in schema]
    assert untyped == []


def test_every_number_among_the_parameters_has_its_bounds(dags: list[dict[str, Any]]) -> None:
    numbers = [
        (dag["dag_id"], name, schema)
        for dag in dags
        for name, schema in dag["params"].items()
        if schema["type"] in {"integer", "number"}
    ]
    assert numbers, "there are no numbers"
    assert [(dag_id, name) for dag_id, name, schema in numbers if not {"minimum", "maximum"} <= schema.keys()] == []


def test_every_dag_that_changes_groups_has_a_gate(dags: list[dict[str, Any]]) -> None:
    """Only the gate and a person's decision lead to `apply`."""
    for dag in (dag for dag in dags if dag["dag_id"] in PROPOSING):
        before = {task["task_id"] for task in dag["tasks"] if "apply" in task["downstream"]}
        assert before == {"gate", "decision"}, dag["dag_id"]
        assert {"max_candidates", "max_share"} <= dag["params"].keys(), dag["dag_id"]


def test_unanswered_approval_is_a_rejection(dags: list[dict[str, Any]]) -> None:
    asking = [(name, task) for name, task in tasks_of(dags) if task["operator"] == "HITLOperator"]
    assert len(asking) >= len(PROPOSING)
    assert [name for name, task in asking if task["default_answer"] != ["Reject"]] == []
    assert [name for name, task in asking if not task["response_timeout_s"]] == []


def test_waiting_tasks_release_their_slot(dags: list[dict[str, Any]]) -> None:
    assert [name for name, task in tasks_of(dags) if task["mode"] == "poke"] == []
    assert "reschedule" in {task["mode"] for _, task in tasks_of(dags)}


def test_long_waits_start_few_processes(dags: list[dict[str, Any]]) -> None:
    """Each look of a task that releases its slot is a process of its own."""
    pauses = {name: task["longest_pause_s"] for name, task in tasks_of(dags) if task["mode"] == "reschedule"}
    assert [name for name, pause_s in pauses.items() if pause_s < 30] == []


def test_spark_pools_can_be_configured(dags: list[dict[str, Any]]) -> None:
    spark = [(name, task["pool"]) for name, task in tasks_of(dags) if task["operator"] == "SparkJobOperator"]
    assert len(spark) >= len(JOBS)
    assert {name for name, pool in spark if pool == REPORT_POOL} == {f"{job}.report" for job in REPORTS}
    assert {name for name, pool in spark if pool == PROPOSAL_POOL} == {f"{job}.propose" for job in PROPOSALS}


def test_backfill_of_a_report_that_fills_its_slots_does_not_hold_up_retention(airflow: AirflowProcess) -> None:
    backfill, retention = ("rebalance_frequency_report", "report"), ("offset_retention", "propose")
    slots = {PROPOSAL_POOL: 1, REPORT_POOL: 2}
    assert airflow.queue(slots, running=[backfill] * 2, scheduled=[*[backfill] * 3, retention]) == [retention]
    assert airflow.queue(slots, running=[backfill], scheduled=[backfill] * 3) == [backfill]


def test_group_cleanup_starts_after_offset_retention(dags: list[dict[str, Any]]) -> None:
    updates = {asset: dag["dag_id"] for dag in dags for task in dag["tasks"] for asset in task["assets"]}
    starts = {asset: dag["dag_id"] for dag in dags for asset in dag["starts_on"]}
    assert (updates["offsets_expired"], starts["offsets_expired"]) == ("offset_retention", "group_cleanup")
    assert starts.keys() <= updates.keys()


def test_every_dag_has_a_dry_run_parameter(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if dag["params"].get("dry_run", {}).get("type") != "boolean"] == []


def test_every_task_has_an_owner_and_retries_with_exponential_backoff(dags: list[dict[str, Any]]) -> None:
    careless = [
        name
        for name, task in tasks_of(dags)
        if task["owner"] != "muster" or not task["retries"] or not task["backs_off"] or not task["has_timeout"]
    ]
    assert careless == []
