"""Requests whose heads a connection has kept: each is answered as if it were parsed, and judged by what holds now."""

import asyncio
import gc
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from weakref import ref

import pytest
import uvicorn
from litestar.types import Send
from uvicorn.server import ServerState

from api.http.app import make_app
from api.http.asgi import AsgiApp
from api.http.connection import HttpConnection
from api.http.kept_heads import KEPT_HEAD_MAX_BYTES, RepeatableRequest
from api.http.limits import HEAD_MAX_BYTES, HttpLimits
from api.shared.connection_gate import ConnectionCounts, ConnectionGate
from api.shared.node_context import NodeContext
from api.shared.quotas import QuotaLimits
from api.shared.tokens import Tokens
from api.shared.turns import LONG_POLLS_AT_ONCE, SMALL_REQUEST_MAX_BYTES, LongPollTurns
from api.shared.write_batch import WriteBatch
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.current_request import commit_origin, current_client
from coordinator_core.state_store.dirty_offsets import UNKNOWN_ORIGIN
from tests.support.no_queries import NO_QUERIES
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, config, running

pytestmark = pytest.mark.anyio

LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n")
OWN_LINES: Final = re.compile(rb"(date|x-request-id): [^\r]*\r\n")
"""The headers that differ between two responses to one request."""
AS_ADA: Final = ("Authorization: Bearer ada's",)


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

    def answer_repeated(self, request: RepeatableRequest, body: bytes, send: Send) -> Coroutine[Any, Any, None] | None:
        self.answered += 1
        return self._answer(request, body, send)


class Wire:
    """A connection to an application."""

    def __init__(self, app: AsgiApp, limits: HttpLimits, *, keeps_heads: bool, max_connections: int = 1) -> None:
        self.repeated = CountingApp(app)
        self.transport = FakeTransport()
        self.read_turns = LongPollTurns()
        self.connection = HttpConnection(
            config=uvicorn.Config(app, lifespan="off", log_config=None, access_log=False),
            server_state=ServerState(),
            app_state={},
            gate=ConnectionGate(max_connections, 1, ConnectionCounts(()), 1),
            limits=limits,
            batch=WriteBatch(),
            read_turns=self.read_turns,
            repeated_requests=self.repeated if keeps_heads else None,
        )
        self.connection.connection_made(self.transport)

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

    def connect(self, *, keeps_heads: bool = True) -> Wire:
        wire = Wire(self.app, self.limits, keeps_heads=keeps_heads)
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


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with serving() as node:
        yield node


