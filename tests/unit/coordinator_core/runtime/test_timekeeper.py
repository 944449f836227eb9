"""Deadlines fire without requests, and pauses of the event loop evict no member."""

import asyncio
from uuid import uuid4

import pytest

from coordinator_core.admin.changes import Change
from coordinator_core.admin.settings import put_settings
from coordinator_core.protocol.errors import UnknownMemberId
from coordinator_core.protocol.states import EMPTY, STABLE
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, Member, config, running, state_of, until

pytestmark = pytest.mark.anyio


async def test_silent_group_becomes_empty_without_requests() -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), config(pause_ms=10**9, lease_ttl_ms=10**9), clock) as node:
        member = Member(node, "g")
        await member.settle()
        clock.jumped_ms += member.session_timeout_ms
        await until(lambda: state_of(node, "g") == EMPTY, "the silent member is evicted")
        with pytest.raises(UnknownMemberId):
            await member.heartbeat()


@pytest.mark.parametrize("in_force_ms", [6_000, 1_800_000])
async def test_a_live_change_of_the_session_timeout_does_not_move_the_last_heartbeat(in_force_ms: int) -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), config(pause_ms=10**9, lease_ttl_ms=10**9), clock) as node:
        member = Member(node, "g")
        await member.settle()
        await member.heartbeat()
        before_ms = last_heartbeat_ms(node)
        clock.jumped_ms += 5_000
        await put_settings(node, "g", {"session_timeout_ms": in_force_ms}, Change("ada", "a test", str(uuid4())))
        assert abs(last_heartbeat_ms(node) - before_ms) < 1_000
        await member.heartbeat()
        assert 4_000 < last_heartbeat_ms(node) - before_ms < 7_000


def last_heartbeat_ms(node: Coordinator) -> int:
    view = node.describe("g")
    assert view is not None
    (member,) = view.members
    assert member.last_heartbeat_at_ms is not None
    return member.last_heartbeat_at_ms


async def test_pause_of_the_node_evicts_no_member() -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), config(lease_ttl_ms=60_000), clock) as node:
        member = Member(node, "g")
        member.session_timeout_ms = 2_000
        await member.settle()
        clock.jumped_ms += 5_000
        fired = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, fired.set)
        await fired.wait()
        assert state_of(node, "g") == STABLE
        await member.heartbeat()
