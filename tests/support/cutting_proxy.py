"""A proxy before a real node that loses chosen requests or responses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import urllib3

from tests.support.waiting import PATIENCE_S

OWNER_HEADER = "x-muster-coordinator"
HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "host", "date", "server", OWNER_HEADER}


class CuttingProxy:
    """Passes requests on, except those whose number is in `lost_requests` or `lost_answers` or whose path is chosen."""

    def __init__(self, node_url: str) -> None:
        self.lost_requests: set[int] = set()
        self.lost_answers: set[int] = set()
        self.paths: list[str] = []
        self._lost_path_ends: list[tuple[str, set[int]]] = []
        self._node_url = node_url
        self._http = urllib3.PoolManager(maxsize=20, retries=False)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            for connection in self._server.connections:
                hang_up(connection)
            self._server.server_close()
            self._http.clear()

    def lose_next_answer_to(self, path_end: str) -> None:
        """Lose the response to the next request whose path has this suffix."""
        with self._lock:
            self._lost_path_ends.append((path_end, self.lost_answers))

    def lose_next_request_to(self, path_end: str) -> None:
        """Lose the next request whose path has this suffix."""
        with self._lock:
            self._lost_path_ends.append((path_end, self.lost_requests))

    @property
    def is_to_lose_more(self) -> bool:
        with self._lock:
            return bool(self._lost_path_ends)

    def number(self, path: str) -> int:
        """Return the number of a request that has come in, from 0."""
        with self._lock:
            self.paths.append(path)
            number = len(self.paths) - 1
            reported = next((each for each in self._lost_path_ends if path.endswith(each[0])), None)
            if reported is not None:
                self._lost_path_ends.remove(reported)
                reported[1].add(number)
            return number

    def forwarded(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        return self._http.request(method, self._node_url + path, body=body, headers=headers, timeout=PATIENCE_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.connections: set[socket.socket] = set()
        """All, whether they have sent a request yet or not: an open one would keep `server_close` for ever."""

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in the base class
        """Note the connection before its thread starts."""
        self.connections.add(request)
        super().process_request(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    proxy: CuttingProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.forward()

    def do_POST(self) -> None:
        self.forward()

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        number = self.proxy.number(self.path)
        if number in self.proxy.lost_requests:
            self.hang_up()
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}
        answer = self.proxy.forwarded(self.command, self.path, body, headers)
        if number in self.proxy.lost_answers:
            self.hang_up()
            return
        self.respond(answer)

    def respond(self, answer: urllib3.BaseHTTPResponse) -> None:
        with suppress(OSError):
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in HOP_HEADERS:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)

    def hang_up(self) -> None:
        self.close_connection = True
        hang_up(self.connection)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Log nothing."""


def hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
