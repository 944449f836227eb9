"""HTTP over urllib3. Another thread can abort a request, which ends a long poll at once."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.connection import create_connection

from agent.core.runtime import HttpRequest, HttpResponse, NoResponse

POOLS_MAX: Final = 4
"""Maximum number of nodes that one client keeps sockets to."""
OnOpen = Callable[[socket.socket], None]
Origin = tuple[str, str, int | None]
"""Scheme, host and port."""


class Urllib3Client:
    """The `HttpClient` of one thread."""

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        self._ssl_context = ssl_context
        self._pools: dict[Origin, HTTPConnectionPool] = {}
        self._lock = threading.Lock()
        self._sockets: dict[Origin, socket.socket] = {}
        self._is_aborted = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request, and block until its response; see `HttpClient`."""
        parts = urlsplit(request.url)
        assert parts.hostname is not None
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        timeout = urllib3.Timeout(connect=request.connect_timeout_ms / 1000, read=request.timeout_ms / 1000)
        try:
            response = self._pool((parts.scheme, parts.hostname, parts.port)).urlopen(
                request.method, target, body=request.content, headers=request.headers, retries=False, timeout=timeout
            )
        except urllib3.exceptions.HTTPError as problem:
            was_connected = not isinstance(
                problem, (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.NewConnectionError)
            )
            raise NoResponse(_reason(problem), was_connected=was_connected) from problem
        return HttpResponse(response.status, response.reason or "", response.headers, response.data)

    def abort(self) -> None:
        """End the current request, from any thread; the client cannot be used again."""
        with self._lock:
            self._is_aborted = True
            for connection in self._sockets.values():
                _shut_down_socket(connection)

    async def close(self) -> None:
        """Close the connections; for the thread that uses them."""
        while self._pools:
            self._close_oldest()

    def _pool(self, origin: Origin) -> HTTPConnectionPool:
        """Return the pool of one connection to a node; the least recently used beyond POOLS_MAX are closed."""
        pool = self._pools.pop(origin, None) or _new_pool(origin, partial(self._opened, origin), self._ssl_context)
        while len(self._pools) >= POOLS_MAX:
            self._close_oldest()
        self._pools[origin] = pool
        return pool

    def _close_oldest(self) -> None:
        origin = next(iter(self._pools))
        with self._lock:
            self._sockets.pop(origin, None)
        self._pools.pop(origin).close()

    def _opened(self, origin: Origin, connection: socket.socket) -> None:
        with self._lock:
            self._sockets[origin] = connection
            if self._is_aborted:
                _shut_down_socket(connection)


class _Response(http.client.HTTPResponse):
    """A response that is read within the timeout of its socket, which limits each part of it alone."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:  # noqa: ANN401  # the library's own
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_TimedReader(sock, self.fp.detach()))


class _TimedReader(io.RawIOBase):
    """Reads from a socket until the time that it has for one part has passed."""

    def __init__(self, connection: socket.socket, raw: io.RawIOBase) -> None:
        self._connection = connection
        self._raw = raw
        self._timeout_s = connection.gettimeout() or 0.0
        self._until_s = time.monotonic() + self._timeout_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401  # the library's own
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(left_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            with suppress(OSError):
                self._connection.settimeout(self._timeout_s)  # Of the next request.
            self._raw.close()
        super().close()


class _Connection(HTTPConnection):
    """A connection that passes its socket to a callback when it opens."""

    response_class = _Response

    def __init__(self, *args: Any, opened: OnOpen, **options: Any) -> None:  # noqa: ANN401  # urllib3's own, passed on
        super().__init__(*args, **options)
        self._on_open = opened

    def connect(self) -> None:
        """Connect, with TLS if it is secure.

        Raises:
            NewConnectionError: also if the handshake of TLS fails, for which urllib3 has the errors of a response.
        """
        try:
            super().connect()
        except (OSError, ValueError) as problem:  # the latter if the certificate has another name
            raise urllib3.exceptions.NewConnectionError(self, str(problem)) from problem
        self._on_open(self.sock)

    def _new_conn(self) -> socket.socket:
        """Connect to the first address of the host that answers; each, and the look-up before, has the timeout."""
        failure = OSError("the host has no address")
        for address in _addresses(self._dns_host, self.port, self.timeout):
            try:
                return create_connection((address, self.port), self.timeout, socket_options=self.socket_options)
            except OSError as problem:
                failure = problem
        raise failure


class _SecureConnection(_Connection, HTTPSConnection):
    """The same with TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def _new_pool(origin: Origin, opened: OnOpen, ssl_context: ssl.SSLContext | None) -> HTTPConnectionPool:
    scheme, host, port = origin
    if scheme == "https":
        # By default urllib3 checks names itself for a context that does not.
        named: Literal[False] | None = None if ssl_context is None or ssl_context.check_hostname else False
        return _SecurePool(host, port, maxsize=1, opened=opened, ssl_context=ssl_context, assert_hostname=named)
    return _Pool(host, port, maxsize=1, opened=opened)


def _addresses(host: str, port: int, timeout_s: float | None) -> list[str]:
    """Return the addresses of a host, which are looked up in a thread, since the system's resolver has no timeout.

    Raises:
        OSError: it has none, or the look-up takes too long.
    """
    with suppress(ValueError):
        return [str(ip_address(host.strip("[]")))]
    found: Future[list[Any]] = Future()

    def look_up() -> None:
        try:
            found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as problem:
            found.set_exception(OSError(str(problem)))

    try:
        threading.Thread(target=look_up, name="muster-agent-resolver", daemon=True).start()
    except RuntimeError:  # The system has no room for a thread, or the interpreter ends.
        look_up()
    try:
        return [address[0] for *_, address in found.result(timeout_s)]
    except TimeoutError:
        raise TimeoutError(f"the look-up of {host} timed out") from None


def _shut_down_socket(connection: socket.socket) -> None:
    """Shut a socket down while another thread uses it."""
    with suppress(OSError):
        # Not SSLSocket.shutdown, which removes the TLS layer while another thread may be sending.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _reason(problem: BaseException) -> str:
    """Return the message of the root cause, which is the operating system's."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return str(problem)
