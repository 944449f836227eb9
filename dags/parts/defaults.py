"""Arguments, params and templates shared by all DAGs; timeouts come from the environment."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from airflow.sdk import ExceptionRetryPolicy, Param, RetryAction, RetryRule
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from spark_jobs import submit

RUN_ID = "{{ submit.maintenance_run_id(dag.dag_id, run_id) }}"


class Instants(NamedTuple):
    """Templates of a run's instant and its data interval, if any; equal for every try of a run."""

    as_of: str
    interval_start: str
    interval_end: str


def _instants(has_interval: str) -> Instants:
    return Instants(
        f"{{{{ (dag_run.data_interval_end if {has_interval} else dag_run.run_after).isoformat() }}}}",
        f"{{{{ dag_run.data_interval_start.isoformat() if {has_interval} else '' }}}}",
        f"{{{{ dag_run.data_interval_end.isoformat() if {has_interval} else '' }}}}",
    )


DATA_INTERVAL = _instants("dag_run.data_interval_end")
"""For reports on the past. Runs by an Asset or by hand have no interval, except those from Airflow's form."""

CURRENT_STATE = _instants("dag_run.data_interval_end and dag_run.run_type != 'manual'")
"""For jobs on the current state. Manual runs ignore the interval from Airflow's form, which is in the past."""

TASK_TIMEOUT = submit.minutes("MUSTER_TASK_TIMEOUT_MINUTES", 60)
APPLY_TIMEOUT = submit.apply_timeout()
APPROVAL_TIMEOUT = submit.minutes("MUSTER_APPROVAL_TIMEOUT_MINUTES", 240)
DEADLINE = submit.minutes("MUSTER_RUN_DEADLINE_MINUTES", 60)
SPARK_POOL = os.environ.get("MUSTER_SPARK_POOL") or "default_pool"

FAIL_ON_REFUSAL = ExceptionRetryPolicy(
    rules=[
        RetryRule(exception=submit.CoordinatorRefused, action=RetryAction.FAIL, reason="a retry would be refused again")
    ]
)

DRY_RUN = Param(default=False, type="boolean", title="Dry run", description="Propose, and apply nothing")


def dag_defaults(dag_id: str, *tags: str) -> dict[str, Any]:
    """Return the arguments that all DAGs share."""
    return {
        "dag_id": dag_id,
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "max_active_runs": 1,
        # Longer than the sum of all waits of a run.
        "dagrun_timeout": 2 * TASK_TIMEOUT + APPROVAL_TIMEOUT + APPLY_TIMEOUT,
        "deadline": DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            # In seconds: Airflow 3.3 stores a timedelta in a form that it cannot read when a task is cleared.
            interval=DEADLINE.total_seconds(),  # type: ignore[arg-type]  # read as seconds, as older Airflows stored it
            callback=AsyncCallback("spark_jobs.submit.deadline_missed", kwargs={"dag_id": dag_id}),
        ),
        "default_args": {
            "owner": "muster",
            "retries": 3,
            "retry_delay": timedelta(seconds=10),
            "retry_exponential_backoff": 2,
            "max_retry_delay": timedelta(minutes=5),
            "retry_policy": FAIL_ON_REFUSAL,
            "execution_timeout": TASK_TIMEOUT,
            "on_failure_callback": submit.task_failed,
        },
        "on_failure_callback": submit.run_failed,
        "user_defined_macros": {"submit": submit},
        "tags": ["muster", "maintenance", *tags],
    }


def limit_params(limits: submit.Limits, *names: str) -> dict[str, Param]:
    """Return the named limits as params, which can be overridden for one run."""
    described = {
        "max_candidates": "Request approval for more candidates than this",
        "max_share": "Request approval if they are more than this share of all rows; 1 is no limit",
        "max_group_candidates": "Request approval if one group has more candidates than this",
        "max_group_share": "Request approval if they are more than this share of one group's rows; 1 is no limit",
        "share_from": "Ignore shares of fewer candidates than this",
    }
    return {name: _param(name, getattr(limits, name), described[name]) for name in names or described}


def _param(name: str, default: float, description: str) -> Param:
    title = name.replace("_", " ").capitalize()
    if isinstance(default, int):
        return Param(
            default=default, type="integer", minimum=0, maximum=2**31 - 1, title=title, description=description
        )
    return Param(default=default, type="number", minimum=0, maximum=1, title=title, description=description)
