"""Load reports only what every connection of it did until its end."""

import socketserver
from collections.abc import Iterator
from threading import Thread

import pytest

from bench.closed_loop import Sender, send_load

LONG_S = 600.0
"""A load that fails ends before."""


class OneAnswer(socketserver.StreamRequestHandler):
    """Answers one request and closes the connection."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"answer\n")


@pytest.fixture
def url() -> Iterator[str]:
    with socketserver.TCPServer(("127.0.0.1", 0), OneAnswer) as server:
        serving = Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield f"tcp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def test_a_load_fails_when_the_server_closes_a_connection(url: str) -> None:
    with pytest.raises(AssertionError, match="the server closed it"):
        send_load([Sender(url, [b"request\n"], lambda received: received.endswith(b"\n"))], LONG_S, {})


def test_a_load_fails_at_once_when_an_answer_is_an_error(url: str) -> None:
    def refuse(received: bytes) -> bool:
        raise AssertionError(received.decode())

    with pytest.raises(AssertionError, match="answer"):
        send_load([Sender(url, [b"request\n"], refuse)], LONG_S, {})
