"""Arguments, params and templates of the DAGs, from the entries of their jobs and from the environment."""

import os
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from airflow.sdk import (
    Asset,
    CronDataIntervalTimetable,
    ExceptionRetryPolicy,
    Param,
    RetryAction,
    RetryRule,
)
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowTimetableInvalid

from muster_airflow.client import RequestRefused
from spark_jobs import submit

RUN_ID = "{{ submit.maintenance_run_id(dag.dag_id, run_id) }}"
ARCHIVE = "{{ submit.archive_of(params.cluster) }}"


class Instants(NamedTuple):
    """Templates of a run's instant and its data interval, if any; equal for every try of a run."""

    as_of: str
    interval_start: str
    interval_end: str


_INTERVAL = "{% set interval = submit.interval_of(dag.dag_id, dag_run) %}"

INSTANTS = Instants(
    _INTERVAL + "{{ (interval[1] if interval else dag_run.run_after).isoformat() }}",
    _INTERVAL + "{{ interval[0].isoformat() if interval else '' }}",
    _INTERVAL + "{{ interval[1].isoformat() if interval else '' }}",
)

TASK_TIMEOUT = submit.minutes("MUSTER_TASK_TIMEOUT_MINUTES", 60)
APPLY_TIMEOUT = submit.apply_timeout()
APPROVAL_TIMEOUT = submit.minutes("MUSTER_APPROVAL_TIMEOUT_MINUTES", 240)
DEADLINE = submit.minutes("MUSTER_RUN_DEADLINE_MINUTES", 60)
SPARK_POOL = os.environ.get("MUSTER_SPARK_POOL") or "default_pool"
REPORT_POOL = os.environ.get("MUSTER_SPARK_REPORT_POOL") or SPARK_POOL
"""The pool of reports: their backfill fills no slot of the proposals."""

FAIL_ON_REFUSAL = ExceptionRetryPolicy(
    rules=[RetryRule(exception=RequestRefused, action=RetryAction.FAIL, reason="a retry would be refused again")]
)

REPORTS_SINCE = submit.start_date("MUSTER_REPORTS_SINCE", datetime.fromisoformat("2026-11-21T00:00:00+00:00"))


def settle_time() -> timedelta:
    """Return the wait between an interval's end and its report."""
    return submit.minutes("MUSTER_REPORT_SETTLE_MINUTES", 5)


def asset(job: submit.JobSpec, cluster: str) -> Asset:
    """Return the Asset that the runs of a job's DAG for a cluster update."""
    return Asset(submit.with_cluster(job.asset, cluster), uri=submit.with_cluster(job.asset_uri, cluster))


def dag_arguments(job: submit.JobSpec, cluster: str) -> dict[str, Any]:
    """Return the arguments of a job's DAG for a cluster, without its schedule."""
    # Neither reports nor the archive concern days before the first one.
    is_of_days = job.is_report or job.needs_archive
    dag_id = submit.with_cluster(job.name, cluster)
    return {
        "dag_id": dag_id,
        "description": job.description,
        "catchup": job.catches_up,
        "params": {"cluster": _cluster(cluster), "dry_run": _dry_run(job), **_option_params(job), **_limit_params(job)},
        "start_date": REPORTS_SINCE if is_of_days else datetime(2026, 1, 1, tzinfo=UTC),
        "max_active_runs": 1,
        # Longer than the sum of all waits of a run.
        "dagrun_timeout": 2 * TASK_TIMEOUT + APPROVAL_TIMEOUT + APPLY_TIMEOUT + settle_time(),
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
        "tags": ["muster", "maintenance", job.subject, *(["report"] if job.is_report else [])],
    }


def schedule_of(job: submit.JobSpec, cluster: str) -> CronDataIntervalTimetable | list[Asset] | None:
    """Return when a job's DAG runs: by a cron expression, after another job, or only when triggered.

    Raises:
        ValueError: The setting is no cron expression.
    """
    if job.starts_after is not None:
        return [asset(submit.JOBS[job.starts_after], cluster)]
    if job.schedule is None or (job.needs_archive and not submit.archive_uri()):
        return None
    cron = submit.cron_of(job.schedule)
    timetable = CronDataIntervalTimetable(cron, timezone="UTC")
    try:
        timetable.validate()
    except AirflowTimetableInvalid as refusal:
        example = f"it must be a cron expression such as {job.schedule.cron}"
        raise ValueError(f"{job.schedule.variable} is {cron!r}; {example}: {refusal}") from refusal
    return timetable


# -- params ---------------------------------------------------------------------------------------------------


def _cluster(cluster: str) -> Param:
    """Return the param of the cluster: a DAG of the own one can be triggered for any, and the others for theirs."""
    choice = submit.clusters() if cluster == submit.OWN_CLUSTER else (cluster,)
    return Param(
        default=cluster, type="string", enum=list(choice), title="Cluster", description="One of MUSTER_CLUSTERS"
    )


def _dry_run(job: submit.JobSpec) -> Param:
    described = "Count the rows, and keep none" if job.is_report else "Propose, and apply nothing"
    return Param(default=False, type="boolean", title="Dry run", description=described)


def _option_params(job: submit.JobSpec) -> dict[str, Param]:
    defaults = submit.default_options(job.name)
    return {
        option.name: _number(option.name, defaults[option.name], option.least, option.most, option.meaning)
        for option in job.options
    }


def _limit_params(job: submit.JobSpec) -> dict[str, Param]:
    described = {
        "max_candidates": "Request approval for more candidates than this",
        "max_share": "Request approval if they are more than this share of all rows; 1 is no limit",
        "max_group_candidates": "Request approval if one group has more candidates than this",
        "max_group_share": "Request approval if they are more than this share of one group's rows; 1 is no limit",
        "share_from": "Ignore shares of fewer candidates than this",
    }
    defaults = asdict(submit.default_limits(job.name))
    return {
        name: _number(name, defaults[name], 0, 2**31 - 1 if isinstance(defaults[name], int) else 1, described[name])
        for name in job.limits
    }


def _number(name: str, default: float, least: int, most: int, description: str) -> Param:
    kind = "integer" if isinstance(default, int) else "number"
    title = name.replace("_", " ").capitalize()
    return Param(default=default, type=kind, minimum=least, maximum=most, title=title, description=description)
