"""The socket side: uvicorn on a socket that is bound already; it stops when its owner says so, not by signals.

How one connection is read is in `api/http/connection.py`. A client that does not read its answer is the kernel's: it
closes the connection when nothing could be sent for the send timeout (TCP_USER_TIMEOUT).

Stopping is in this order: new requests are told to ask elsewhere, whoever is parked gets a retriable error (the
coordinator's part), answers under way go out, connections are closed.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import Final, cast

import uvicorn

from api.http.connection import HttpConnection
from api.http.connection_gate import ConnectionCounts, ConnectionGate
from api.http.edge import Edge
from api.http.limits import HttpLimits
from api.http.security_headers import SECURITY_HEADERS

BACKLOG: Final = 2_048
"""How many connections may wait to be accepted."""
FAREWELL_S: Final = 2
"""How long answers under way may take to go out at the end."""


class HttpServer:
    """Serves one application on one socket."""

    def __init__(self, app: Edge, listener: socket.socket, limits: HttpLimits, counts: ConnectionCounts) -> None:
        """Prepare.

        Args:
            app: answers.
            listener: bound, and closed at the end.
            limits: of connections, and of the time that requests and answers may take on the wire.
            counts: where connections are counted.
        """
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.send_timeout_ms)
        config = uvicorn.Config(
            app,
            http=cast(
                "type[asyncio.Protocol]",
                partial(
                    HttpConnection,
                    gate=ConnectionGate(limits.max_connections, limits.connections_per_ip, counts),
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
            timeout_graceful_shutdown=FAREWELL_S,
        )
        self._app = app
        self._listener = listener
        self._uvicorn = _Uvicorn(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to accept; when this returns, requests are answered."""
        self._serving = asyncio.create_task(self._uvicorn.serve(sockets=[self._listener]), name="muster-http")
        listening = asyncio.create_task(self._uvicorn.listening.wait())
        await asyncio.wait({self._serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            listening.cancel()
            await self._serving

    def refuse_requests(self) -> None:
        """Tell every new request to ask again elsewhere."""
        self._app.close()

    async def stop(self) -> None:
        """Let answers under way go out, then close every connection."""
        assert self._serving is not None
        self._uvicorn.should_exit = True
        await self._serving
        await self._app.end()


class _Uvicorn(uvicorn.Server):
    """A server that says when it listens, and leaves signals to the node."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
