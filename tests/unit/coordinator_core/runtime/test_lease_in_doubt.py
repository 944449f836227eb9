"""While a lease is in doubt requests are refused; a locked group accepts heartbeats. No member is evicted meanwhile.

The simulation (docs/simulation.md) found these bugs, except the eviction of members whose requests wait for a lock.
"""

import asyncio

import pytest

from coordinator_core.admin.changes import Change
from coordinator_core.admin.offsets import delete_offsets
from coordinator_core.protocol.errors import CoordinatorNotAvailable, RetryError
from coordinator_core.protocol.states import EMPTY, STABLE
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.group_context import LOCK_GRACE_MS
from tests.unit.coordinator_core.runtime.doubtful_lease import FarStore, be_sure_again, put_in_doubt
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, Member, config, running, state_of, until

pytestmark = pytest.mark.anyio

NO_PAUSE_MS = 10**9
"""No gap in time is taken for a pause of the node's."""
ACT = Change("someone", "a reason", "00000000-0000-4000-8000-000000000001")


async def test_timer_during_a_doubtful_lease_evicts_no_member() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS), clock) as node:
        member = Member(node, "g")
        member.session_timeout_ms = 30_000
        await member.settle()
        await put_in_doubt(store, clock, by_ms=40_000)
        await be_sure_again(store)
        assert state_of(node, "g") == STABLE
        await member.heartbeat()


async def locked(node: Coordinator, store: FarStore) -> "asyncio.Task[object]":
    """Let an operator's deletion hold the group while it reads."""
    store.go.clear()
    store.is_reading.clear()
    deletion: asyncio.Task[object] = asyncio.create_task(delete_offsets(node, "g", "u", None, ACT))
    await asyncio.to_thread(store.is_reading.wait)
    return deletion


async def test_locked_group_accepts_heartbeats() -> None:
    store = FarStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        deletion = await locked(node, store)
        await member.heartbeat()
        assert not deletion.done()
        store.go.set()
        await deletion


async def test_member_whose_join_waits_for_a_locked_group_is_not_evicted() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS), clock) as node:
        member, other = Member(node, "g"), Member(node, "other")
        member.session_timeout_ms = other.session_timeout_ms = 5_000
        await member.settle()
        await other.settle()
        deletion = await locked(node, store)
        rejoining = asyncio.create_task(member.join())
        clock.jumped_ms += 6_000
        await until(lambda: state_of(node, "other") == EMPTY, "the timers of both members have fired")
        store.go.set()
        await deletion
        await rejoining
        await member.sync((member.member_id, b""))
        clock.jumped_ms += 6_000
        await until(lambda: state_of(node, "g") == EMPTY, "the member is silent, and evicted")


async def test_members_of_a_group_that_operations_keep_locked_are_evicted() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS, lease_ttl_ms=10 * LOCK_GRACE_MS), clock) as node:
        member = Member(node, "g")
        member.session_timeout_ms = 5_000
        await member.settle()
        deletion = await locked(node, store)
        clock.jumped_ms += LOCK_GRACE_MS
        await until(lambda: state_of(node, "g") == EMPTY, "the member is evicted")
        assert not deletion.done()
        store.go.set()
        await deletion


async def test_leave_that_waits_for_a_locked_group_is_carried_out_though_its_client_has_gone() -> None:
    store = FarStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        deletion = await locked(node, store)
        leaving = asyncio.create_task(member.leave())
        await asyncio.sleep(0)
        leaving.cancel()
        store.go.set()
        await deletion
        await until(lambda: state_of(node, "g") == EMPTY, "the member has left")


async def test_request_that_waited_for_a_locked_group_needs_a_valid_lease() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS), clock) as node:
        member = Member(node, "g")
        await member.settle()
        deletion = await locked(node, store)
        commit = asyncio.create_task(member.commit(7))
        await asyncio.sleep(0)
        await put_in_doubt(store, clock)
        store.go.set()
        with pytest.raises(CoordinatorNotAvailable):
            await commit
        with pytest.raises(RetryError):
            await deletion
        assert store.fetch_offsets("g") == []
