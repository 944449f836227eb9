"""The clusters that one Airflow serves: its own, and those that `MUSTER_CLUSTERS` names, such as mirrors of Kafka."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from spark_jobs.errors import JobError
from spark_jobs.submit.job import archive_uri

OWN_CLUSTER = "default"
"""The cluster that the variables without a cluster's name are about."""

DATABASE_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")
"""What jobs read of a connection's extra; others, such as those of Airflow's own hooks, are no part of the address."""

_NAME = re.compile("[a-z][a-z0-9]*")


def clusters() -> tuple[str, ...]:
    """Return the clusters' names, the own one first.

    Raises:
        JobError: A name has other characters than lower-case letters and digits.
    """
    named = [name.strip() for name in os.environ.get("MUSTER_CLUSTERS", "").split(",") if name.strip()]
    for name in named:
        if not _NAME.fullmatch(name):
            raise JobError(f"MUSTER_CLUSTERS has {name!r}; a name has lower-case letters and digits, such as prod.")
    return tuple(dict.fromkeys((OWN_CLUSTER, *named)))


def with_cluster(name: str, cluster: str) -> str:
    """Return the name of a DAG or an Asset for a cluster; that of the own cluster is the job's."""
    return name if cluster == OWN_CLUSTER else f"{name}.{cluster}"


def database_variable(cluster: str) -> str:
    """Return the environment variable in which a job finds the database of a cluster."""
    variable = "MUSTER_JOBS_DATABASE_URL"
    return variable if cluster == OWN_CLUSTER else f"{variable}_{cluster.upper()}"


def database_url(connection: Any) -> str:  # noqa: ANN401 - of Airflow, which jobs need not have
    """Return the address of the database that an Airflow connection names."""
    # Without the query, in which Airflow has what is no text in a form of its own, and an empty extra, too.
    address = str(connection.get_uri()).partition("?")[0]
    extra = connection.extra_dejson
    options = {name: extra[name] for name in DATABASE_OPTIONS if extra.get(name)}
    return f"{address}?{urlencode(options)}" if options else address


def archive_of(cluster: str) -> str:
    """Return the directory of a cluster's archive, within that of the own cluster; empty without an archive."""
    root = archive_uri()
    return f"{root.rstrip('/')}/cluster={cluster}" if root and cluster != OWN_CLUSTER else root


def mirror_notice(answer: Mapping[str, Any]) -> str | None:
    """Return why nothing can be proposed for a cluster, by the answer to `GET /v1/config`; None if it is no mirror."""
    mirrored = answer.get("mirrored_cluster")  # Nodes of release 0.1.0 mirror nothing.
    return mirrored and f"The nodes mirror the Kafka cluster {mirrored}: its offsets and groups expire there."
