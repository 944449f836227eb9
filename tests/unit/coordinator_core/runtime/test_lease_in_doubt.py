"""While a lease is in doubt nobody is heard, and so nobody is put out for it; a held group still hears heartbeats.

Each of these was found by the simulation (docs/simulation.md) before it stood here.
"""

import asyncio

import pytest

from coordinator_core.protocol.errors import CoordinatorNotAvailable, RetryError
from coordinator_core.protocol.states import STABLE
from coordinator_core.runtime.act import Act
from coordinator_core.runtime.coordinator import Coordinator
from tests.unit.coordinator_core.runtime.doubtful_lease import FarStore, be_sure_again, put_in_doubt
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, Member, config, running, state_of

pytestmark = pytest.mark.anyio

NO_PAUSE_MS = 10**9
"""No gap in time is taken for a pause of the node's."""
ACT = Act("someone", "a reason", "00000000-0000-4000-8000-000000000001")


async def test_what_is_due_on_a_doubtful_lease_leaves_the_node_running_and_puts_nobody_out() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS), clock) as node:
        member = Member(node, "g")
        member.session_timeout_ms = 5_000
        await member.settle()
        await put_in_doubt(store, clock)
        await be_sure_again(store)
        assert state_of(node, "g") == STABLE
        await member.heartbeat()


async def holding(node: Coordinator, store: FarStore) -> "asyncio.Task[object]":
    """Let an operator's deletion hold the group while it reads."""
    store.go.clear()
    store.is_reading.clear()
    deletion: asyncio.Task[object] = asyncio.create_task(node.operators.delete_offsets("g", "u", None, ACT))
    await asyncio.to_thread(store.is_reading.wait)
    return deletion


async def test_a_held_group_hears_heartbeats() -> None:
    store = FarStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        deletion = await holding(node, store)
        await member.heartbeat()
        assert not deletion.done()
        store.go.set()
        await deletion


async def test_what_waited_for_a_held_group_until_the_lease_was_in_doubt_is_not_decided() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS), clock) as node:
        member = Member(node, "g")
        await member.settle()
        deletion = await holding(node, store)
        commit = asyncio.create_task(member.commit(7))
        await asyncio.sleep(0)
        await put_in_doubt(store, clock)
        store.go.set()
        with pytest.raises(CoordinatorNotAvailable):
            await commit
        with pytest.raises(RetryError):
            await deletion
        assert store.fetch_offsets("g") == []
