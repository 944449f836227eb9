"""What holds for every DAG, whoever writes the next one."""

from typing import Any

import pytest

from spark_jobs.submit import JOBS
from tests.dags.airflow_process import DAGS, AirflowProcess


@pytest.fixture(scope="session")
def bag(airflow: AirflowProcess) -> dict[str, Any]:
    return airflow.describe()


@pytest.fixture(scope="session")
def dags(bag: dict[str, Any]) -> list[dict[str, Any]]:
    # Whatever is asked of every DAG would be true of none.
    assert bag["dags"], "there are no DAGs"
    found: list[dict[str, Any]] = bag["dags"]
    return found


def tasks_of(dags: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{dag['dag_id']}.{task['task_id']}", task) for dag in dags for task in dag["tasks"]]


def test_every_file_can_be_imported(bag: dict[str, Any]) -> None:
    assert bag["import_errors"] == {}


def test_no_file_of_ours_uses_what_is_going_away(bag: dict[str, Any]) -> None:
    """Airflow's own packages warn of each other; a warning names the file that caused it."""
    assert [warning for warning in bag["warnings"] if warning.startswith(str(DAGS))] == []


def test_every_job_has_a_dag_and_every_file_one_dag_of_its_own_name(dags: list[dict[str, Any]]) -> None:
    assert {dag["dag_id"] for dag in dags} >= set(JOBS)
    assert {dag["file"] for dag in dags} == {file.name for file in DAGS.glob("[!_]*.py")}
    assert [dag["dag_id"] for dag in dags if dag["file"] != f"{dag['dag_id']}.py"] == []


@pytest.mark.parametrize("section", ["**What.**", "**Why.**", "**When it fails.**"])
def test_every_dag_tells_what_why_and_what_to_do(dags: list[dict[str, Any]], section: str) -> None:
    assert [dag["dag_id"] for dag in dags if section not in (dag["doc_md"] or "")] == []


def test_every_dag_is_tagged_as_ours(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if not {"muster", "maintenance"} <= set(dag["tags"])] == []


def test_no_dag_runs_beside_itself_or_without_end(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if dag["max_active_runs"] != 1 or not dag["has_timeout"]] == []


def test_every_parameter_has_a_type(dags: list[dict[str, Any]]) -> None:
    untyped = [(dag["dag_id"], name) for dag in dags for name, schema in dag["params"].items() if "type" not in schema]
    assert untyped == []


def test_every_dag_can_be_run_dry(dags: list[dict[str, Any]]) -> None:
    assert [dag["dag_id"] for dag in dags if dag["params"].get("dry_run", {}).get("type") != "boolean"] == []


def test_every_task_has_an_owner_and_is_tried_again_with_growing_pauses(dags: list[dict[str, Any]]) -> None:
    careless = [
        name
        for name, task in tasks_of(dags)
        if task["owner"] != "muster" or not task["retries"] or not task["backs_off"]
    ]
    assert careless == []
