"""Deadlines fire by themselves, and time in which the loop did not run is nobody's silence."""

import asyncio

import pytest

from coordinator_core.protocol.errors import UnknownMemberId
from coordinator_core.protocol.settings import Now
from coordinator_core.protocol.states import EMPTY, STABLE
from coordinator_core.runtime.clock import SystemClock
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.store.memory import MemoryStore
from tests.runtime.nodes import Member, config, running, until

pytestmark = pytest.mark.anyio


class JumpingClock:
    """The machine's clock, and jumps on top of it, as after a process was stopped."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.jumped_ms = 0

    def now(self) -> Now:
        now = self._clock.now()
        return Now(now.node_ms + self.jumped_ms, now.wall_ms + self.jumped_ms)


def state_of(node: Coordinator, group_id: str) -> str | None:
    view = node.describe(group_id)
    return None if view is None else view.state


async def test_a_silent_group_empties_though_nobody_asks() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        member.session_timeout_ms = 30
        await member.settle()
        await until(lambda: state_of(node, "g") == EMPTY, "the silent member is put out")
        with pytest.raises(UnknownMemberId):
            await member.heartbeat()


async def test_a_pause_of_the_node_puts_nobody_out() -> None:
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
