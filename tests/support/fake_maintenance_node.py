"""A fake node with maintenance runs, and what it mirrors: records requests, and answers as configured."""

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

CHANGE_ID: Final = "c1"
"""The change of every POST."""


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class FakeNode:
    """Responses: one of `statuses` per GET, then the last one; `refusals` in place of the first responses to POST."""

    statuses: list[str] = field(default_factory=lambda: ["applied"])
    refusals: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: {"candidates": 1, "of": 2})
    held_by: dict[str, str] | None = None
    mirrored_cluster: str | None = None
    seen: list[Seen] = field(default_factory=list)
    """Requests about runs."""
    connections: set[tuple[str, int]] = field(default_factory=set)
    """Clients' addresses, each of which is one connection."""
    url: str = ""

    def answer(self, request: Seen) -> tuple[int, dict[str, Any]]:
        if request.path == "/v1/config":
            return HTTPStatus.OK, {"values": {}, "unconfirmed_nodes": [], "mirrored_cluster": self.mirrored_cluster}
        if request.path == f"/v1/changes/{CHANGE_ID}":
            return HTTPStatus.OK, {"before": {"status": "proposed"}}
        self.seen.append(request)
        if request.method == "POST" and self.refusals:
            return self.refusals.pop(0)
        _, _, _, _, run_id, *asked = request.path.split("/")
        if asked == ["apply"]:
            return HTTPStatus.ACCEPTED, _run(run_id, "applying", self.counts)
        if asked:
            return HTTPStatus.OK, _run(run_id, "rejected", self.counts)
        return HTTPStatus.OK, {**_run(run_id, self._next_status(), self.counts), "held_by": self.held_by}

    def calls(self) -> list[str]:
        """Return the requests, each as its method and the last part of its path."""
        return [f"{request.method} {request.path.rpartition('/')[2]}" for request in self.seen]

    def _next_status(self) -> str:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def running(node: FakeNode, certificate: Path | None = None) -> Iterator[FakeNode]:
    """Serve the node on a free port of this machine for the time of the block, by https if there is a certificate."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # Connections are kept.

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
            """Keep the test's output clean."""

        def _answer(self, body: Any) -> None:  # noqa: ANN401 - any JSON
            node.connections.add(self.client_address)
            status, answer = node.answer(Seen(self.command, self.path, dict(self.headers), body))
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if self.command == "POST":
                self.send_header("X-Muster-Change-Id", CHANGE_ID)
            self.end_headers()
            self.wfile.write(text)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        node.url = f"http://127.0.0.1:{server.server_port}"
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
            # Each connection shakes hands in a thread of its own.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            node.url = node.url.replace("http:", "https:")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield node
        finally:
            server.shutdown()
            thread.join()


def _run(run_id: str, status: str, counts: dict[str, int]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "kind": "offset_retention",
        "as_of": "2026-11-21T12:00:00Z",
        "interval_start": None,
        "interval_end": None,
        "status": status,
        "dry_run": False,
        "counts": counts,
    }
