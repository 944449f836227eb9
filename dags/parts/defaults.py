"""What every DAG of ours has in common; times are minutes from the environment, and none is written in a DAG."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from airflow.sdk import ExceptionRetryPolicy, Param, RetryAction, RetryRule
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from spark_jobs import submit

RUN_ID = "{{ submit.maintenance_run_id(dag.dag_id, run_id) }}"


class Instants(NamedTuple):
    """By when a run judges and the data interval, if it has one: templates, and the same for every try of a run."""

    as_of: str
    interval_start: str
    interval_end: str


def _instants(has_interval: str) -> Instants:
    return Instants(
        f"{{{{ (dag_run.data_interval_end if {has_interval} else dag_run.run_after).isoformat() }}}}",
        f"{{{{ dag_run.data_interval_start.isoformat() if {has_interval} else '' }}}}",
        f"{{{{ dag_run.data_interval_end.isoformat() if {has_interval} else '' }}}}",
    )


OF_AN_INTERVAL = _instants("dag_run.data_interval_end")
"""For what tells of the past. A run by an asset has no interval, nor has one by hand, unless by Airflow's form."""

OF_NOW = _instants("dag_run.data_interval_end and dag_run.run_type != 'manual'")
"""For what looks at what stands. Airflow's form gives a run by hand the last whole interval, whose end is long ago."""

TASK_TIMEOUT = submit.minutes("MUSTER_TASK_TIMEOUT_MINUTES", 60)
APPLY_TIMEOUT = submit.apply_timeout()
APPROVAL_TIMEOUT = submit.minutes("MUSTER_APPROVAL_TIMEOUT_MINUTES", 240)
DEADLINE = submit.minutes("MUSTER_RUN_DEADLINE_MINUTES", 60)
SPARK_POOL = os.environ.get("MUSTER_SPARK_POOL") or "default_pool"

A_NO_IS_FINAL = ExceptionRetryPolicy(
    rules=[RetryRule(exception=submit.CoordinatorRefused, action=RetryAction.FAIL, reason="it would be refused again")]
)

DRY_RUN = Param(default=False, type="boolean", title="Dry run", description="Propose, and apply nothing")


def dag_defaults(dag_id: str, *tags: str) -> dict[str, Any]:
    """Return the arguments that every DAG is made with, beside its own."""
    return {
        "dag_id": dag_id,
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "max_active_runs": 1,
        # Longer than all that a run waits for, one after the other.
        "dagrun_timeout": 2 * TASK_TIMEOUT + APPROVAL_TIMEOUT + APPLY_TIMEOUT,
        "deadline": DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            # In seconds: Airflow 3.3 stores a timedelta in a form that it cannot read when somebody clears a task.
            interval=DEADLINE.total_seconds(),  # type: ignore[arg-type]  # read as seconds, as older Airflows stored it
            callback=AsyncCallback("spark_jobs.submit.deadline_missed", kwargs={"dag_id": dag_id}),
        ),
        "default_args": {
            "owner": "muster",
            "retries": 3,
            "retry_delay": timedelta(seconds=10),
            "retry_exponential_backoff": 2,
            "max_retry_delay": timedelta(minutes=5),
            "retry_policy": A_NO_IS_FINAL,
            "execution_timeout": TASK_TIMEOUT,
            "on_failure_callback": submit.task_failed,
        },
        "on_failure_callback": submit.run_failed,
        "user_defined_macros": {"submit": submit},
        "tags": ["muster", "maintenance", *tags],
    }


def limit_params(limits: submit.Limits, *names: str) -> dict[str, Param]:
    """Return the named limits as params, which one run may be given other values for."""
    described = {
        "max_candidates": "Ask a person if there are more candidates than this",
        "max_share": "Ask a person if they are more than this share of all rows; 1 is no limit",
        "max_group_candidates": "Ask a person if one group has more candidates than this",
        "max_group_share": "Ask a person if they are more than this share of one group's rows; 1 is no limit",
        "share_from": "Shares of fewer candidates than this are not looked at",
    }
    return {name: _param(name, getattr(limits, name), described[name]) for name in names or described}


def _param(name: str, default: float, description: str) -> Param:
    title = name.replace("_", " ").capitalize()
    if isinstance(default, int):
        return Param(
            default=default, type="integer", minimum=0, maximum=2**31 - 1, title=title, description=description
        )
    return Param(default=default, type="number", minimum=0, maximum=1, title=title, description=description)
