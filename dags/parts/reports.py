"""The tasks of a report: wait until everything about the interval is known, then have Spark tell of it.

    settled ── tell

A report proposes nothing, so there is no gate. Each task may run twice with the same outcome.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Param, PokeReturnValue, WeightRule, get_current_context, task

from dags.parts.defaults import OF_AN_INTERVAL, TASK_TIMEOUT, Instants
from dags.parts.spark import spark_task
from spark_jobs import submit

SETTLE_TIME = submit.minutes("MUSTER_REPORT_SETTLE_MINUTES", 5)
REPORTS_SINCE = submit.start_date("MUSTER_REPORTS_SINCE", datetime.fromisoformat("2026-11-21T00:00:00+00:00"))
LONGEST_WAIT = max(SETTLE_TIME, timedelta(hours=1))
POKE_INTERVAL_S = 30.0

LOOK_ONLY = Param(
    default=False, type="boolean", title="Dry run", description="Count what would be told, and keep nothing"
)


def option_params(job: str) -> dict[str, Param]:
    """Return a report's options as params, which one run may be given other values for."""
    defaults = submit.default_options(job)
    return {option.name: _param(option, defaults[option.name]) for option in submit.OPTIONS[job]}


def tell(job: str, told: Asset, instants: Instants = OF_AN_INTERVAL) -> SparkSubmitOperator:
    """Return the task that runs a report; it lets proposals pass where Spark has room for one only."""
    options = {option.name: f"{{{{ params.{option.name} }}}}" for option in submit.OPTIONS[job]}
    return spark_task(
        "tell",
        job,
        instants,
        {"archive": "{{ submit.archive_uri() }}", **options},
        priority_weight=1,
        weight_rule=WeightRule.ABSOLUTE,
        outlets=[told],
    )


@task.sensor(poke_interval=POKE_INTERVAL_S, timeout=(LONGEST_WAIT + TASK_TIMEOUT).total_seconds(), mode="reschedule")
def settled() -> PokeReturnValue:
    """Wait until the interval is over for so long that nothing more of it comes to light; a run by hand has none."""
    context = get_current_context()
    end: Any = context["dag_run"].data_interval_end
    is_done = end is None or submit.is_past(submit.told_from(end, SETTLE_TIME, context["params"]))
    return PokeReturnValue(is_done=is_done)


def _param(option: submit.Option, default: int) -> Param:
    schema: Mapping[str, Any] = {"minimum": option.least, "maximum": option.most}
    title = option.name.replace("_", " ").capitalize()
    return Param(default=default, type="integer", title=title, description=option.meaning, **schema)
