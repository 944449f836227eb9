"""A webhook that records the alerts it receives."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Webhook:
    """The alerts received, in order; `status` is the response status."""

    alerts: list[dict[str, Any]] = field(default_factory=list)
    status: int = 204
    url: str = ""


@contextmanager
def listening(webhook: Webhook) -> Iterator[Webhook]:
    """Serve the webhook on a free port of this machine for the time of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            webhook.alerts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(webhook.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        webhook.url = f"http://127.0.0.1:{server.server_port}/s3cret"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield webhook
        finally:
            server.shutdown()
            thread.join()
