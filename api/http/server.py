"""The HTTP server: uvicorn on a socket that is already bound, without signal handlers.

`api/http/connection.py` handles single connections. The kernel closes the connection of a client that reads none of its
response within the send timeout (TCP_USER_TIMEOUT).

Shutdown order: new requests get a retriable error; parked requests get one from the coordinator; responses in progress
are sent; connections are closed.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from functools import partial
from typing import Final, cast

import uvicorn

from api.http.asgi import AsgiApp
from api.http.connection import HttpConnection
from api.http.limits import HEALTH_CONNECTIONS, HttpLimits
from api.http.security_headers import SECURITY_HEADERS
from api.shared.connection_gate import ConnectionCounts, ConnectionGate

BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""
GRACEFUL_SHUTDOWN_S: Final = 2
"""How long responses in progress may take to be sent at shutdown."""


class HttpServer:
    """Serves one application on one socket."""

    def __init__(self, app: AsgiApp, listener: socket.socket, limits: HttpLimits, counts: ConnectionCounts) -> None:
        """Configure uvicorn.

        Args:
            app: the application to serve.
            listener: a bound socket; closed at the end.
            limits: limits on connections and timeouts.
            counts: the connection counters to update.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # malformed requests: `connection` logs them
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.send_timeout_ms)
        config = uvicorn.Config(
            app,
            http=cast(
                "type[asyncio.Protocol]",
                partial(
                    HttpConnection,
                    gate=ConnectionGate(limits.max_connections, limits.connections_per_ip, counts, HEALTH_CONNECTIONS),
                    limits=limits,
                ),
            ),
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
        self._uvicorn = _Uvicorn(config)
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
