"""An answer leaves in one write, whatever order its parts come in, and nothing that is held back is ever lost."""

import asyncio

from api.http.server import _OneWrite
from tests.api.client import Client


class FakeTransport(asyncio.Transport):
    """Remembers what is written, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def test_a_head_that_is_held_leaves_with_its_body() -> None:
    transport = FakeTransport()
    joined = _OneWrite(transport)
    joined.hold()
    for part in (b"head", b"body", b"later"):
        joined.write(part)
    assert transport.written == [b"headbody", b"later"]


def test_an_empty_body_lets_its_head_go_too() -> None:
    transport = FakeTransport()
    joined = _OneWrite(transport)
    joined.hold()
    joined.write(b"head")
    joined.write(b"")
    assert transport.written == [b"head"]


def test_closing_writes_what_is_held_back() -> None:
    transport = FakeTransport()
    joined = _OneWrite(transport)
    joined.hold()
    joined.write(b"head")
    joined.close()
    assert transport.written == [b"head"]
    assert joined.is_closing()


def test_an_answer_without_a_body_is_not_held_back(client: Client) -> None:
    answer = client.send("HEAD", "/healthz")
    assert answer.body == b""
    assert "x-request-id" in answer.headers
