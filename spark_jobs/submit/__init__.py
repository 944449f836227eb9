"""What starts a job and what asks the coordinator about its proposal: all that a DAG may import of ours.

Nothing here is heavy to import: no Spark, no database. DAG files use it as a whole (`from spark_jobs import submit`).
"""

from spark_jobs.submit.coordinator import (
    CoordinatorRefused,
    CoordinatorUnreachable,
    MaintenanceRun,
    apply_run,
    read_run,
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
    retention_ms,
)

__all__ = [
    "DEFAULT_RETENTION_MINUTES",
    "JOBS",
    "SPARK_CONF",
    "CoordinatorRefused",
    "CoordinatorUnreachable",
    "MaintenanceRun",
    "application",
    "apply_run",
    "command",
    "find_jdbc_jar",
    "job_arguments",
    "maintenance_run_id",
    "read_run",
    "retention_ms",
]
