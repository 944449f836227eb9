"""The server of the Kafka listener, on a socket that is already bound.

It stops as the HTTP server does: parked requests get an error from the coordinator; responses in progress are sent;
connections are closed. Clients then look the coordinator up at another node.
"""

import asyncio
import socket
from typing import Final

from api.kafka import LISTENER
from api.kafka.connection import KafkaConnection
from api.kafka.limits import KafkaLimits
from api.kafka.messages import load_all
from api.shared.connection_gate import ConnectionCounts, ConnectionGate
from api.shared.handshake_server import HANDSHAKE_FAILED, HandshakeServer
from api.shared.node_context import NodeContext
from api.shared.request_metrics import ListenerMetrics
from api.shared.trusted_proxies import TrustedProxies
from api.shared.write_batch import WriteBatch
from coordinator_core.queries.cluster_id import read_cluster_id

BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""
GRACEFUL_SHUTDOWN_S: Final = 2
"""How long responses in progress may take to be sent at shutdown."""


class KafkaServer:
    """Serves Kafka clients on one socket."""

    def __init__(
        self, node: NodeContext, listener: socket.socket, limits: KafkaLimits, proxies: TrustedProxies | None = None
    ) -> None:
        """Prepare to serve; all schemas are loaded before.

        Args:
            node: the node that answers.
            listener: a bound socket; closed at the end.
            limits: limits on connections, frames and times.
            proxies: those that begin each connection with a header of the PROXY protocol; None: there is none.
        """
        load_all()
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.send_timeout_ms)
        self._node = node
        self._listener = listener
        self._limits = limits
        self._proxies = proxies
        self._metrics = node.metrics.listeners[LISTENER] = ListenerMetrics(ConnectionCounts((HANDSHAKE_FAILED,)))
        self._gate = ConnectionGate(limits.max_connections, limits.connections_per_ip, self._metrics.connections)
        self._batch = WriteBatch()
        self._open: dict[KafkaConnection, asyncio.Future[None]] = {}
        """Connection → what is done when it is lost."""
        self._server: asyncio.Server | HandshakeServer | None = None

    async def start(self) -> None:
        """Start to serve; when this returns, connections are accepted."""
        loop = asyncio.get_running_loop()
        self._node.cluster_id = await self._node.queries.run(read_cluster_id)
        if self._node.tls.server is None and self._proxies is None:
            self._server = await loop.create_server(self._connect, sock=self._listener, backlog=BACKLOG)
        else:
            timeout_ms, tls = self._limits.handshake_timeout_ms, self._node.tls
            self._server = HandshakeServer(self._listener, self._connect, self._gate, tls, timeout_ms, self._proxies)

    def _connect(self, client_host: str | None = None) -> KafkaConnection:
        connection = KafkaConnection(self._node, self._gate, self._limits, self._metrics, self._batch, client_host)
        connection.closed.add_done_callback(lambda _: self._open.pop(connection))
        self._open[connection] = connection.closed
        return connection

    async def stop(self) -> None:
        """Send the responses in progress, then close every connection."""
        assert self._server is not None
        self._server.close()
        for connection in self._open:
            connection.close_when_answered()
        if self._open:
            await asyncio.wait(self._open.values(), timeout=GRACEFUL_SHUTDOWN_S)
        for connection in self._open:
            connection.abort()
