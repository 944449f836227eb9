"""The Airflow task that submits a Spark job, with arguments that are equal for every try."""

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
        task_id: the task's id.
        job: one of `submit.JOBS`.
        instants: the run's instant and interval.
        options: the job's own arguments by flag; values may be templates.
        task: further arguments of the operator.
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
