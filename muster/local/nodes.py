"""The nodes of the local platform: each a process with its own port, on one database."""

import os
import sys
from dataclasses import dataclass
from http import HTTPStatus

import urllib3

from muster.client_tls import client_ssl_context
from muster.data_dir import DataDir, keep_secret
from muster.errors import USAGE_EXIT_CODE, UserError
from muster.local.processes import ChildSpec
from muster.settings import Settings

FIRST = "node"
READY_TIMEOUT_S = 5.0
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A node of the local platform."""

    name: str
    port: int
    url: str
    settings: Settings

    def spec(self, data_dir: DataDir, database_url: str) -> ChildSpec:
        """Return the spec of its process, which is restarted whenever it ends."""
        secret, bootstrap = self.settings.cluster_secret, self.settings.mirror_bootstrap_servers
        return ChildSpec(
            name=self.name,
            argv=(sys.executable, "-m", "muster", "serve" if bootstrap is None else "mirror"),
            env={
                **os.environ,
                "MUSTER_DATABASE_URL": database_url,
                "MUSTER_DATA_DIR": str(data_dir.path),
                "MUSTER_HTTP_HOST": self.settings.http_host,
                "MUSTER_HTTP_PORT": str(self.port),
                "MUSTER_ADVERTISED_URL": self.settings.advertised_url or "",
                "MUSTER_KAFKA_PORT": str(self.settings.kafka_port or ""),
                "MUSTER_KAFKA_ADVERTISED": self.settings.kafka_advertised or "",
                "MUSTER_MIRROR_BOOTSTRAP_SERVERS": bootstrap or "",
                "MUSTER_CLUSTER_SECRET": secret.get_secret_value() if secret else keep_secret(data_dir.cluster_secret),
            },
            log_file=data_dir.log_file(self.name),
            restart=True,
        )

    def is_ready(self) -> bool:
        """Return whether the node owns its shards and reaches Postgres."""
        try:
            with urllib3.PoolManager(ssl_context=client_ssl_context()) as pool:
                reply = pool.request("GET", f"{self.url}/readyz", timeout=READY_TIMEOUT_S, retries=False)
        except urllib3.exceptions.HTTPError:
            return False
        return reply.status == HTTPStatus.OK


def local_nodes(settings: Settings, count: int) -> list[LocalNode]:
    """Return the nodes, the first on the port of the settings and the others on the ports after it.

    Raises:
        UserError: there are no such ports.
    """
    first = LocalNode(FIRST, settings.http_port, settings.node_url, settings)
    nodes = [first, *(_another(settings, number) for number in range(2, count + 1))]
    last = nodes[-1].settings
    for option, port, highest in (
        ("--port", settings.http_port, last.http_port),
        ("MUSTER_KAFKA_PORT", settings.kafka_port, last.kafka_port or 0),
    ):
        if highest > PORT_MAX:
            raise UserError(
                f"There are too few ports from {port} on for {count} nodes; lower {option}.", USAGE_EXIT_CODE
            )
    return nodes


def _another(settings: Settings, number: int) -> LocalNode:
    port = settings.http_port + number - 1
    if settings.http_port < settings.airflow_port <= port:
        port += 1
    kafka_port = None if settings.kafka_port is None else settings.kafka_port + number - 1
    update = {"http_port": port, "advertised_url": None, "kafka_port": kafka_port, "kafka_advertised": None}
    own = settings.model_copy(update=update)
    return LocalNode(f"{FIRST}-{number}", port, own.node_url, own)
