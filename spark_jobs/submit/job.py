"""A job is started by spark-submit with plain arguments, and its proposal's name follows from what started it."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from spark_jobs.errors import JobError

PROPOSALS = ("offset_retention", "group_cleanup", "history_archive")
"""Jobs that propose what the coordinator is to do."""

REPORTS = ("assignment_balance_audit", "rebalance_frequency_report", "timeout_advice")
"""Jobs that tell of what is and what was, and of which nothing follows by itself."""

JOBS = (*PROPOSALS, *REPORTS)
"""Every job there is; a job, its file and its DAG share one name."""

HISTORY_RESTORE = "history_restore"
"""Not one of JOBS: a person starts it, and no DAG."""

RUN_NAMESPACE = UUID("0490e7b0-feca-47cf-9697-96af9affe7fc")
"""The namespace of maintenance run ids; it never changes, so that whatever is repeated finds its own run again."""

DEFAULT_RETENTION_MINUTES = 10_080
RETENTION_MAX_MINUTES = 2**31 - 1
TIMEOUT_MAX_MINUTES = 7 * 24 * 60
"""The longest that anything waits: a week."""

SPARK_CONF = {
    # One machine's worth; a cluster's own defaults file says otherwise by naming other keys.
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.log.level": "WARN",
}
"""What spark-submit is told beyond the master, by DAGs and by `muster job` alike."""

_JOBS_DIR = Path(__file__).resolve().parent.parent / "jobs"


def application(job: str) -> str:
    """Return the file that spark-submit runs for a job of JOBS, or for HISTORY_RESTORE."""
    assert job in {*JOBS, HISTORY_RESTORE}, job
    return str(_JOBS_DIR / f"{job}.py")


def maintenance_run_id(*names: str) -> str:
    """Return the run id that belongs to these names: a DAG and its DAG run, or a job's kind and its `as_of`.

    The same names give the same id, so a task that runs twice finds the proposal of its first time.
    """
    return str(uuid5(RUN_NAMESPACE, "/".join(names)))


def job_arguments(
    *,
    run_id: str,
    as_of: str,
    interval_start: str = "",
    interval_end: str = "",
    is_dry_run: bool | str,
    **options: int | str | None,
) -> list[str]:
    """Return a job's command line; each value may be a template that Airflow fills in before the job starts.

    Args:
        run_id: What the proposal or the report will be called (UUID).
        as_of: The instant by which to judge (RFC 3339).
        interval_start: The data interval's begin (RFC 3339), empty when there is none.
        interval_end: Its end, likewise.
        is_dry_run: Whether the proposal is only for looking at, and the report only for the log.
        options: What else the job takes, by the names of its flags; None leaves one to the job.
    """
    return [
        f"--run-id={run_id}",
        f"--as-of={as_of}",
        f"--interval-start={interval_start}",
        f"--interval-end={interval_end}",
        f"--dry-run={is_dry_run}",
        *(f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None),
    ]


def command(job: str, *, master: str, jar: Path, arguments: Sequence[str]) -> list[str]:
    """Return the spark-submit command that runs a job by hand, as SparkSubmitOperator does in a DAG."""
    conf = [part for key, value in SPARK_CONF.items() for part in ("--conf", f"{key}={value}")]
    zipped = ["--py-files", py_files()] if py_files() else []
    given = ["--master", master, *conf, *zipped, "--jars", str(jar), "--name", job]
    return ["spark-submit", *given, application(job), *arguments]


def spark_master() -> str:
    """Return where `muster job` runs Spark: `MUSTER_SPARK_MASTER`, else every core of this machine."""
    return os.environ.get("MUSTER_SPARK_MASTER", "").strip() or "local[*]"


def py_files() -> str:
    """Return what `make spark-package` made, for a cluster: `MUSTER_SPARK_PY_FILES`, empty where nothing is sent."""
    return os.environ.get("MUSTER_SPARK_PY_FILES", "").strip()


def retention_ms() -> int:
    """Read the retention of the widest level: `MUSTER_OFFSETS_RETENTION_MINUTES`, else a week; below zero for ever.

    Raises:
        JobError: The setting is not a whole number of minutes that fits 31 bits.
    """
    text = os.environ.get("MUSTER_OFFSETS_RETENTION_MINUTES", "").strip() or str(DEFAULT_RETENTION_MINUTES)
    try:
        minutes = int(text)
    except ValueError:
        minutes = RETENTION_MAX_MINUTES + 1
    if minutes > RETENTION_MAX_MINUTES:
        raise JobError(
            f"MUSTER_OFFSETS_RETENTION_MINUTES is {text!r}; it must be a number of minutes up to"
            f" {RETENTION_MAX_MINUTES}, or -1 for ever."
        )
    return -1 if minutes < 0 else minutes * 60_000


def minutes(variable: str, default: int) -> timedelta:
    """Read a length of time from the environment, in minutes.

    Raises:
        JobError: The setting is not a whole number from 1 to TIMEOUT_MAX_MINUTES.
    """
    text = os.environ.get(variable, "").strip() or str(default)
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= TIMEOUT_MAX_MINUTES:
        raise JobError(f"{variable} is {text!r}; it must be a whole number of minutes from 1 to {TIMEOUT_MAX_MINUTES}.")
    return timedelta(minutes=count)


def apply_timeout() -> timedelta:
    """Read how long a proposal may take to be worked off: `MUSTER_APPLY_TIMEOUT_MINUTES`, else an hour.

    Raises:
        JobError: The setting is not a whole number from 1 to TIMEOUT_MAX_MINUTES.
    """
    return minutes("MUSTER_APPLY_TIMEOUT_MINUTES", 60)


def start_date(variable: str, default: datetime) -> datetime:
    """Read the day from which on something is done, in UTC.

    Raises:
        JobError: The setting is no date such as 2026-01-31.
    """
    text = os.environ.get(variable, "").strip()
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if text else default
    except ValueError:
        raise JobError(f"{variable} is {text!r}; it must be a date such as 2026-01-31.") from None
    return day


def told_from(end: datetime, settle_time: timedelta, params: Mapping[str, Any]) -> datetime:
    """Return from when on an interval can be told of: that much after its end, and not before its report's grace."""
    return end + max(settle_time, timedelta(milliseconds=params.get("grace_ms", 0)))


def is_past(moment: datetime) -> bool:
    """Tell whether a moment has come, for a task that waits for it; judging is done by the interval, never by this."""
    return datetime.now(UTC) >= moment
