"""Closed-loop load over HTTP: requests as bytes, and responses of which only status and length are parsed."""

from collections.abc import Iterable, Sequence
from typing import Final

from bench.closed_loop import Load, Sender, send_load
from bench.cpu_time import Pids

HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = b"content-length: "
NO_PIDS: Final[Pids] = {}


def post(path: str, body: bytes, token: str = "") -> bytes:
    """Return the bytes of a POST request with a JSON body, and with a bearer token unless it is empty."""
    kind = f"content-type: application/json\r\ncontent-length: {len(body)}"
    if token:
        kind += f"\r\nauthorization: Bearer {token}"
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{kind}\r\n\r\n".encode() + body


def get(path: str, token: str = "") -> bytes:
    """Return the bytes of a GET request, with a bearer token unless it is empty."""
    authorization = f"authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{authorization}\r\n".encode()


def put_load(requests: Sequence[tuple[str, Iterable[bytes]]], duration_s: float, pids: Pids = NO_PIDS) -> Load:
    """Send requests on one connection per entry for some seconds, and return the results.

    Args:
        requests: for each connection, the URL of a server and the requests to send in turn.
        duration_s: how long responses are counted, in seconds, after the warm-up.
        pids: the processes whose processor time is measured.

    Raises:
        AssertionError: a response had another status than 200.
    """
    return send_load([Sender(url, each, is_answered) for url, each in requests], duration_s, pids)


def is_answered(received: bytes) -> bool:
    """Return whether a response is complete.

    Raises:
        AssertionError: it has another status than 200.
    """
    is_whole = is_complete(received)
    assert not is_whole or received.startswith(b"HTTP/1.1 200"), received
    return is_whole


def is_complete(received: bytes) -> bool:
    """Return whether a response of any status is complete."""
    head_end = received.find(HEAD_END)
    if head_end < 0:
        return False
    at = received.find(LENGTH) + len(LENGTH)
    length = int(received[at : received.index(b"\r", at)])
    return len(received) >= head_end + len(HEAD_END) + length
