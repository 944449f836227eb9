"""The check of `muster doctor` on live nodes: whether they answer at the addresses that they advertise."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import urllib3
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.cli.doctor.results import CheckResult, ok, warning
from muster.client_tls import client_ssl_context
from muster.display import counted, printable
from muster.errors import UserError
from muster.node_client import root_cause

_ALIVE: Final = """
SELECT node_id, listeners ->> 'http' FROM nodes WHERE expires_at > clock_timestamp() ORDER BY node_id
"""
TIMEOUT_S: Final = 3.0
CONCURRENT_CALLS: Final = 16
ADVICE: Final = (
    "agents and other nodes have to reach it: correct MUSTER_ADVERTISED_URL of that node, unless only this machine is"
    " outside of their network"
)


def check_nodes(connection: PsycopgConnection) -> CheckResult:
    """Call each node at its address."""
    with connection.cursor() as cursor:
        cursor.execute(_ALIVE)
        nodes = cursor.fetchall()
    with ThreadPoolExecutor(CONCURRENT_CALLS) as threads:
        faults = list(threads.map(_fault_of, (url for _, url in nodes)))
    silent = [f"{url} ({fault})" for (_, url), fault in zip(nodes, faults, strict=True) if fault is not None]
    if silent:
        return warning("nodes", printable(f"no answer from here of {', '.join(silent)}"), ADVICE)
    return ok("nodes", f"{counted(len(nodes), 'node answers', 'nodes answer')} at the advertised addresses")


def _fault_of(url: str) -> str | None:
    """Return why no node is reached at a URL; None: one answers."""
    try:
        with urllib3.PoolManager(ssl_context=client_ssl_context()) as pool:
            reply = pool.request("GET", f"{url}/healthz", timeout=TIMEOUT_S, retries=False)
        return None if reply.json() == {"status": "alive"} else f"status {reply.status}"
    except urllib3.exceptions.HTTPError as failure:
        return root_cause(failure)
    except (ValueError, UserError) as failure:
        return str(failure)
