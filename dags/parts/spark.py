"""A job runs in one Spark task, which is told its interval, its run's name and nothing that changes from try to try."""

from collections.abc import Mapping
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from dags.parts.defaults import RUN_ID, SPARK_POOL, Instants
from spark_jobs import submit


def spark_task(
    task_id: str,
    job: str,
    instants: Instants,
    options: Mapping[str, Any],
    **task: Any,  # noqa: ANN401 - whatever a task takes
) -> SparkSubmitOperator:
    """Return the task that runs a job.

    Args:
        task_id: what it is called in its DAG.
        job: one of `submit.JOBS`.
        instants: what the run is about.
        options: what the job takes beyond what all do, by the names of its flags; values may be templates.
        task: what Airflow is to know of the task beside that.
    """
    return SparkSubmitOperator(
        task_id=task_id,
        conn_id="spark_default",
        name=job,
        application=submit.application(job),
        application_args=submit.job_arguments(
            run_id=RUN_ID,
            **instants._asdict(),
            is_dry_run="{{ params.dry_run }}",
            **options,
        ),
        conf=submit.SPARK_CONF,
        jars="{{ submit.find_jdbc_jar() }}",
        py_files="{{ submit.py_files() }}",
        pool=SPARK_POOL,
        **task,
    )
