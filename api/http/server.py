"""The HTTP server: uvicorn on a socket that is already bound, without signal handlers.

`api/http/connection.py` handles single connections; with TLS, `api/shared/handshake_server.py` makes their handshakes.
The kernel closes the connection of a client that reads none of its response within the send timeout (TCP_USER_TIMEOUT).

Shutdown order: new requests get a retriable error; parked requests get one from the coordinator; responses in progress
are sent; connections are closed.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, cast

import uvicorn

from api.http.asgi import AsgiApp
from api.http.connection import HttpConnection
from api.http.kept_heads import RepeatedBatch, RepeatedRequests
from api.http.limits import HEALTH_CONNECTIONS, HttpLimits
from api.http.security_headers import SECURITY_HEADERS
from api.shared.connection_gate import ConnectionCounts, ConnectionGate
from api.shared.handshake_server import HandshakeServer
from api.shared.tls import NodeTls
from api.shared.turns import LongPollTurns
from api.shared.write_batch import WriteBatch

BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""
GRACEFUL_SHUTDOWN_S: Final = 2
"""How long responses in progress may take to be sent at shutdown."""


class HttpServer:
    """Serves one application on one socket."""

    def __init__(
        self,
        app: AsgiApp,
        listener: socket.socket,
        limits: HttpLimits,
        counts: ConnectionCounts,
        tls: NodeTls | None = None,
        repeated_requests: RepeatedRequests | None = None,
    ) -> None:
        """Configure uvicorn.

        Args:
            app: the application to serve.
            listener: a bound socket; closed at the end.
            limits: limits on connections and timeouts.
            counts: the connection counters to update.
            tls: serves HTTPS if it has a certificate.
            repeated_requests: answers requests whose heads a connection keeps; None: all are parsed.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # malformed requests: `connection` logs them
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.send_timeout_ms)
        gate = ConnectionGate(limits.max_connections, limits.connections_per_ip, counts, HEALTH_CONNECTIONS)
        connection = partial(
            HttpConnection,
            gate=gate,
            limits=limits,
            batch=WriteBatch(),
            read_turns=LongPollTurns(),
            repeated=RepeatedBatch(),
            repeated_requests=repeated_requests,
        )
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", connection),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=SECURITY_HEADERS,
            backlog=BACKLOG,
            timeout_keep_alive=limits.keep_alive_s,
            timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
        )
        self._app = app
        self._listener = listener
        if tls is None or tls.server is None:
            self._uvicorn = _Uvicorn(config)
        else:
            self._uvicorn = _SecureUvicorn(config, gate, tls, limits.handshake_timeout_ms)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to serve; when this returns, connections are accepted."""
        self._serving = asyncio.create_task(self._uvicorn.serve(sockets=[self._listener]), name="muster-http")
        listening = asyncio.create_task(self._uvicorn.listening.wait())
        await asyncio.wait({self._serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            listening.cancel()
            await self._serving

    def reject_requests(self) -> None:
        """Refuse every new request with a retriable error."""
        self._app.begin_shutdown()

    async def stop(self) -> None:
        """Send the responses in progress, then close every connection."""
        assert self._serving is not None
        self._uvicorn.should_exit = True
        await self._serving
        await self._app.close()


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that signals when it listens, and installs no signal handlers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _SecureUvicorn(_Uvicorn):
    """The same with TLS: connections are uvicorn's once their handshakes are complete."""

    def __init__(self, config: uvicorn.Config, gate: ConnectionGate, tls: NodeTls, handshake_timeout_ms: int) -> None:
        super().__init__(config)
        self._gate = gate
        self._tls = tls
        self._handshake_timeout_ms = handshake_timeout_ms

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        for listener in sockets or ():
            server = HandshakeServer(listener, self._connect, self._gate, self._tls, self._handshake_timeout_ms)
            self.servers.append(server)  # type: ignore[arg-type]  # it is closed as one of asyncio

    def _connect(self, _client_host: str | None) -> HttpConnection:
        connect = cast("Callable[..., HttpConnection]", self.config.http_protocol_class)
        return connect(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
