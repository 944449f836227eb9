"""Alerts of DAGs: log an event and post it to a webhook, if one is configured.

`MUSTER_ALERT_WEBHOOK_URL` receives one JSON object per POST: `event`, `text` (one sentence for chat systems), and
details of the run. The URL may contain a secret, so it is never logged. A failed request never fails a task.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any

import urllib3

WEBHOOK_VARIABLE = "MUSTER_ALERT_WEBHOOK_URL"
WEBHOOK_TIMEOUT_S = 10.0
FIRST_STATUS_NOT_TAKEN = 300
"""A redirect is not followed, as its target may be another host."""
REASON_MAX_CHARS = 2_000
"""Maximum of the reason of a failed task: chat systems refuse messages of the length of a stack trace."""

log = logging.getLogger("airflow.task")


def alert(event: str, text: str, **known: object) -> None:
    """Log an event, and post it to the webhook if one is configured."""
    log.error("%s: %s", event, text)
    url = os.environ.get(WEBHOOK_VARIABLE)
    if url:
        _post(url, {"event": event, "text": text, **known})


def task_failed(context: Mapping[str, Any]) -> None:
    """Report that a task finally failed. Source: Airflow, `on_failure_callback`."""
    instance = context["ti"]
    reason = " ".join(str(context.get("exception") or "no reason was given").split())
    reason = reason if len(reason) <= REASON_MAX_CHARS else f"{reason[:REASON_MAX_CHARS]}…"
    alert(
        "task_failed",
        f"{instance.dag_id}.{instance.task_id} failed: {reason}",
        dag_id=instance.dag_id,
        task_id=instance.task_id,
        run_id=instance.run_id,
        try_number=instance.try_number,
        log_url=getattr(instance, "log_url", None),
    )


def run_failed(context: Mapping[str, Any]) -> None:
    """Report that a run failed, or timed out."""
    run = context["dag_run"]
    reason = context.get("reason") or "no reason was given"
    alert("run_failed", f"{run.dag_id} failed: {reason}", dag_id=run.dag_id, run_id=run.run_id)


async def deadline_missed(dag_id: str, context: Mapping[str, Any] | None = None) -> None:
    """Report that a run missed its deadline; it continues. Source: Airflow, `DeadlineAlert`.

    Runs of a backfill are all queued at once, and wait for one another: most miss it.
    """
    run = (context or {}).get("dag_run") or {}
    if run.get("run_type") == "backfill":
        return
    text = f"{dag_id} missed its deadline; it still waits for approval, or for Spark."
    # The triggerer runs this on its only event loop, so it must not block.
    await asyncio.to_thread(alert, "deadline_missed", text, dag_id=dag_id, run_id=run.get("dag_run_id"))


def _post(url: str, event: Mapping[str, object]) -> None:
    try:
        status = urllib3.request("POST", url, json=event, timeout=WEBHOOK_TIMEOUT_S, retries=False).status
    except urllib3.exceptions.HTTPError as failure:
        # The error's text may contain the URL.
        log.warning("The webhook request failed: %s.", type(failure).__name__)
        return
    if status >= FIRST_STATUS_NOT_TAKEN:
        log.warning("The webhook answered with status %s.", status)
