"""A fake node: records requests and returns canned answers."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeNode:
    """A node that returns the given responses in order, and then repeats the last one."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.clock_ahead_s = 0.0
        self.retry_after = "0.01"
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.seen.append((self.path, dict(self.headers)))
                status, body = fake.answers[0] if len(fake.answers) == 1 else fake.answers.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Retry-After", fake.retry_after)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the library's names

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string(timestamp or time.time() + fake.clock_ahead_s)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def says(self, status: int, body: object) -> None:
        self.answers.append((status, json.dumps(body).encode()))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
