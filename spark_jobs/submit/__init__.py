"""Start jobs and describe their results: the only package of ours that DAGs import, beside the Airflow provider.

It is cheap to import: no Spark, no database. DAG files use `from spark_jobs import submit`. The jobs themselves are
the entries of `coordinator_core.jobs`.
"""

from coordinator_core.jobs import JOBS, JobSpec
from spark_jobs.submit.alerts import alert, deadline_missed, run_failed, task_failed
from spark_jobs.submit.clusters import (
    OWN_CLUSTER,
    archive_of,
    clusters,
    database_variable,
    mirror_notice,
    with_cluster,
)
from spark_jobs.submit.jdbc_jar import find_jdbc_jar
from spark_jobs.submit.job import (
    DEFAULT_RETENTION_MINUTES,
    HISTORY_RESTORE,
    PROPOSALS,
    REPORTS,
    SPARK_CONF,
    application,
    apply_timeout,
    archive_uri,
    command,
    cron_of,
    default_options,
    interval_of,
    is_past,
    job_arguments,
    job_of,
    maintenance_run_id,
    minutes,
    py_files,
    reportable_from,
    retention_ms,
    spark_master,
    start_date,
)
from spark_jobs.submit.limits import MEASURES, Limits, default_limits
from spark_jobs.submit.maintenance_run import MaintenanceRun
from spark_jobs.submit.results import (
    approval_text,
    console_url,
    describe_result,
    read_failure,
    read_result,
    rejection_text,
    result_line,
    result_of_run,
)

__all__ = [
    "DEFAULT_RETENTION_MINUTES",
    "HISTORY_RESTORE",
    "JOBS",
    "MEASURES",
    "OWN_CLUSTER",
    "PROPOSALS",
    "REPORTS",
    "SPARK_CONF",
    "JobSpec",
    "Limits",
    "MaintenanceRun",
    "alert",
    "application",
    "apply_timeout",
    "approval_text",
    "archive_of",
    "archive_uri",
    "clusters",
    "command",
    "console_url",
    "cron_of",
    "database_variable",
    "deadline_missed",
    "default_limits",
    "default_options",
    "describe_result",
    "find_jdbc_jar",
    "interval_of",
    "is_past",
    "job_arguments",
    "job_of",
    "maintenance_run_id",
    "minutes",
    "mirror_notice",
    "py_files",
    "read_failure",
    "read_result",
    "rejection_text",
    "reportable_from",
    "result_line",
    "result_of_run",
    "retention_ms",
    "run_failed",
    "spark_master",
    "start_date",
    "task_failed",
    "with_cluster",
]
