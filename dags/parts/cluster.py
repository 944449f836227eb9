"""The cluster that a run is about, by its param `cluster`: Airflow connections name its nodes and its database.

muster_<cluster>            the nodes, of type `muster`; for the own cluster see the hook
muster_<cluster>_database   the database, as a member of `muster_jobs`; that of the own cluster is in the environment
"""

import os

import structlog
from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowSkipException

from muster_airflow.hooks.muster import MusterHook
from spark_jobs import submit

log = structlog.get_logger("airflow.task")
"""Of structlog, as Airflow's own: a `logging_level` of WARNING leaves the text of an AirflowSkipException out."""


def nodes(context: Context, *, retry_timeout_s: float | None = None) -> MusterHook:
    """Return the hook that calls the cluster's nodes; `retry_timeout_s` is the hook's own if None."""
    conn_id = f"muster_{_cluster(context)}"
    return MusterHook(conn_id) if retry_timeout_s is None else MusterHook(conn_id, retry_timeout_s=retry_timeout_s)


def console_url(context: Context, run_id: str | None = None) -> str:
    """Return the console's address of a maintenance run, or of the reports.

    That of the own cluster is MUSTER_CONSOLE_URL, if it is set; others are in their connections.
    """
    of_own = os.environ.get("MUSTER_CONSOLE_URL") if _cluster(context) == submit.OWN_CLUSTER else None
    return submit.console_url(of_own or nodes(context).console_url(), run_id)


def provide_database(context: Context) -> None:
    """Put the database's address into the environment of this task's process, where the job finds it.

    Not into the operator's `env_vars`, which some kinds of Spark clusters get on the command line.
    """
    cluster = _cluster(context)
    if cluster != submit.OWN_CLUSTER:
        connection = BaseHook.get_connection(f"muster_{cluster}_database")
        os.environ[submit.database_variable(cluster)] = submit.database_url(connection)


def skip_in_mirror(context: Context) -> None:
    """Skip the task, and with it those after it, if the cluster is a mirror: offsets and groups expire in Kafka."""
    notice = submit.mirror_notice(nodes(context).get("/v1/config"))
    if notice:
        log.info("%s Nothing is proposed.", notice)
        raise AirflowSkipException(notice)


def _cluster(context: Context) -> str:
    return str(context["params"]["cluster"])
