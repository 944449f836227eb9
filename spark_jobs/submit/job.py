"""Build the spark-submit command of a job and the id of its run; read the settings of jobs from the environment."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from coordinator_core.jobs import JOBS, JobSpec, Option, Schedule
from spark_jobs.errors import JobError

PROPOSALS = tuple(name for name, job in JOBS.items() if not job.is_report)
"""Names of the jobs that write proposals for the coordinator."""

REPORTS = tuple(name for name, job in JOBS.items() if job.is_report)
"""Names of the jobs that write reports."""

HISTORY_RESTORE = "history_restore"
"""Not in JOBS: an operator starts it, no DAG does."""

RUN_NAMESPACE = UUID("0490e7b0-feca-47cf-9697-96af9affe7fc")
"""Namespace of maintenance run ids; it never changes, so that a repeated attempt finds its own run."""

DEFAULT_RETENTION_MINUTES = 10_080
RETENTION_MAX_MINUTES = 2**31 - 1
TIMEOUT_MAX_MINUTES = 7 * 24 * 60
"""Maximum of all timeouts: a week."""

RUN_TYPES_WITH_INTERVAL = frozenset({"scheduled", "backfill"})
"""Airflow's types of DAG runs that are for an interval, whatever the job; others are for the time of their request."""

QUARTERLY = "0 0 1 */3 *"
"""What Airflow takes `@quarterly` for, the one of its presets that croniter does not know."""

SPARK_CONF = {
    # Sized for one machine; clusters set other keys in their spark-defaults.conf.
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.log.level": "WARN",
}
"""Spark configuration of all jobs, for DAGs and `muster job`."""

_JOBS_DIR = Path(__file__).resolve().parent.parent / "jobs"


def application(job: str) -> str:
    """Return the Python file of a job of JOBS, or of HISTORY_RESTORE."""
    assert job in {*JOBS, HISTORY_RESTORE}, job
    return str(_JOBS_DIR / f"{job}.py")


def maintenance_run_id(*names: str) -> str:
    """Return the run id for a DAG and its DAG run, or for a job and its `as_of`.

    The same names give the same id, so a repeated task finds the proposal of its first attempt.
    """
    return str(uuid5(RUN_NAMESPACE, "/".join(names)))


def job_of(dag_id: str) -> JobSpec:
    """Return the job that a DAG runs; after a dot, the id names a cluster."""
    return JOBS[dag_id.partition(".")[0]]


def job_arguments(
    *,
    run_id: str,
    as_of: str,
    interval_start: str = "",
    interval_end: str = "",
    is_dry_run: bool | str,
    **options: int | str | None,
) -> list[str]:
    """Return a job's command line; each value may be an Airflow template.

    Args:
        run_id: The run's id (UUID).
        as_of: The instant to evaluate (RFC 3339).
        interval_start: Start of the data interval (RFC 3339), empty for none.
        interval_end: Its end, likewise.
        is_dry_run: Whether the proposal is not applied, or the report not kept.
        options: Further arguments by flag; None omits one.
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
    """Return the spark-submit command of a manual run, equal to SparkSubmitOperator's in a DAG."""
    conf = [part for key, value in SPARK_CONF.items() for part in ("--conf", f"{key}={value}")]
    zipped = ["--py-files", py_files()] if py_files() else []
    given = ["--master", master, *conf, *zipped, "--jars", str(jar), "--name", job]
    return ["spark-submit", *given, application(job), *arguments]


def spark_master() -> str:
    """Return the Spark master for `muster job`: `MUSTER_SPARK_MASTER`, else all cores of this machine."""
    return os.environ.get("MUSTER_SPARK_MASTER", "").strip() or "local[*]"


def py_files() -> str:
    """Return the path of the zip that `make spark-package` builds: `MUSTER_SPARK_PY_FILES`, empty for none."""
    return os.environ.get("MUSTER_SPARK_PY_FILES", "").strip()


