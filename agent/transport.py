"""HTTP requests to the nodes: each returns a typed response or raises a typed error.

A connection belongs to one thread and is kept alive. There are no retries here. Another thread can abort a connection,
which ends a long poll at once.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from agent.errors import AgentError, NotCoordinator, Problem, Unreachable, from_problem
from agent.node_selector import NodeSelector
from agent.partitions import JsonObject
from agent.responses import read

OWNER_HEADER = "X-Muster-Coordinator"
POOLS_MAX: Final = 4
"""Maximum number of nodes that one connection object keeps sockets to."""
OnOpen = Callable[[socket.socket], None]
Value = TypeVar("Value")


class Connection:
    """Connections to the selected nodes, for one thread at a time."""

    def __init__(
        self,
        node_selector: NodeSelector,
        token: str | None,
        connect_timeout_ms: int,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self._node_selector = node_selector
        self._ssl_context = ssl_context
        self._connect_timeout_ms = connect_timeout_ms
        self._headers = {"Accept": "application/json", "User-Agent": "muster-agent"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pools: dict[str, HTTPConnectionPool] = {}
        self._lock = threading.Lock()
        self._sockets: dict[str, socket.socket] = {}
        self._is_aborted = False

    def call(
        self,
        reader: Callable[[JsonObject], Value],
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        timeout_ms: int,
    ) -> Value:
        """Send one request and return the reader's value of the response's JSON object ({} without a body).

        Args:
            reader: one of the parsers of `agent.responses`.
            method: GET, POST, ...
            path: path and query, percent-encoded.
            body: the JSON to send, or None for no body.
            timeout_ms: timeout of the response.

        Raises:
            Unreachable: no readable response; the request may or may not have been processed.
            AgentError: the typed error response.
        """
        url = self._node_selector.target()
        response = self._send(url, method, path, body, timeout_ms)
        if not 200 <= response.status < 300:
            raise self._refusal(response, url)
        try:
            answer = read(reader, _object(response, url))
        except Unreachable as error:
            self._node_selector.mark_failed(url, str(error), was_connected=True)
            raise
        self._node_selector.mark_reachable(url)
        self._node_selector.prefer_owner(response.headers.get(OWNER_HEADER))
        return answer

    def abort(self) -> None:
        """End the current request, from any thread; the connection cannot be used again."""
        with self._lock:
            self._is_aborted = True
            for connection in self._sockets.values():
                _shut_down_socket(connection)

    def close(self) -> None:
        """Close the connections; for the thread that uses them."""
        while self._pools:
            self._close_oldest()

    def _send(
        self, url: str, method: str, path: str, body: JsonObject | None, timeout_ms: int
    ) -> urllib3.BaseHTTPResponse:
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = self._headers if content is None else {**self._headers, "Content-Type": "application/json"}
        connect_timeout_ms = min(timeout_ms, self._connect_timeout_ms)
        try:
            return self._pool(url).urlopen(
                method,
                urlsplit(url).path + path,
                body=content,
                headers=headers,
                retries=False,
                timeout=urllib3.Timeout(connect=connect_timeout_ms / 1000, read=timeout_ms / 1000),
            )
        except urllib3.exceptions.HTTPError as problem:
            was_connected = not isinstance(problem, urllib3.exceptions.ConnectTimeoutError)
            was_connected = was_connected and not isinstance(problem, urllib3.exceptions.NewConnectionError)
            self._node_selector.mark_failed(url, _reason(problem), was_connected=was_connected)
            raise Unreachable(f"no response from {url}: {_reason(problem)}", was_connected=was_connected) from problem

    def _pool(self, url: str) -> HTTPConnectionPool:
        """Return the pool of one connection to a node; the least recently used beyond POOLS_MAX are closed."""
        pool = self._pools.pop(url, None) or _new_pool(url, partial(self._opened, url), self._ssl_context)
        while len(self._pools) >= POOLS_MAX:
            self._close_oldest()
        self._pools[url] = pool
        return pool

    def _close_oldest(self) -> None:
        url = next(iter(self._pools))
        with self._lock:
            self._sockets.pop(url, None)
        self._pools.pop(url).close()

    def _opened(self, url: str, connection: socket.socket) -> None:
        with self._lock:
            self._sockets[url] = connection
            if self._is_aborted:
                _shut_down_socket(connection)

    def _refusal(self, response: urllib3.BaseHTTPResponse, url: str) -> AgentError:
        problem = _problem(response)
        error = from_problem(problem)
        is_out_of_service = response.status >= 500 and problem.code != "COORDINATOR_LOAD_IN_PROGRESS"
        if is_out_of_service or not problem.code:
            self._node_selector.mark_failed(url, str(error), was_connected=True)
            return error
        self._node_selector.mark_reachable(url)
        if isinstance(error, NotCoordinator):
            self._node_selector.redirected(problem.coordinator or response.headers.get(OWNER_HEADER))
        else:
            self._node_selector.prefer_owner(response.headers.get(OWNER_HEADER))
        return error


class _Connection(HTTPConnection):
    """A connection that passes its socket to a callback when it opens."""

    def __init__(self, *args: Any, opened: OnOpen, **options: Any) -> None:  # noqa: ANN401  # urllib3's own, passed on
        super().__init__(*args, **options)
        self._on_open = opened

    def connect(self) -> None:
        super().connect()
        self._on_open(self.sock)


class _SecureConnection(HTTPSConnection):
    """The same with TLS."""

    def __init__(self, *args: Any, opened: OnOpen, **options: Any) -> None:  # noqa: ANN401  # urllib3's own, passed on
        super().__init__(*args, **options)
        self._on_open = opened

    def connect(self) -> None:
        super().connect()
        self._on_open(self.sock)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def _new_pool(url: str, opened: OnOpen, ssl_context: ssl.SSLContext | None) -> HTTPConnectionPool:
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        return _SecurePool(parts.hostname, parts.port, maxsize=1, opened=opened, ssl_context=ssl_context)
    return _Pool(parts.hostname, parts.port, maxsize=1, opened=opened)


def _shut_down_socket(connection: socket.socket) -> None:
    """Shut a socket down while another thread uses it."""
    with suppress(OSError):
        # Not SSLSocket.shutdown, which removes the TLS layer while another thread may be sending.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _object(response: urllib3.BaseHTTPResponse, url: str) -> JsonObject:
    content = _json(response) if response.data else {}
    if not isinstance(content, dict):
        raise Unreachable(f"the response from {url} is not a JSON object: is it a Muster node?", was_connected=True)
    return content


def _reason(problem: BaseException) -> str:
    """Return the message of the root cause, which is the operating system's."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return str(problem)


def _problem(response: urllib3.BaseHTTPResponse) -> Problem:
    content = _json(response)
    given: Mapping[str, Any] = content if isinstance(content, dict) else {}
    return Problem(
        code=str(given.get("code") or ""),
        kafka_code=given["kafka_code"] if isinstance(given.get("kafka_code"), int) else -1,
        status=response.status,
        action=str(given.get("action") or ""),
        detail=str(given.get("detail") or given.get("title") or response.reason or ""),
        retry_after_s=_seconds(response.headers.get("Retry-After")),
        member_id=str(given.get("member_id") or ""),
        coordinator=str(given.get("coordinator") or ""),
        request_id=response.headers.get("X-Request-Id", ""),
    )


def _json(response: urllib3.BaseHTTPResponse) -> object:
    try:
        content: object = json.loads(response.data)
    except ValueError:
        return None
    return content


def _seconds(retry_after: str | None) -> float:
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0
