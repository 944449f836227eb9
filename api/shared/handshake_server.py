"""The server of a listener with TLS or the PROXY protocol: accepts, counts and prepares connections.

A handshake is what precedes the protocol of a connection: the header of a proxy, and the handshake of TLS. asyncio's
own server creates the connections of a listener after those of TLS, and so counts no client that never ends one. Here
such a client has a place among the connections of the listener, and loses it after the handshake timeout. When the
handshake is complete, the place is the connection's; if a proxy has named its client, it gets a place of that client.

A failed handshake is counted, and logged at most once within LOG_INTERVAL_S. A client that closes its connection first,
as the probe of a load balancer does, is neither.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from api.shared.connection_gate import LOG_INTERVAL_S, Connection, ConnectionGate
from api.shared.proxy_protocol import ProxyHeaderError, read_client_host
from api.shared.tls import NodeTls
from api.shared.trusted_proxies import TrustedProxies

log = structlog.get_logger("muster.api")

HANDSHAKE_FAILED: Final = "handshake_failed"
"""The reason for which connections are counted as closed when a handshake fails, or takes too long."""
SHUTDOWN_TIMEOUT_S: Final = 1.0
"""How long a client may take to end TLS when its connection is closed."""
ACCEPT_RETRY_S: Final = 1.0
"""How long no connection is accepted when the process can have no more files. asyncio waits as long."""
ACCEPTS_PER_TURN: Final = 64
"""The maximum number of connections that are accepted in one turn of the event loop."""


class ListenerConnection(Connection, Protocol):
    """A connection of a listener, a protocol of asyncio."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin, after the handshake."""


class HandshakeServer:
    """Serves one socket. `close` and `wait_closed` are those of `asyncio.Server`."""

    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[str | None], ListenerConnection],
        gate: ConnectionGate,
        tls: NodeTls,
        handshake_timeout_ms: int,
        proxies: TrustedProxies | None = None,
    ) -> None:
        """Accept connections from now on; call it on the event loop.

        Args:
            listener: a bound socket that listens; closed at the end.
            connect: makes the protocol of a connection, once its handshake is complete; it is given the address of the
                client that a proxy has named, or None.
            gate: counts the connections of the listener.
            tls: has the context of the listeners, unless they are without TLS.
            handshake_timeout_ms: how long each part of a handshake may take.
            proxies: those that begin each connection with a header of the PROXY protocol; None: there is none.
        """
        self.connect = connect
        self.gate = gate
        self.tls = tls
        self.handshake_timeout_s = handshake_timeout_ms / 1000
        self.proxies = proxies
        self.handshakes: set[_Handshake] = set()
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._next_log_at_s = 0.0
        self._unlogged = 0
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept no connection any more, and end the handshakes in progress."""
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for handshake in tuple(self.handshakes):
            handshake.abort()

    async def wait_closed(self) -> None:
        """Wait until the handshakes have ended."""
        while self.handshakes:
            await asyncio.wait([handshake.task for handshake in self.handshakes])

    def handshake_failed(self, host: str, failure: OSError) -> None:
        """Count a failed handshake, and log it unless another one was logged lately."""
        self.gate.count_closed(HANDSHAKE_FAILED)
        self._unlogged += 1
        if self._loop.time() >= self._next_log_at_s:
            self._next_log_at_s = self._loop.time() + LOG_INTERVAL_S
            reason = getattr(failure, "reason", None) or str(failure)
            event = "proxy_headers_refused" if isinstance(failure, ProxyHeaderError) else "tls_handshakes_failed"
            log.warning(event, handshakes=self._unlogged, client=host, reason=reason)
            self._unlogged = 0

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                log.error("accept_failed", reason=failure.strerror)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(ACCEPT_RETRY_S, self._listen)
                return
            client.setblocking(False)
            handshake = _Handshake(self, client, address[0])
            self.gate.admit(handshake, address[0])


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is complete."""

    has_request = False

    def __init__(self, server: HandshakeServer, client: socket.socket, host: str) -> None:
        self._server = server
        self._client = client
        self._host = host
        self._client_host: str | None = None
        """The address of the client that a proxy has named."""
        self._is_passed_on = False
        """Whether the socket is asyncio's, which closes it."""
        self.task = asyncio.get_running_loop().create_task(self._shake_hands())
        self.task.add_done_callback(self._ended)
        server.handshakes.add(self)

    def abort(self) -> None:
        """Close the connection at once."""
        self.task.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of a stream
        """Give the connection its protocol, since the handshake is complete."""
        self._server.handshakes.discard(self)
        connection = self._server.connect(self._client_host)
        if self._client_host is None:
            self._server.gate.hand_over(self, connection)
        else:
            self._server.gate.release(self)  # the connection gets a place of its client
        transport.set_protocol(connection)  # type: ignore[arg-type]  # a protocol of asyncio
        connection.connection_made(transport)

    async def _shake_hands(self) -> None:
        context = self._server.tls.server
        try:
            if self._server.proxies is not None:
                self._client_host = await self._read_proxy_header(self._server.proxies)
            self._is_passed_on = True
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self,
                self._client,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self._server.handshake_timeout_s,
                ssl_shutdown_timeout=None if context is None else SHUTDOWN_TIMEOUT_S,
            )
        except (ConnectionResetError, BrokenPipeError):
            pass  # the client has closed its connection
        except OSError as failure:
            self._server.handshake_failed(self._host, failure)

    async def _read_proxy_header(self, proxies: TrustedProxies) -> str | None:
        if not proxies.trust(self._host):
            raise ProxyHeaderError("the peer is no proxy of MUSTER_TRUSTED_PROXIES")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._server.handshake_timeout_s):
                return await read_client_host(lambda size: loop.sock_recv(self._client, size))
        except TimeoutError:
            raise ProxyHeaderError("no header of the PROXY protocol in time") from None

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._server.handshakes.discard(self)
        self._server.gate.release(self)
        if not self._is_passed_on:
            self._client.close()
