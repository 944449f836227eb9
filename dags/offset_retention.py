"""Offsets that nobody needs any more are found every ten minutes, and taken away by the coordinator.

**What.** `propose` runs a Spark job that finds the offsets whose time is over by Kafka's rules (KIP-211) and writes
them down as a proposal: a row in `maintenance_runs` and one a candidate in `expiry_candidates`. `gate` ends the run
here when it is a dry run. `apply` asks a node to work the proposal off: each candidate is judged again on what stands
then, what goes moves to `archived_offsets`, and what was committed or woke up since is kept. `applied` waits until that
is done, and its return value tells how many candidates had which outcome.

**Why.** Offsets of groups that are long gone make every list longer and every lag graph wrong.

**By hand.** Trigger it with `dry_run` to look at a proposal: nothing is taken away.

**When it fails.** Clear the task that failed: each may run twice with the same outcome. `propose` failed: its log ends
with Spark's reason, most often that Postgres could not be reached; nothing was changed. `apply` or `applied` failed:
the last line is the coordinator's own answer. A rejected run stays rejected, and the next one proposes afresh.

**Settings.** `MUSTER_RETENTION_SCHEDULE` (cron, in UTC) and `MUSTER_OFFSETS_RETENTION_MINUTES`; the cluster's and a
group's own `offsets_retention_minutes` are narrower and win.
"""

import logging
import os
from datetime import UTC, datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import (
    DAG,
    Asset,
    CronDataIntervalTimetable,
    ExceptionRetryPolicy,
    Param,
    PokeReturnValue,
    RetryAction,
    RetryRule,
    get_current_context,
    task,
)
from airflow.sdk.exceptions import AirflowFailException

from spark_jobs import submit

log = logging.getLogger("airflow.task")

JOB = "offset_retention"
EVERY_TEN_MINUTES = "*/10 * * * *"
OFFSETS_EXPIRED = Asset("offsets_expired", uri="muster://maintenance/offset_retention")

# The same for every try of a run. A run by hand has no data interval.
RUN_ID = "{{ submit.maintenance_run_id(dag.dag_id, run_id) }}"
AS_OF = "{{ (dag_run.data_interval_end or dag_run.run_after).isoformat() }}"

A_NO_IS_FINAL = ExceptionRetryPolicy(
    rules=[RetryRule(exception=submit.CoordinatorRefused, action=RetryAction.FAIL, reason="it would be refused again")]
)

with DAG(
    dag_id=JOB,
    description="Propose offsets whose time is over, and have the coordinator take them away",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable(
        os.environ.get("MUSTER_RETENTION_SCHEDULE") or EVERY_TEN_MINUTES, timezone="UTC"
    ),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    params={"dry_run": Param(default=False, type="boolean", title="Dry run", description="Propose, and apply nothing")},
    default_args={
        "owner": "muster",
        "retries": 3,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(minutes=5),
        "retry_policy": A_NO_IS_FINAL,
        "execution_timeout": timedelta(hours=1),
    },
    user_defined_macros={"submit": submit},
    tags=["muster", "maintenance", "offsets"],
):
    propose = SparkSubmitOperator(
        task_id="propose",
        conn_id="spark_default",
        name=JOB,
        application=submit.application(JOB),
        application_args=submit.job_arguments(
            run_id=RUN_ID,
            as_of=AS_OF,
            interval_start="{{ dag_run.data_interval_start or '' }}",
            interval_end="{{ dag_run.data_interval_end or '' }}",
            retention_ms="{{ submit.retention_ms() }}",
            is_dry_run="{{ params.dry_run }}",
        ),
        conf=submit.SPARK_CONF,
        jars="{{ submit.find_jdbc_jar() }}",
    )

    @task.short_circuit
    def gate() -> bool:
        """Let the proposal through unless this run is for looking only."""
        return not get_current_context()["params"]["dry_run"]

    @task
    def apply(maintenance_run_id: str) -> None:
        """Ask a node to work the proposal off; harmless when it was asked before."""
        run = submit.apply_run(maintenance_run_id, actor=f"dag:{JOB}", reason="their retention is over")
        log.info("Run %s is %s.", run.run_id, run.status)

    @task.sensor(poke_interval=2, timeout=3600, mode="poke", outlets=[OFFSETS_EXPIRED])
    def applied(maintenance_run_id: str) -> PokeReturnValue:
        """Wait until every candidate has its outcome."""
        try:
            run = submit.read_run(maintenance_run_id)
        except submit.CoordinatorUnreachable as failure:
            log.warning("%s; asking again.", failure)
            return PokeReturnValue(is_done=False)
        if run.is_over and run.status != "applied":
            raise AirflowFailException(f"Run {run.run_id} was {run.status}; its candidates stay.")
        return PokeReturnValue(is_done=run.is_over, xcom_value=run.counts)

    propose >> gate() >> apply(RUN_ID) >> applied(RUN_ID)
