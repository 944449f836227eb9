"""What somebody should look at is logged, and posted to a webhook where one is set; telling never fails a task.

`MUSTER_ALERT_WEBHOOK_URL` names the webhook, which gets one JSON object a POST: `event`, `text` (one sentence, which
chat systems show as it is), and what else is known of the run. The address may hold a secret, so it is never logged.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any

import urllib3

WEBHOOK_VARIABLE = "MUSTER_ALERT_WEBHOOK_URL"
WEBHOOK_TIMEOUT_S = 10.0
FIRST_ERROR_STATUS = 400

log = logging.getLogger("airflow.task")


def alert(event: str, text: str, **known: object) -> None:
    """Log an event, and post it where a webhook is set."""
    log.error("%s: %s", event, text)
    url = os.environ.get(WEBHOOK_VARIABLE)
    if url:
        _post(url, {"event": event, "text": text, **known})


def task_failed(context: Mapping[str, Any]) -> None:
    """Tell that a task failed for good. Source: Airflow, `on_failure_callback`."""
    instance = context["ti"]
    why = " ".join(str(context.get("exception") or "no reason was given").split())
    alert(
        "task_failed",
        f"{instance.dag_id}.{instance.task_id} failed: {why}",
        dag_id=instance.dag_id,
        task_id=instance.task_id,
        run_id=instance.run_id,
        try_number=instance.try_number,
        log_url=getattr(instance, "log_url", None),
    )


def run_failed(context: Mapping[str, Any]) -> None:
    """Tell that a whole run failed, be it that its time ran out."""
    run = context["dag_run"]
    why = context.get("reason") or "no reason was given"
    alert("run_failed", f"{run.dag_id} failed: {why}", dag_id=run.dag_id, run_id=run.run_id)


async def deadline_missed(dag_id: str, context: Mapping[str, Any] | None = None) -> None:
    """Tell that a run is not over by its deadline; it goes on. Source: Airflow, `DeadlineAlert`."""
    run_id = ((context or {}).get("dag_run") or {}).get("dag_run_id")
    text = f"{dag_id} is not over by its deadline; it waits for a person, or for Spark."
    # The triggerer, which runs this, has one loop for everything.
    await asyncio.to_thread(alert, "deadline_missed", text, dag_id=dag_id, run_id=run_id)


def _post(url: str, event: Mapping[str, object]) -> None:
    try:
        status = urllib3.request("POST", url, json=event, timeout=WEBHOOK_TIMEOUT_S, retries=False).status
    except urllib3.exceptions.HTTPError as failure:
        # Its text may hold the address.
        log.warning("The webhook could not be told: %s.", type(failure).__name__)
        return
    if status >= FIRST_ERROR_STATUS:
        log.warning("The webhook answered with status %s.", status)
