"""The Airflow task that submits a Spark job, with arguments that are equal for every try."""

from collections.abc import Iterable, Mapping
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.parts.cluster import console_url, provide_database, skip_in_mirror
from dags.parts.defaults import INSTANTS, REPORT_POOL, RUN_ID, SPARK_POOL
from spark_jobs import submit


def spark_task(
    task_id: str,
    job: submit.JobSpec,
    options: Mapping[str, Any],
    **task: Any,  # noqa: ANN401 - whatever a task takes
) -> "SparkJobOperator":
    """Return the task that runs a job.

    Args:
        task_id: the task's id.
        job: the job's entry.
        options: further arguments by flag; values may be templates. The job's options come from the DAG's params.
        task: further arguments of the operator.
    """
    return SparkJobOperator(
        task_id=task_id,
        conn_id="spark_default",
        name=job.name,
        application=submit.application(job.name),
        application_args=submit.job_arguments(
            run_id=RUN_ID,
            **INSTANTS._asdict(),
            is_dry_run="{{ params.dry_run }}",
            cluster="{{ params.cluster }}",
            **options,
            **{option.name: f"{{{{ params.{option.name} }}}}" for option in job.options},
        ),
        conf=submit.SPARK_CONF,
        jars="{{ submit.find_jdbc_jar() }}",
        py_files="{{ submit.py_files() }}",
        pool=REPORT_POOL if job.is_report else SPARK_POOL,
        # Else Airflow refuses YARN's cluster mode, in which it would have to follow the job by YARN's REST API.
        durable=False,
        **task,
    )


class SparkJobOperator(SparkSubmitOperator):
    """Submits a job. Its log ends with the job's counts and a link to the console, and its XCom has them."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # Airflow stores what is returned
        """Submit the job, wait for its end, and return its result; skip what a mirror does not propose.

        Raises:
            AirflowException: The job failed, with its reason; that of Airflow has the command and Spark's stack trace.
            AirflowFailException: It refused its arguments, so there is no other try.
        """
        job = submit.job_of(context["dag"].dag_id)
        if job.changes_groups:
            skip_in_mirror(context)
        provide_database(context)
        run_id = None if job.is_report else submit.maintenance_run_id(context["dag"].dag_id, context["dag_run"].run_id)
        console = console_url(context, run_id)  # Fails without its connection, so before the job runs.
        try:
            super().execute(context)
        except AirflowException as failure:
            reason = submit.read_failure(job.name, self._last_lines())
            if reason is None:
                raise
            # Every try has the same arguments, and a job that refuses them would refuse them again.
            is_final = reason.startswith(f"{job.name}: error: ")
            raise (AirflowFailException if is_final else AirflowException)(reason) from failure
        if context["params"]["dry_run"]:
            self.outlets = []  # It has written nothing that DAGs which wait for its Asset could read.
        result = {**submit.read_result(job.name, self._last_lines()), "console": console}
        self.log.info(submit.describe_result(result))
        return result

    def _last_lines(self) -> Iterable[str]:
        """Return the last lines that spark-submit printed; without them there is a link only, and Airflow's reason."""
        return getattr(self._hook, "_last_submit_log_lines", ())
