"""What a benchmark measures beside another process of it needs that process until the end."""

import json
import multiprocessing
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from bench.bench_servers import HOST, free_port
from bench.closed_loop import Sender
from bench.heartbeat_probe import heartbeat_probe
from bench.http_load import is_complete
from bench.tenants import _sending
from tests.support.waiting import poll_until

pytestmark = pytest.mark.slow


def test_a_hostile_tenant_that_stops_sending_fails_the_benchmark() -> None:
    nothing_listens = [Sender(f"http://{HOST}:{free_port()}", [b"request"], is_complete)]
    with pytest.raises(AssertionError, match="stopped sending"), _sending(nothing_listens):
        poll_until(lambda: not multiprocessing.active_children())


class RefusesHeartbeats(BaseHTTPRequestHandler):
    """A node with a group of one member, whose heartbeats are refused."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"member_id": "m", "generation": 1, "assignment": ""}).encode()
        self.send_response(503 if self.path.endswith("/heartbeat") else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def refusing_url() -> Iterator[str]:
    with ThreadingHTTPServer((HOST, 0), RefusesHeartbeats) as server:
        serving = Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield f"http://{HOST}:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def test_a_heartbeat_that_is_refused_fails_the_benchmark(refusing_url: str) -> None:
    with heartbeat_probe(refusing_url) as probe:
        poll_until(lambda: not multiprocessing.active_children())
        with pytest.raises(AssertionError, match="a heartbeat failed"):
            probe.worst_ms()
