"""Answer a DAG run's approval request through Airflow's REST API, or let it time out."""

import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.support.repository import ROOT

USER, PASSWORD = "olga", "a-password"
NO_ANSWER = "no answer"
"""The answer to a request that times out."""
LOOK_INTERVAL_S = 0.2


class Answering(threading.Thread):
    """Wait for a task that requests approval and answer it once; `stop` ends the wait."""

    def __init__(self, answer: str) -> None:
        super().__init__(daemon=True)
        self._answer = answer
        self._is_over = threading.Event()
        self.status: int | None = None
        """Responses of the API."""

    def run(self) -> None:
        """Answer the first question."""
        respond: Callable[[Any], None] = self._run_out if self._answer == NO_ANSWER else self._respond
        while not self._is_over.wait(LOOK_INTERVAL_S):
            instance = _waiting()
            if instance is not None:
                respond(instance)
                return

    def stop(self) -> None:
        """End the wait."""
        self._is_over.set()
        self.join()

    def _respond(self, instance: Any) -> None:  # noqa: ANN401 - Airflow has no stable type for it
        from airflow.api_fastapi.app import create_app  # noqa: PLC0415 - only Airflow's process may
        from starlette.testclient import TestClient  # noqa: PLC0415 - likewise

        client = TestClient(create_app())
        credentials = {"username": USER, "password": PASSWORD}
        token = client.post("/auth/token", json=credentials).raise_for_status().json()["access_token"]
        path, headers, body = documented_answer()
        path = path.replace("offset_retention", instance.dag_id).replace("{dag_run_id}", instance.run_id)
        assert f"/{instance.task_id}/" in path
        reply = client.patch(
            path,
            content=body.replace("Approve", self._answer),
            headers={name: text.replace("{token of POST /auth/token}", token) for name, text in headers.items()},
        )
        self.status = reply.status_code

    def _run_out(self, instance: Any) -> None:  # noqa: ANN401 - likewise
        """Set the timeout to the past, and run the scheduler's periodic check."""
        from airflow.jobs.job import Job  # noqa: PLC0415 - likewise
        from airflow.jobs.scheduler_job_runner import SchedulerJobRunner  # noqa: PLC0415 - likewise
        from airflow.utils.session import create_session  # noqa: PLC0415 - likewise

        with create_session() as session:
            waiting = session.merge(instance)
            waiting.trigger_timeout -= timedelta(days=365)
        job = Job()  # type: ignore[no-untyped-call]  # Airflow's own
        SchedulerJobRunner(job=job).check_awaiting_input_timeouts()


def documented_answer() -> tuple[str, dict[str, str], str]:
    """Return path, headers and body of the request in docs/maintenance.md that answers a request for approval."""
    page = (ROOT / "docs" / "maintenance.md").read_text()
    ((path, headers, body),) = re.findall(r"^```http\nPATCH (\S+)\n(.*?)\n\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return path, dict(line.split(": ", 1) for line in headers.splitlines()), body


def _waiting() -> Any:  # noqa: ANN401 - likewise
    from airflow.models.taskinstance import TaskInstance  # noqa: PLC0415 - likewise
    from airflow.utils.session import create_session  # noqa: PLC0415 - likewise
    from sqlalchemy import select  # noqa: PLC0415 - likewise

    with create_session() as session:
        found = session.scalars(select(TaskInstance).where(TaskInstance.state == "awaiting_input")).first()
        session.expunge_all()
        return found
