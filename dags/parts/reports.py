"""Tasks of the report DAGs: wait until the interval is settled, then run the Spark job.

    wait_until_settled ── report

A report proposes nothing, so there is no gate. Each task may run twice with the same outcome.
"""

from datetime import timedelta

from airflow.sdk import PokeReturnValue, WeightRule, get_current_context, task

from dags.parts.defaults import ARCHIVE, TASK_TIMEOUT, asset, settle_time
from dags.parts.spark import SparkJobOperator, spark_task
from spark_jobs import submit

SETTLE_TIME = settle_time()
MAX_SETTLE_WAIT = max(SETTLE_TIME, timedelta(hours=1))
POKE_INTERVAL_S = 30.0


def tasks(job: submit.JobSpec, cluster: str) -> None:
    """Add the tasks of a report to its DAG for a cluster; a report on the current state does not wait."""
    report = _report(job, cluster)
    if not job.is_of_now:
        wait_until_settled() >> report


def _report(job: submit.JobSpec, cluster: str) -> SparkJobOperator:
    """Return the task that runs a report; in a pool for both, proposals have priority."""
    return spark_task(
        "report",
        job,
        {"archive": ARCHIVE},
        priority_weight=1,
        weight_rule=WeightRule.ABSOLUTE,
        outlets=[asset(job, cluster)],
    )


@task.sensor(poke_interval=POKE_INTERVAL_S, timeout=(MAX_SETTLE_WAIT + TASK_TIMEOUT).total_seconds(), mode="reschedule")
def wait_until_settled() -> PokeReturnValue:
    """Wait until the settle time after the interval has passed; runs without an interval do not wait."""
    context = get_current_context()
    interval = submit.interval_of(context["dag"].dag_id, context["dag_run"])
    is_done = interval is None or submit.is_past(submit.reportable_from(interval[1], SETTLE_TIME, context["params"]))
    return PokeReturnValue(is_done=is_done)