def archive_uri(beside: Path | None = None) -> str:
    """Return the archive's directory: `MUSTER_ARCHIVE_URI`, else `archive` in a local directory.

    Args:
        beside: The local directory; None returns an empty text, which disables the archive.
    """
    named = os.environ.get("MUSTER_ARCHIVE_URI", "").strip()
    if named or beside is None:
        return named
    # Hadoop takes the path as it is: percent-encoded, a space would be three characters of the name.
    return f"file://{(beside / 'archive').resolve()}"


def default_options(name: str) -> dict[str, int]:
    """Return a job's default options, from the environment or built in.

    Raises:
        JobError: A setting is not a whole number within its bounds.
    """
    job = JOBS[name]
    return {option.name: _setting(job, option) for option in job.options}


def retention_ms() -> int:
    """Return the default retention: `MUSTER_OFFSETS_RETENTION_MINUTES`, else a week; negative for forever.

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
            f" {RETENTION_MAX_MINUTES}, or -1 for forever."
        )
    return -1 if minutes < 0 else minutes * 60_000


def minutes(variable: str, default: int) -> timedelta:
    """Read a duration in minutes from the environment.

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
    """Return how long to wait for a proposal to be applied: `MUSTER_APPLY_TIMEOUT_MINUTES`, else an hour.

    Raises:
        JobError: The setting is not a whole number from 1 to TIMEOUT_MAX_MINUTES.
    """
    return minutes("MUSTER_APPLY_TIMEOUT_MINUTES", 60)


def start_date(variable: str, default: datetime) -> datetime:
    """Read a start date (UTC) from the environment.

    Raises:
        JobError: The setting is not a date such as 2026-01-31.
    """
    text = os.environ.get(variable, "").strip()
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if text else default
    except ValueError:
        raise JobError(f"{variable} is {text!r}; it must be a date such as 2026-01-31.") from None
    return day


def cron_of(schedule: Schedule) -> str:
    """Return a schedule's cron expression, from the environment or built in."""
    return os.environ.get(schedule.variable, "").strip() or schedule.cron


def interval_of(dag_id: str, dag_run: Any) -> tuple[datetime, datetime] | None:  # noqa: ANN401 - a model of Airflow's
    """Return start and end of the interval that a DAG run is about; None for a run about the time of its request.

    A run by hand has no interval, unless Airflow's form, or the DAG that triggers it, gave it one. A report of an
    interval then takes the last one of its schedule that was complete; a job about the current state ignores what it
    was given, which is in the past.
    """
    spec = job_of(dag_id)
    if dag_run.run_type not in RUN_TYPES_WITH_INTERVAL and (spec.is_of_now or not spec.is_report):
        return None
    if dag_run.data_interval_end:
        return dag_run.data_interval_start, dag_run.data_interval_end
    if not spec.is_of_a_day or spec.schedule is None:
        return None
    # It comes with Airflow, and with nothing else.
    from croniter import croniter  # type: ignore[import-untyped]  # noqa: PLC0415  # comes without types

    cron = cron_of(spec.schedule)
    # An interval that ends at the time of the request is complete.
    requested_at = dag_run.run_after.astimezone(UTC) + timedelta(microseconds=1)
    ticks = croniter(QUARTERLY if cron == "@quarterly" else cron, requested_at)
    end, start = ticks.get_prev(datetime), ticks.get_prev(datetime)
    return start, end


def reportable_from(end: datetime, settle_time: timedelta, params: Mapping[str, Any]) -> datetime:
    """Return when an interval can be reported: after the settle time and the report's grace."""
    return end + max(settle_time, timedelta(milliseconds=params.get("grace_ms", 0)))


def is_past(moment: datetime) -> bool:
    """Return whether an instant has passed, for waiting tasks; reports depend on the interval, never on this."""
    return datetime.now(UTC) >= moment


def _setting(job: JobSpec, option: Option) -> int:
    variable = job.variable(option)
    text = os.environ.get(variable, "").strip() or str(option.default)
    try:
        value = int(text)
    except ValueError:
        value = option.least - 1
    if not option.least <= value <= option.most:
        raise JobError(f"{variable} is {text!r}; it must be a whole number from {option.least} to {option.most}.")
    return value
