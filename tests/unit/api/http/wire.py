"""Connections to an HTTP application without sockets: what arrives in a read is what a test says."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn
from litestar.types import Send
from uvicorn.server import ServerState

from api.http.app import make_app
from api.http.asgi import AsgiApp
from api.http.connection import HttpConnection
from api.http.kept_heads import Finish, RepeatableRequest, RepeatedBatch
from api.http.limits import HttpLimits
from api.shared.connection_gate import ConnectionCounts, ConnectionGate
from api.shared.node_context import NodeContext
from api.shared.tokens import Tokens
from api.shared.turns import LongPollTurns
from api.shared.write_batch import WriteBatch
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.no_queries import NO_QUERIES
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, config, running

LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n")
OWN_LINES: Final = re.compile(rb"(date|x-request-id): [^\r]*\r\n")
"""The headers that differ between two responses to one request."""


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name in {"peername", "sockname"} else default


class CountingApp:
    """Passes repeated requests on, and counts them."""

    def __init__(self, app: AsgiApp) -> None:
        self.repeatable = app.repeatable
        self._answer = app.answer_repeated
        self.answered = 0
        self.failure: Exception | None = None
        """Raised instead of answering."""

    def answer_repeated(self, request: RepeatableRequest, body: bytes, send: Send, finish: Finish) -> None:
        if self.failure is not None:
            raise self.failure
        self.answered += 1
        self._answer(request, body, send, finish)


class Wire:
    """A connection to an application."""

    def __init__(
        self,
        app: AsgiApp,
        limits: HttpLimits,
        *,
        keeps_heads: bool,
        max_connections: int = 1,
        batch: RepeatedBatch | None = None,
    ) -> None:
        self.repeated = CountingApp(app)
        self.read_turns = LongPollTurns()
        self.transport = FakeTransport()
        self.connection = HttpConnection(
            config=uvicorn.Config(app, lifespan="off", log_config=None, access_log=False),
            server_state=ServerState(),
            app_state={},
            gate=ConnectionGate(max_connections, 1, ConnectionCounts(()), 1),
            limits=limits,
            batch=WriteBatch(),
            read_turns=self.read_turns,
            repeated=batch or RepeatedBatch(),
            repeated_requests=self.repeated if keeps_heads else None,
        )
        self.connection.connection_made(self.transport)

    def take_read_turns(self) -> None:
        """Let joins and syncs be held back until a later turn of the event loop."""
        while self.read_turns.begin() is None:
            pass

    async def ask(self, *parts: bytes) -> bytes:
        """Send a request, and return the response without what differs between two of them."""
        for part in parts:
            self.connection.data_received(part)
        return await self.response()

    async def response(self) -> bytes:
        """Return the next response."""
        async with limited("a response"):
            while (size := self._size()) is None:  # noqa: ASYNC110 - as the event loop turns
                await asyncio.sleep(0)
        response, self.transport.written = self.transport.written[:size], self.transport.written[size:]
        return OWN_LINES.sub(b"", response)

    def is_idle(self) -> bool:
        """Return whether all that has arrived is answered, or the connection is closed."""
        connection = self.connection
        has_answered = not connection.has_request or connection.cycle.response_complete
        is_answered = has_answered and not connection.pipeline and not connection._held
        return self.transport.is_closed or is_answered

    def take(self) -> bytes:
        """Return all that was written, without what differs between two responses."""
        written, self.transport.written = self.transport.written, b""
        return OWN_LINES.sub(b"", written)

    def _size(self) -> int | None:
        """Return the size of the first response; None: it is not complete."""
        head, end, body = self.transport.written.partition(b"\r\n\r\n")
        length = LENGTH.search(head + b"\r\n")
        size = 0 if length is None else int(length[1])
        return len(head) + len(end) + size if end and len(body) >= size else None


class Node:
    """A node with an application."""

    def __init__(self, coordinator: Coordinator, store: HeldStore, app: AsgiApp, limits: HttpLimits) -> None:
        self.limits = limits
        self.coordinator = coordinator
        self.store = store
        self.app = app
        self._wires: list[Wire] = []

    def connect(self, *, keeps_heads: bool = True, batch: RepeatedBatch | None = None) -> Wire:
        wire = Wire(self.app, self.limits, keeps_heads=keeps_heads, batch=batch)
        self._wires.append(wire)
        return wire

    async def member(self, group_id: str = "g") -> Member:
        """Return the member of a Stable group."""
        member = Member(self.coordinator, group_id)
        await member.settle()
        return member

    def close(self) -> None:
        for wire in self._wires:
            wire.connection.connection_lost(None)


@asynccontextmanager
async def serving(tokens: Tokens | None = None, limits: HttpLimits | None = None) -> AsyncIterator[Node]:
    limits = limits or HttpLimits()
    store = HeldStore()
    async with running(store, config(lease_ttl_ms=60_000)) as coordinator:
        context = NodeContext(coordinator, NO_QUERIES, limits, tokens=tokens)
        app = make_app(context, limits, "1", cluster_secret="s" * 32)
        node = Node(coordinator, store, app, limits)
        yield node
        node.close()
        await app.close()


def post(path: str, body: object, *headers: str, kind: str = "application/json", host: str = "localhost") -> bytes:
    """Return a request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = (f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Type: {kind}", *headers)
    return "\r\n".join((*lines, f"Content-Length: {len(content)}", "", "")).encode() + content


def heartbeat(member: Member, *headers: str, **more: str) -> bytes:
    body = {"generation": member.generation, "member_id": member.member_id}
    return post(heartbeat_path(member), body, *headers, **more)


def join(member: Member, *headers: str, max_wait_ms: int | None = None) -> bytes:
    """Return a request to join in one step; all of one group and with the same headers have one length."""
    body = {
        "member_id": member.member_id,
        "client_id": "c",
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": {"topics": list(member.topics)}}],
        "require_known_member_id": False,
        "max_wait_ms": max_wait_ms,
    }
    return post(f"/v1/groups/{member.group_id}/join", json.dumps(body).encode().ljust(400), *headers)


def sync(member: Member, *headers: str) -> bytes:
    """Return the sync of a leader that assigns nothing."""
    assignments = [{"member_id": member.member_id, "assignment": {"partitions": []}}]
    body = {"generation": member.generation, "member_id": member.member_id, "assignments": assignments}
    return post(f"/v1/groups/{member.group_id}/sync", body, *headers)


def commit(member: Member, offset: int, *headers: str, topic: str = "t") -> bytes:
    body = {
        "generation": member.generation,
        "member_id": member.member_id,
        "offsets": [{"topic": topic, "partition": 0, "offset": offset}],
    }
    return post(f"/v1/groups/{member.group_id}/offsets", body, *headers)


def get(path: str, padding: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Padding: {padding}\r\n\r\n".encode()


def heartbeat_path(member: Member) -> str:
    return f"/v1/groups/{member.group_id}/heartbeat"


def body_of(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


def halves(request: bytes) -> tuple[bytes, bytes]:
    """Return the head and the body of a request."""
    body = body_of(request)
    return request[: len(request) - len(body)], body


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])
