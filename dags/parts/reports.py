"""Tasks of the report DAGs: wait until the interval is settled, then run the Spark job.

    wait_until_settled ── report

A report proposes nothing, so there is no gate. Each task may run twice with the same outcome.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Param, PokeReturnValue, WeightRule, get_current_context, task

from dags.parts.defaults import DATA_INTERVAL, TASK_TIMEOUT, Instants
from dags.parts.spark import spark_task
from spark_jobs import submit

SETTLE_TIME = submit.minutes("MUSTER_REPORT_SETTLE_MINUTES", 5)
REPORTS_SINCE = submit.start_date("MUSTER_REPORTS_SINCE", datetime.fromisoformat("2026-11-21T00:00:00+00:00"))
MAX_SETTLE_WAIT = max(SETTLE_TIME, timedelta(hours=1))
POKE_INTERVAL_S = 30.0

REPORT_DRY_RUN = Param(default=False, type="boolean", title="Dry run", description="Count the rows, and keep none")


def option_params(job: str) -> dict[str, Param]:
    """Return a report's options as params, which can be overridden for one run."""
    defaults = submit.default_options(job)
    return {option.name: _param(option, defaults[option.name]) for option in submit.OPTIONS[job]}


def report(job: str, asset: Asset, instants: Instants = DATA_INTERVAL) -> SparkSubmitOperator:
    """Return the task that runs a report; proposals have priority for Spark's slots."""
    options = {option.name: f"{{{{ params.{option.name} }}}}" for option in submit.OPTIONS[job]}
    return spark_task(
        "report",
        job,
        instants,
        {"archive": "{{ submit.archive_uri() }}", **options},
        priority_weight=1,
        weight_rule=WeightRule.ABSOLUTE,
        outlets=[asset],
    )


@task.sensor(poke_interval=POKE_INTERVAL_S, timeout=(MAX_SETTLE_WAIT + TASK_TIMEOUT).total_seconds(), mode="reschedule")
def wait_until_settled() -> PokeReturnValue:
    """Wait until the settle time after the interval has passed; manual runs do not wait."""
    context = get_current_context()
    end: Any = context["dag_run"].data_interval_end
    is_done = end is None or submit.is_past(submit.reportable_from(end, SETTLE_TIME, context["params"]))
    return PokeReturnValue(is_done=is_done)


def _param(option: submit.Option, default: int) -> Param:
    schema: Mapping[str, Any] = {"minimum": option.least, "maximum": option.most}
    title = option.name.replace("_", " ").capitalize()
    return Param(default=default, type="integer", title=title, description=option.meaning, **schema)
