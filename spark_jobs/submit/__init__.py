"""Start jobs and call the coordinator about their proposals: the only package of ours that DAGs import.

It is cheap to import: no Spark, no database. DAG files use `from spark_jobs import submit`.
"""

from spark_jobs.submit.alerts import alert, deadline_missed, run_failed, task_failed
from spark_jobs.submit.archive import DEFAULT_KEEP_DAYS, KEEP_MAX_DAYS, archive_uri, keep_days
from spark_jobs.submit.coordinator import (
    CoordinatorRefused,
    CoordinatorUnreachable,
    MaintenanceRun,
    apply_run,
    read_run,
    reject_run,
)
from spark_jobs.submit.jdbc_jar import find_jdbc_jar
from spark_jobs.submit.job import (
    DEFAULT_RETENTION_MINUTES,
    HISTORY_RESTORE,
    JOBS,
    PROPOSALS,
    REPORTS,
    SPARK_CONF,
    application,
    apply_timeout,
    command,
    is_past,
    job_arguments,
    maintenance_run_id,
    minutes,
    py_files,
    reportable_from,
    retention_ms,
    spark_master,
    start_date,
)
from spark_jobs.submit.limits import LIMIT_NAMES, MEASURES, Limits, default_limits
from spark_jobs.submit.options import OPTIONS, Option, default_options

__all__ = [
    "DEFAULT_KEEP_DAYS",
    "DEFAULT_RETENTION_MINUTES",
    "HISTORY_RESTORE",
    "JOBS",
    "KEEP_MAX_DAYS",
    "LIMIT_NAMES",
    "MEASURES",
    "OPTIONS",
    "PROPOSALS",
    "REPORTS",
    "SPARK_CONF",
    "CoordinatorRefused",
    "CoordinatorUnreachable",
    "Limits",
    "MaintenanceRun",
    "Option",
    "alert",
    "application",
    "apply_run",
    "apply_timeout",
    "archive_uri",
    "command",
    "deadline_missed",
    "default_limits",
    "default_options",
    "find_jdbc_jar",
    "is_past",
    "job_arguments",
    "keep_days",
    "maintenance_run_id",
    "minutes",
    "py_files",
    "read_run",
    "reject_run",
    "reportable_from",
    "retention_ms",
    "run_failed",
    "spark_master",
    "start_date",
    "task_failed",
]
