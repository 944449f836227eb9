"""Airflow's REST API, as its user sees it."""

import json
from typing import Any

from tests.support.http_client import AS_JSON, Client
from tests.support.waiting import poll_until
from tests.system.containers.platform import Platform


class AirflowApi:
    """Requests of the user whose password the api-server has made."""

    def __init__(self, platform: Platform) -> None:
        self._client = Client(platform.url("airflow-api-server", 8080))
        passwords = json.loads(platform.ask("airflow-api-server", "cat", "/opt/airflow/state/passwords.json"))
        body = {"username": "admin", "password": passwords["admin"]}
        token = self._client.ok("POST", "/auth/token", body)["access_token"]
        self._headers = {"Authorization": f"Bearer {token}", **AS_JSON}

    def close(self) -> None:
        self._client.close()

    def run(self, dag: str, **conf: object) -> str:
        """Run a DAG, and return the state in which it ended."""
        poll_until(lambda: self._client.call("GET", f"/api/v2/dags/{dag}", headers=self._headers).status == 200)
        runs = f"/api/v2/dags/{dag}/dagRuns"
        run = self._client.ok("POST", runs, {"logical_date": None, "conf": conf}, self._headers)["dag_run_id"]
        return str(poll_until(lambda: self._ended(f"{runs}/{run}")))

    def task_states(self, dag: str) -> dict[str, Any]:
        """Return the states of the newest run's tasks."""
        (newest,) = self._client.ok(
            "GET", f"/api/v2/dags/{dag}/dagRuns?order_by=-run_after&limit=1", headers=self._headers
        )["dag_runs"]
        path = f"/api/v2/dags/{dag}/dagRuns/{newest['dag_run_id']}/taskInstances"
        found = self._client.ok("GET", path, headers=self._headers)["task_instances"]
        return {each["task_id"]: each["state"] for each in found}

    def _ended(self, path: str) -> str | None:
        state = self._client.ok("GET", path, headers=self._headers)["state"]
        return state if state in ("success", "failed") else None
