"""What starts a job and what asks the coordinator about its proposal: all that a DAG may import of ours.

Nothing here is heavy to import: no Spark, no database. DAG files use it as a whole (`from spark_jobs import submit`).
"""

from spark_jobs.submit.alerts import alert, deadline_missed, run_failed, task_failed
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
    JOBS,
    SPARK_CONF,
    application,
    command,
    job_arguments,
    maintenance_run_id,
    minutes,
    retention_ms,
)
from spark_jobs.submit.limits import LIMIT_NAMES, MEASURES, Limits, default_limits

__all__ = [
    "DEFAULT_RETENTION_MINUTES",
    "JOBS",
    "LIMIT_NAMES",
    "MEASURES",
    "SPARK_CONF",
    "CoordinatorRefused",
    "CoordinatorUnreachable",
    "Limits",
    "MaintenanceRun",
    "alert",
    "application",
    "apply_run",
    "command",
    "deadline_missed",
    "default_limits",
    "find_jdbc_jar",
    "job_arguments",
    "maintenance_run_id",
    "minutes",
    "read_run",
    "reject_run",
    "retention_ms",
    "run_failed",
    "task_failed",
]