def post(path: str, body: object, *headers: str, kind: str = "application/json", host: str = "localhost") -> bytes:
    """Return a request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = (f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Type: {kind}", *headers)
    return "\r\n".join((*lines, f"Content-Length: {len(content)}", "", "")).encode() + content


def heartbeat(member: Member, *headers: str, **more: str) -> bytes:
    body = {"generation": member.generation, "member_id": member.member_id}
    return post(heartbeat_path(member), body, *headers, **more)


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


# -- what is kept ----------------------------------------------------------------------------------------


async def test_heartbeats_and_commits_are_parsed_once(node: Node) -> None:
    first, second = await node.member("first"), await node.member("second")
    wire, parsed = node.connect(), node.connect(keeps_heads=False)
    for offset in range(10, 15):
        for member in (first, second):
            for request in (heartbeat(member), commit(member, offset)):
                assert await wire.ask(request) == await parsed.ask(request)
            (stored,) = await node.coordinator.fetch_offsets(member.group_id, ["t"])
            assert stored.offset == offset
    assert wire.repeated.answered == 4 * 4
    assert parsed.repeated.answered == 0


async def test_a_commit_that_follows_one_of_another_length_is_parsed(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for offset in (1, 2, 10, 11, 1_000, 3):
        assert status(await wire.ask(commit(member, offset))) == 200
        (stored,) = await node.coordinator.fetch_offsets("g", ["t"])
        assert stored.offset == offset
    assert wire.repeated.answered == 2


async def test_requests_that_arrive_in_parts_or_together_are_parsed(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    request = heartbeat(member)
    for _ in range(3):
        assert status(await wire.ask(request[:30], request[30:])) == 200
        assert status(await wire.ask(request[:-1], request[-1:])) == 200
        assert status(await wire.ask(b"\r\n", request[:1], request[1:])) == 200
    wire.repeated.answered = 0
    assert status(await wire.ask(request)) == 200
    for _ in range(2):
        assert status(await wire.ask(request + request + request[:40])) == 200
        assert status(await wire.response()) == 200
        assert status(await wire.ask(request[40:])) == 200
    assert wire.repeated.answered == 0
    assert status(await wire.ask(request)) == 200
    assert wire.repeated.answered == 1


async def test_a_closing_request_with_data_behind_it_is_answered_after_an_upgrade_too(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    assert status(await wire.ask(heartbeat(member, "Connection: Upgrade", "Upgrade: h2c"))) == 200
    assert status(await wire.ask(heartbeat(member, "Connection: close") + heartbeat(member))) == 200
    assert wire.transport.is_closed
    assert not wire.transport.written


async def test_a_body_may_follow_its_kept_head(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for offset in range(10, 15):
        request = commit(member, offset)
        head = len(request) - len(body_of(request))
        assert status(await wire.ask(request[:head], request[head:])) == 200
        assert status(await wire.ask(request[:head], request[head:-1], request[-1:])) == 200
        assert status(await wire.ask(request[:head], request[head:] + request[:head], request[head:])) == 200
        assert status(await wire.response()) == 200
        (stored,) = await node.coordinator.fetch_offsets("g", ["t"])
        assert stored.offset == offset
    assert wire.repeated.answered == 4, "of each round the first, but for the first of all"


async def test_a_body_that_does_not_follow_its_kept_head_in_time_is_refused() -> None:
    async with serving(limits=HttpLimits(body_timeout_ms=50)) as node:
        member, wire = await node.member(), node.connect()
        request = heartbeat(member)
        for _ in range(2):
            assert status(await wire.ask(request)) == 200
        refusal = await wire.ask(request[: len(request) - len(body_of(request))])
        assert status(refusal) == 408
        assert b"the body of the request did not arrive in time" in refusal
        assert wire.transport.is_closed


async def test_a_head_is_not_taken_for_that_of_a_request_behind_it(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    size = len(body_of(commit(member, 10)))
    both = commit(member, 10) + post("/v1/groups/g/heartbeat", body_of(heartbeat(member)).ljust(size))
    for offset, request in ((10, both), (11, commit(member, 11)), (12, commit(member, 12))):
        assert b'"offsets"' in await wire.ask(request)
        (stored,) = await node.coordinator.fetch_offsets("g", ["t"])
        assert stored.offset == offset
        if request is both:
            assert b'"heartbeat_interval_ms"' in await wire.response()


async def test_a_head_is_not_taken_for_that_of_a_request_behind_it_without_its_body(node: Node) -> None:
    """The second request declares so many bytes that the data could be the first head and the second body."""
    first, second = await node.member("first"), await node.member("second")
    wire, parsed = node.connect(), node.connect(keeps_heads=False)
    size = len(body_of(heartbeat(first))) + len(halves(post(heartbeat_path(second), b" " * 100))[0])
    head, body = halves(post(heartbeat_path(second), body_of(heartbeat(second)).ljust(size)))
    padding = size - len(body_of(heartbeat(first))) - len(get("/healthz", ""))
    both = heartbeat(first) + get("/healthz", "x" * padding)
    for parts in ((heartbeat(first) + head, body), (both,)):
        for _ in range(2):
            assert await wire.ask(*parts) == await parsed.ask(*parts)
            assert await wire.response() == await parsed.response()
    assert wire.repeated.answered == 0


@pytest.mark.parametrize("count", [2, 3])
async def test_empty_lines_are_no_head(node: Node, count: int) -> None:
    member, wire, parsed = await node.member(), node.connect(), node.connect(keeps_heads=False)
    lines = b"\r\n" * count
    size = len(lines) - 4 or 100
    for sent in (wire, parsed):
        await sent.ask(post(HEARTBEAT, b"{}".ljust(size)))
        for _ in range(2):
            sent.connection.data_received(lines)
    probe = get("/healthz", "x" * (100 - len(get("/healthz", ""))))
    for request in (probe, heartbeat(member), heartbeat(member)):
        assert await wire.ask(request) == await parsed.ask(request)
    assert wire.repeated.answered == 1


async def test_empty_lines_before_a_head_are_no_head(node: Node) -> None:
    member, wire, parsed = await node.member(), node.connect(), node.connect(keeps_heads=False)
    head, body = halves(post(HEARTBEAT, body_of(heartbeat(member)).ljust(300)))
    part = len(body) - len(head)
    padded = heartbeat(member, f"X-Padding: {'x' * (300 - len(heartbeat(member, 'X-Padding: ')))}")
    for parts in ((b"\r\n\r\n" + head + body[:part], body[part:]), (b"\r\n\r\n" + padded,)):
        for _ in range(2):
            assert await wire.ask(*parts) == await parsed.ask(*parts)
    assert wire.repeated.answered == 0


async def test_empty_lines_between_repeated_requests_are_no_part_of_a_head(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for _ in range(2):
        assert status(await wire.ask(heartbeat(member))) == 200
        wire.connection.data_received(b"\r\n" * (HEAD_MAX_BYTES // 2))
    assert status(await wire.ask(heartbeat(member))) == 200
    assert wire.repeated.answered == 2
    request = commit(member, 1)
    assert status(await wire.ask(request[:40], request[40:])) == 200


async def test_a_body_behind_its_kept_head_is_not_taken_for_a_join(node: Node) -> None:
    wire = node.connect()
    head, body = halves(post(HEARTBEAT, post("/v1/groups/g/join", {})))
    refusal = await wire.ask(head + body)
    for _ in range(LONG_POLLS_AT_ONCE):
        wire.read_turns.begin()
    assert await wire.ask(head, body) == refusal
    assert wire.repeated.answered == 1
    await asyncio.sleep(0.01)
    assert not wire.transport.written


async def test_a_request_behind_one_that_waits_is_answered_after_it(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    assert status(await wire.ask(commit(member, 10))) == 200
    assert status(await wire.ask(heartbeat(member))) == 200
    node.store.go.clear()
    wire.connection.data_received(commit(member, 11))
    wire.connection.data_received(heartbeat(member))
    assert wire.repeated.answered == 1
    for _ in range(20):
        await asyncio.sleep(0)
    assert not wire.transport.written
    node.store.go.set()
    assert b'"offsets"' in await wire.response()
    assert b'"heartbeat_interval_ms"' in await wire.response()


# -- what is refused is refused again ------------------------------------------------------------------------

TARGETS: Final = ("http://localhost", "x", "http://", "*", "http://localhost:99999/v1/groups/g/heartbeat")


@pytest.mark.parametrize("target", TARGETS)
async def test_a_target_that_names_no_path_is_refused(node: Node, target: str) -> None:
    wire, parsed = node.connect(), node.connect(keeps_heads=False)
    assert await wire.ask(post(target, {})) == await parsed.ask(post(target, {}))


BODY: Final = {"generation": 1, "member_id": "m"}
HEARTBEAT: Final = "/v1/groups/g/heartbeat"
REFUSED: Final = {
    "another host": post(HEARTBEAT, BODY, host="evil.example"),
    "another origin": post(HEARTBEAT, BODY, "Origin: http://evil.example"),
    "two hosts": post(HEARTBEAT, BODY, "Host: localhost"),
    "no JSON": post(HEARTBEAT, BODY, kind="text/plain"),
    "no JSON, then JSON": post(HEARTBEAT, BODY, "Content-Type: application/json", kind="text/plain"),
    "compressed": post(HEARTBEAT, BODY, "Content-Encoding: gzip"),
    "query": post(f"{HEARTBEAT}?a=b", BODY),
    "an empty group id": post("/v1/groups//heartbeat", BODY),
    "another method": post(HEARTBEAT, BODY).replace(b"POST", b"PUT"),
    "a forged signature": post(HEARTBEAT, BODY, "X-Muster-Forwarded-For: 192.0.2.1"),
    "no member": post(HEARTBEAT, BODY),
    "no field": post(HEARTBEAT, {"generation": 1}),
    "NUL": post(HEARTBEAT, b'{"generation": 1, "member_id": "\\u0000"}'),
    "no UTF-8": post(HEARTBEAT, b'{"generation": 1, "member_id": "\xff"}'),
    "half a document": post(HEARTBEAT, b"{"),
    "two lengths": post(HEARTBEAT, BODY, "Content-Length: 3"),
    "chunks": post(HEARTBEAT, b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    + b"2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_request_is_refused_again(node: Node, case: str) -> None:
    """Sent three times on a connection that keeps heads, and on one that keeps none."""
    request = REFUSED[case]
    wire, parsed = node.connect(), node.connect(keeps_heads=False)
    for _ in range(3):
        refusal = await wire.ask(request)
        assert status(refusal) >= 400
        assert refusal == await parsed.ask(request)
        if wire.transport.is_closed:
            assert parsed.transport.is_closed
            break


async def test_a_connection_for_health_only_keeps_no_head(node: Node) -> None:
    request = heartbeat(await node.member())
    wire = Wire(node.app, node.limits, keeps_heads=True, max_connections=0)
    assert status(await wire.ask(request)) == 503
    assert wire.transport.is_closed
    wire.connection.data_received(request)
    assert wire.repeated.answered == 0
    wire.connection.connection_lost(None)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda member: heartbeat(member, "Connection: close"),
        lambda member: heartbeat(member, f"X-Long: {'x' * KEPT_HEAD_MAX_BYTES}"),
        lambda member: heartbeat(member, "Expect: 100-continue"),
        lambda member: commit(member, 1, topic="t" * 200).replace(b"HTTP/1.1", b"HTTP/1.0"),
        lambda member: post("/v1/groups/g/offsets/query", {"partitions": []}),
        lambda member: post("/v1/groups/g/leave", {"members": []}),
    ],
)
async def test_other_requests_are_parsed_each_time(node: Node, request_of: Callable[[Member], bytes]) -> None:
    request = request_of(await node.member())
    wire = node.connect()
    assert status(await wire.ask(request)) in {100, 200}
    if not wire.transport.is_closed:
        wire.connection.data_received(request)
    assert wire.repeated.answered == 0


async def test_a_large_commit_is_parsed_each_time(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    offsets = [{"topic": "t", "partition": number, "offset": 1} for number in range(200)]
    body = {"generation": member.generation, "member_id": member.member_id, "offsets": offsets}
    request = post("/v1/groups/g/offsets", body)
    assert len(request) > SMALL_REQUEST_MAX_BYTES
    for _ in range(2):
        assert status(await wire.ask(request)) == 200
    assert wire.repeated.answered == 0


# -- what holds now ------------------------------------------------------------------------------------------


async def test_a_token_that_was_revoked_is_refused(tmp_path: Path) -> None:
    file = TokensFile.written(tmp_path, ADA)
    async with serving(file.read()) as node:
        member, wire = await node.member("a"), node.connect()
        for request in (heartbeat(member, *AS_ADA), commit(member, 10, *AS_ADA)):
            assert status(await wire.ask(request)) == 200
            assert status(await wire.ask(request)) == 200
        assert wire.repeated.answered == 2
        file.write()
        file.clock.now_s += 60
        for request in (heartbeat(member, *AS_ADA), commit(member, 11, *AS_ADA)):
            refusal = await wire.ask(request)
            assert status(refusal) == 401
            assert b"unknown" in refusal
        assert wire.repeated.answered == 4


async def test_a_quota_counts_repeated_requests() -> None:
    async with serving(limits=HttpLimits(quotas=QuotaLimits(group_quota_requests_per_s=1, quota_window_s=3))) as node:
        member, wire = await node.member(), node.connect()
        answered = 0
        while status(await wire.ask(commit(member, 10 + answered))) == 200:
            answered += 1
            assert answered < 80, "the quota refuses"
        assert wire.repeated.answered == answered


async def test_a_removed_member_is_refused(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for _ in range(2):
        assert status(await wire.ask(heartbeat(member))) == 200
    await member.leave()
    assert b"UNKNOWN_MEMBER_ID" in await wire.ask(heartbeat(member))
    assert wire.repeated.answered == 2


async def test_a_node_that_stops_refuses_repeated_requests(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    assert status(await wire.ask(heartbeat(member))) == 200
    node.app.begin_shutdown()
    assert status(await wire.ask(heartbeat(member))) == 503


async def test_a_server_that_stops_answers_a_request_of_which_the_head_has_arrived(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for _ in range(2):
        assert status(await wire.ask(heartbeat(member))) == 200
    head, body = halves(heartbeat(member))
    wire.connection.data_received(head)
    wire.connection.shutdown()
    response = await wire.ask(body)
    assert status(response) == 200
    assert b"connection: close\r\n" in response
    assert wire.transport.is_closed


async def test_the_context_of_the_connection_has_nothing_of_a_request(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for offset in range(10, 13):
        assert status(await wire.ask(commit(member, offset))) == 200
    assert wire.repeated.answered == 2
    assert current_client.get() == ""
    assert commit_origin.get() is UNKNOWN_ORIGIN


async def test_repeated_requests_leave_nothing_to_the_garbage_collector(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    accepted = heartbeat(member)
    member.member_id = "x" * len(member.member_id)
    refused = heartbeat(member)
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            await wire.ask(accepted)
            assert b"UNKNOWN_MEMBER_ID" in await wire.ask(refused)
        garbage = gc.collect()
    finally:
        gc.enable()
    assert wire.repeated.answered == 199
    assert garbage < 100


async def test_a_connection_that_is_closed_is_not_left_to_the_garbage_collector(node: Node) -> None:
    member = await node.member()
    gc.collect()
    gc.disable()
    try:
        wire = Wire(node.app, node.limits, keeps_heads=True)
        for _ in range(2):
            assert status(await wire.ask(heartbeat(member))) == 200
        assert wire.repeated.answered == 1
        connection = ref(wire.connection)
        wire.connection.connection_lost(None)
        del wire
        await asyncio.sleep(0)
        assert connection() is None
    finally:
        gc.enable()
