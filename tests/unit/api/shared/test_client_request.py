"""A heartbeat of a listener of another wire protocol, from what listeners share alone."""

import asyncio
import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from api.shared.authorization import REQUEST_RULES, authorize
from api.shared.client_request import MAX_THROTTLE_S, ClientRequest
from api.shared.errors import NO_ERROR, GroupAuthorizationFailed
from api.shared.identity import Identity, Role
from api.shared.limits import ListenerLimits
from api.shared.member_ids import new_member_id
from api.shared.node_context import NodeContext
from api.shared.tokens import Tokens
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.requests import Heartbeat
from coordinator_core.protocol.responses import HeartbeatResponse
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.repository import ROOT
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, config, running

pytestmark = pytest.mark.anyio

HTTP_MODULES = ("aiohttp", "api.http", "http", "httptools", "litestar", "uvicorn")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    path = tmp_path / "tokens.json"
    entry = {"sha256": sha256(b"password").hexdigest(), "actor": "ada", "role": "agent", "prefixes": ["g"]}
    path.write_text(json.dumps({"tokens": [entry]}))
    return Tokens(path)


async def test_a_heartbeat_has_an_identity_a_quota_a_deadline_and_a_metric(tokens: Tokens) -> None:
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits(), tokens)
        member = Member(coordinator, "g")
        await member.settle()
        request = ClientRequest(node, "192.0.2.7")
        request.request, request.group_id = "Heartbeat", "g"
        request.identity = tokens.find(b"password")

        authorize(request.identity, REQUEST_RULES["Heartbeat"], request.group_id)
        request.reserve_body_bytes(100)
        heartbeat = Heartbeat(coordinator.new_token(), member.generation, member.member_id, None)
        answer = await request.coordinate("g", heartbeat, HeartbeatResponse)
        node.metrics.count(request.request, NO_ERROR, took_s=0.001)

        assert answer.session_timeout_ms == member.session_timeout_ms
        assert sum(node.metrics.times_s["Heartbeat"].counts) == 1
        with pytest.raises(GroupAuthorizationFailed):
            authorize(request.identity, REQUEST_RULES["Heartbeat"], "another")


async def test_a_request_that_waits_too_long_fails_at_its_deadline() -> None:
    store = HeldStore()
    async with running(store) as coordinator:
        request = ClientRequest(NodeContext(coordinator, NO_QUERIES, ListenerLimits(request_timeout_ms=10)), "")
        store.go.clear()
        try:
            with pytest.raises(CoordinatorNotAvailable, match="no answer within 10 ms"):
                await request.with_deadline(Member(coordinator, "g").join())
        finally:
            store.go.set()


async def test_the_actor_of_a_change_is_that_of_the_token() -> None:
    request = ClientRequest(NodeContext(Coordinator(MemoryStore(), config()), NO_QUERIES, ListenerLimits()), "")
    assert request.authenticated_actor("olga") == "olga"
    request.identity = Identity("ada", Role.OPERATOR)
    assert request.authenticated_actor(None) == request.authenticated_actor("ada") == "ada"
    assert request.authenticated_actor("olga") == "ada (olga)"


def test_what_listeners_share_loads_no_module_of_http() -> None:
    modules = sorted(f"api.shared.{path.stem}" for path in (ROOT / "api" / "shared").glob("[!_]*.py"))
    assert new_member_id.__module__ in modules
    code = f"import sys, {', '.join(modules)}; print([each for each in {HTTP_MODULES} if each in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert loaded.stdout.strip() == "[]"


async def test_a_request_whose_refusal_is_delayed_has_no_turn() -> None:
    async with running(MemoryStore()) as coordinator:
        request = ClientRequest(NodeContext(coordinator, NO_QUERIES, ListenerLimits()), "192.0.2.1")
        request.identify_client()
        await request.begin_turn(10_000)
        refusal = asyncio.create_task(request.throttle(MAX_THROTTLE_S))
        await asyncio.sleep(0)
        assert not request.turn_bytes
        refusal.cancel()


async def test_large_responses_begin_in_turn_and_small_ones_at_once() -> None:
    async with running(MemoryStore()) as coordinator:
        node = NodeContext(coordinator, NO_QUERIES, ListenerLimits())
        first, second, small = (ClientRequest(node, f"192.0.2.{number}") for number in range(3))
        for request in (first, second, small):
            request.identify_client()
        await first.begin_turn(10_000)
        assert (first.turn_bytes, first.rest_bytes) == (10_000, 10_000)
        await first.begin_response(10_000)
        assert first.turn_bytes == 16 * first.rest_bytes == 5_120_000
        waiting = asyncio.create_task(second.begin_response(1_000))
        await small.begin_response(8)
        assert not waiting.done()
        first.shrink_response(100)
        assert first.turn_bytes == 16 * first.rest_bytes == 51_200
        await waiting
        first.end_turn()
        second.end_turn()
        await node.large_request_turns.begin("another", 10**9)
