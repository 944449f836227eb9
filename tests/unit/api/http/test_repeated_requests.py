"""Requests whose heads a connection has kept: each is answered as if it were parsed, and judged by what holds now."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.http.kept_heads import ANSWERED_AT_ONCE, KEPT_HEAD_MAX_BYTES, RepeatedBatch
from api.http.limits import HEAD_MAX_BYTES, HttpLimits
from api.shared.quotas import QuotaLimits
from api.shared.tokens import TOKEN_ID_CHARS, Tokens
from api.shared.turns import SMALL_REQUEST_MAX_BYTES
from coordinator_core.runtime.current_request import commit_origin, current_client
from coordinator_core.state_store.dirty_offsets import UNKNOWN_ORIGIN, CommitOrigin
from tests.support.tokens_file import ADA, Clock, TokensFile
from tests.unit.api.http.wire import (
    Node,
    Wire,
    body_of,
    commit,
    get,
    halves,
    heartbeat,
    heartbeat_path,
    join,
    post,
    serving,
    status,
    sync,
)
from tests.unit.coordinator_core.runtime.nodes import Member, until

pytestmark = pytest.mark.anyio

AS_ADA: Final = ("Authorization: Bearer ada's",)

Pieces = list[tuple[bytes, int]]
"""What arrives in one read, and how many turns of the event loop come before the next one."""


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with serving() as node:
        yield node


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


async def test_a_head_that_has_arrived_by_itself_is_kept(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for offset in range(10, 15):
        head, body = halves(commit(member, offset))
        assert status(await wire.ask(head, body)) == 200
        (stored,) = await node.coordinator.fetch_offsets("g", ["t"])
        assert stored.offset == offset
    assert wire.repeated.answered == 0
    assert status(await wire.ask(commit(member, 15))) == 200
    assert wire.repeated.answered == 1


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


@pytest.mark.parametrize("begun", [b"GET /healthz HTTP/1.1\r\nX-Padding: ", b"GET /"])
async def test_what_looks_like_a_kept_request_may_be_part_of_another_one(node: Node, begun: bytes) -> None:
    member, wire, parsed = await node.member(), node.connect(), node.connect(keeps_heads=False)
    request = heartbeat(member)
    for sent in (wire, parsed):
        assert status(await sent.ask(request)) == 200
    assert await wire.ask(begun, request) == await parsed.ask(begun, request)
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


async def test_a_request_behind_one_that_waits_is_answered_after_it(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    assert status(await wire.ask(commit(member, 10))) == 200
    assert status(await wire.ask(heartbeat(member))) == 200
    node.store.go.clear()
    wire.connection.data_received(commit(member, 11))
    wire.connection.data_received(heartbeat(member))
    for _ in range(20):
        await asyncio.sleep(0)
    assert wire.repeated.answered == 1
    assert not wire.transport.written
    node.store.go.set()
    assert b'"offsets"' in await wire.response()
    assert b'"heartbeat_interval_ms"' in await wire.response()


async def test_a_head_is_not_kept_with_the_request_that_it_waits_behind(node: Node) -> None:
    first, second, wire = await node.member("first"), await node.member("second"), node.connect()
    assert status(await wire.ask(heartbeat(first))) == 200
    for each in (first, second, first):
        wire.connection.data_received(heartbeat(each))
    await until(wire.is_idle, "all is answered")
    wire.take()
    assert status(await wire.ask(heartbeat(first))) == 200


async def test_requests_that_arrive_together_are_answered_in_one_callback(node: Node) -> None:
    member, batch = await node.member(), RepeatedBatch()
    wires = [node.connect(batch=batch) for _ in range(3)]
    for wire in wires:
        assert status(await wire.ask(heartbeat(member))) == 200
    for wire in wires:
        wire.connection.data_received(heartbeat(member))
        assert not any(each.repeated.answered for each in wires)
    await asyncio.sleep(0)
    assert all(each.repeated.answered for each in wires)


async def test_so_many_requests_do_not_wait_for_more() -> None:
    batch, answered = RepeatedBatch(), list[int]()
    for number in range(ANSWERED_AT_ONCE + 1):
        batch.add(partial(answered.append, number))
    assert answered == list(range(ANSWERED_AT_ONCE))
    await asyncio.sleep(0)
    assert answered == list(range(ANSWERED_AT_ONCE + 1))


async def test_a_bug_ends_the_connection_of_its_request_only(node: Node) -> None:
    member, batch = await node.member(), RepeatedBatch()
    faulty, wire = node.connect(batch=batch), node.connect(batch=batch)
    for each in (faulty, wire):
        assert status(await each.ask(heartbeat(member))) == 200
    faulty.repeated.failure = LookupError("a bug")
    faulty.connection.data_received(heartbeat(member))
    assert status(await wire.ask(heartbeat(member))) == 200
    assert (faulty.transport.is_closed, wire.transport.is_closed) == (True, False)


async def test_a_request_is_answered_before_its_connection_ends(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    assert status(await wire.ask(heartbeat(member))) == 200
    wire.connection.data_received(heartbeat(member))
    wire.connection.eof_received()
    assert status(wire.take()) == 200


async def test_a_connection_with_a_request_is_not_idle(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    assert status(await wire.ask(heartbeat(member))) == 200
    wire.connection.timeout_keep_alive = 0
    wire.connection.data_received(heartbeat(member))
    wire.connection._check_idle()
    assert status(await wire.response()) == 200
    assert not wire.transport.is_closed


def requests_of(first: Member, second: Member) -> list[bytes]:
    """Return requests, some of which are kept; they have the same responses each time."""
    refused = Member(first.node, first.group_id)
    refused.member_id = "unknown"
    chunks = post(heartbeat_path(first), b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    return [
        heartbeat(first),
        heartbeat(second),
        heartbeat(first, "X-Another: head"),
        commit(first, 10),
        commit(first, 11),
        commit(second, 7),
        join(refused),
        sync(first),
        get("/healthz", ""),
        post(heartbeat_path(first), post("/v1/groups/g/join", {})),
        post("http://localhost" + heartbeat_path(first), body_of(heartbeat(first))),
        heartbeat(first, "Connection: Upgrade", "Upgrade: h2c"),
        heartbeat(first, "Connection: close"),
        chunks + b"2\r\n{}\r\n0\r\nX: y\r\n\r\n",
        post(heartbeat_path(second), body_of(heartbeat(second)).ljust(len(body_of(commit(first, 10))))),
    ]


@st.composite
def streams(draw: st.DrawFn, requests: list[bytes]) -> Pieces:
    """Return a few of the requests, each of them often, as they may arrive."""
    few = draw(st.lists(st.sampled_from(requests), min_size=1, max_size=3))
    pieces: list[bytes] = [b""]
    for each in draw(st.lists(st.sampled_from(few), min_size=4, max_size=16)):
        head, body = halves(each)
        cut = draw(st.integers(1, len(each) - 1))
        parts = draw(st.sampled_from(((each,), (each,), (each,), (head, body), (each[:cut], each[cut:]))))
        is_joined = draw(st.sampled_from((False, False, False, True)))
        pieces[-1:] = [pieces[-1] + parts[0]] if is_joined else [pieces[-1], parts[0]]
        pieces += [*parts[1:], *draw(st.sampled_from(((), (), (), (b"\r\n",), (b"\r\n\r\n",))))]
    return [(piece, draw(st.sampled_from((0, 50)))) for piece in pieces if piece]


async def responses_to(wire: Wire, pieces: Pieces, *, is_busy: bool) -> bytes:
    """Return all responses to what arrives in these pieces; a busy node holds joins and syncs back."""
    for piece, turns in pieces:
        if wire.transport.is_closed:
            break
        if is_busy:
            wire.take_read_turns()
        wire.connection.data_received(piece)
        for _ in range(turns):
            await asyncio.sleep(0)
    await until(wire.is_idle, "all is answered")
    await asyncio.sleep(0)  # what was written in the last turn is sent
    return wire.take()


def test_responses_are_those_of_a_connection_that_keeps_no_heads() -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        node = runner.run(stack.enter_async_context(serving()))
        members = [runner.run(node.member(group_id)) for group_id in ("first", "second")]
        answered = []

        async def check(pieces: Pieces, *, is_busy: bool) -> None:
            wire, parsed = node.connect(), node.connect(keeps_heads=False)
            expected = await responses_to(parsed, pieces, is_busy=is_busy)
            assert await responses_to(wire, pieces, is_busy=is_busy) == expected
            assert wire.transport.is_closed == parsed.transport.is_closed
            answered.append(wire.repeated.answered)

        @settings(max_examples=200, deadline=None)
        @given(pieces=streams(requests_of(*members)), is_busy=st.booleans())
        def run(pieces: Pieces, *, is_busy: bool) -> None:
            runner.run(check(pieces, is_busy=is_busy))

        try:
            run()
        finally:
            runner.run(stack.aclose())
    assert any(answered), "some requests are repeated"


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
    ],
)
async def test_other_requests_are_parsed_each_time(node: Node, request_of: Callable[[Member], bytes]) -> None:
    request = request_of(await node.member())
    wire = node.connect()
    assert status(await wire.ask(request)) in {100, 200}
    if not wire.transport.is_closed:
        wire.connection.data_received(request)
        await asyncio.sleep(0)
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


async def test_a_token_that_loses_a_permission_is_refused(tmp_path: Path) -> None:
    file = TokensFile.written(tmp_path, ADA)
    async with serving(file.read()) as node:
        member, wire = await node.member("a"), node.connect()
        for _ in range(3):
            assert status(await wire.ask(heartbeat(member, *AS_ADA))) == 200
        file.write({**ADA, "role": "viewer"})
        file.clock.now_s += 60
        for _ in range(2):
            assert status(await wire.ask(heartbeat(member, *AS_ADA))) == 403
        file.write(ADA)
        file.clock.now_s += 60
        for _ in range(2):
            assert status(await wire.ask(heartbeat(member, *AS_ADA))) == 200
        assert wire.repeated.answered == 6


async def test_a_token_that_expires_is_refused(tmp_path: Path) -> None:
    file = TokensFile.written(tmp_path, {**ADA, "expires_at": "1970-01-02T00:00:00Z"})
    wall = Clock()
    async with serving(Tokens(file.path, file.clock, wall)) as node:
        member, wire = await node.member("a"), node.connect()
        for _ in range(3):
            assert status(await wire.ask(heartbeat(member, *AS_ADA))) == 200
        wall.now_s = 86_400
        assert status(await wire.ask(heartbeat(member, *AS_ADA))) == 401
        assert wire.repeated.answered == 3


async def test_repeated_commits_name_their_client_and_token(tmp_path: Path) -> None:
    async with serving(TokensFile.written(tmp_path, ADA).read()) as node:
        member, wire = await node.member("a"), node.connect()
        for offset in range(10, 13):
            assert status(await wire.ask(commit(member, offset, *AS_ADA, topic=f"topic-{offset}"))) == 200
        assert wire.repeated.answered == 2
        offsets = [shard.offsets for shard in node.coordinator._ownership.owned.values() if shard.offsets.size]
        assert [set(each.sizes) for each in offsets] == [{"ada"}]
        origins = {commit.origin for each in offsets for commit, _ in each.take(1, 10).dirty.all()}
        for each in offsets:
            each.put_back()
        assert origins == {CommitOrigin(ADA["sha256"][:TOKEN_ID_CHARS], "127.0.0.1")}


async def test_a_quota_counts_repeated_requests() -> None:
    async with serving(limits=HttpLimits(quotas=QuotaLimits(group_quota_requests_per_s=1, quota_window_s=3))) as node:
        member, wire = await node.member(), node.connect()
        answered = 0
        while status(await wire.ask(commit(member, 10 + answered))) == 200:
            answered += 1
            assert answered < 80, "the quota refuses"
        assert wire.repeated.answered == answered


async def test_a_commit_that_is_not_stored_in_time_is_refused() -> None:
    async with serving(limits=HttpLimits(request_timeout_ms=100)) as node:
        member, wire = await node.member(), node.connect()
        assert status(await wire.ask(commit(member, 10))) == 200
        node.store.go.clear()
        try:
            assert b"no answer within 100 ms" in await wire.ask(commit(member, 11))
        finally:
            node.store.go.set()
        assert status(await wire.ask(commit(member, 12))) == 200
        assert wire.repeated.answered == 2


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


async def test_the_context_of_the_connection_has_nothing_of_a_request(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    for offset in range(10, 13):
        assert status(await wire.ask(commit(member, offset))) == 200
    assert wire.repeated.answered == 2
    assert current_client.get() == ""
    assert commit_origin.get() is UNKNOWN_ORIGIN


async def test_repeated_requests_leave_nothing_to_the_garbage_collector(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    accepted, stored = heartbeat(member), commit(member, 10)
    member.member_id = "x" * len(member.member_id)
    refused = heartbeat(member)
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            await wire.ask(accepted)
            assert b"UNKNOWN_MEMBER_ID" in await wire.ask(refused)
            assert status(await wire.ask(stored)) == 200
        garbage = gc.collect()
    finally:
        gc.enable()
    assert wire.repeated.answered == 298
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
