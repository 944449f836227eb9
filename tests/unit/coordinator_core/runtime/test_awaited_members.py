"""A node stores the members that a long rebalance waits for, when they change, and clears them with the phase."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coordinator_core.runtime.coordinator import Coordinator
from tests.support.memory_store import MemoryStore
from tests.support.store_rows import loaded
from tests.unit.coordinator_core.runtime.callers import Caller
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, config, running, state_of, until

pytestmark = pytest.mark.anyio

AFTER_MS = 5_000
STANDING = config(pause_ms=10**9, lease_ttl_ms=10**9, awaited_members_after_ms=AFTER_MS)
"""A node whose clock may be put forward."""


def stored(store: MemoryStore) -> Any:  # noqa: ANN401 - JSON
    """Return what the group's row says of awaited members."""
    (group,) = loaded(store, range(50))
    return group.group.awaited_members


def ids(awaited: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [member["member_id"] for member in awaited["members"]]


def awaits(store: MemoryStore, phase: str, *members: Caller) -> bool:
    """Return whether these members are stored as awaited, in this order."""
    awaited = stored(store)
    return awaited is not None and (awaited["phase"], ids(awaited)) == (phase, [each.member_id for each in members])


async def a_pair(node: Coordinator) -> tuple[Caller, Caller]:
    """Make a stable group of two."""
    first, second = await Caller(node).settle(), Caller(node)
    await asyncio.gather(second.join(), first.settle_again())
    await second.sync()
    return first, second


async def test_the_members_that_have_not_joined_are_stored_and_followed() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, STANDING, clock) as node:
        first, second = await a_pair(node)
        third = asyncio.ensure_future(Caller(node).join())
        await until(lambda: state_of(node, "g") == "PreparingRebalance", "the join phase begins")
        await asyncio.sleep(0)
        assert stored(store) is None, "the rebalance is young"
        clock.jumped_ms += AFTER_MS
        await until(lambda: awaits(store, "join", first, second), "both members are awaited")
        described = node.describe("g")
        assert described is not None
        assert stored(store) == {
            "phase": "join",
            "since_ms": described.state_since_ms,
            "count": 2,
            "members": [
                {"member_id": each, "group_instance_id": None, "client_id": "c", "client_host": "/127.0.0.1"}
                for each in (first.member_id, second.member_id)
            ],
        }
        joined = asyncio.ensure_future(second.join())
        await until(lambda: awaits(store, "join", first), "one of them has joined")
        await first.join()
        await asyncio.gather(joined, third)
        await until(lambda: awaits(store, "sync", *sync_order(node)), "the sync phase waits for all, leader first")
        await first.sync()
        await until(lambda: state_of(node, "g") == "Stable", "the leader has synced")
        await until(lambda: stored(store) is None, "no phase is under way")


def sync_order(node: Coordinator) -> list[Caller]:
    view = node.describe("g")
    assert view is not None
    callers = []
    for member_id in view.waiting_for:
        caller = Caller(node)
        caller.member_id = member_id
        callers.append(caller)
    assert view.waiting_for[0] == view.leader_id
    return callers


async def test_a_removed_member_is_no_longer_stored_as_awaited() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, STANDING, clock) as node:
        first, second = await a_pair(node)
        joining = asyncio.ensure_future(Caller(node).join())
        await until(lambda: state_of(node, "g") == "PreparingRebalance", "the join phase begins")
        clock.jumped_ms += AFTER_MS
        await until(lambda: awaits(store, "join", first, second), "both members are awaited")
        await second.leave()
        assert awaits(store, "join", first), "the write that removes the member says so"
        await first.join()
        await joining


async def test_awaited_members_are_updated_after_a_failover() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, STANDING, clock) as node:
        first, second = await Caller(node).settle(), Caller(node)
        joining = asyncio.ensure_future(second.join())
        await until(lambda: state_of(node, "g") == "PreparingRebalance", "the join phase begins")
        await first.join()
        await joining
        parked = asyncio.ensure_future(second.sync())
        clock.jumped_ms += AFTER_MS
        await until(lambda: awaits(store, "sync", first), "the leader is awaited")
    await asyncio.gather(parked, return_exceptions=True)
    async with running(store, replace(STANDING, node_id="b"), clock) as node:
        await until(lambda: awaits(store, "sync", first, second), "the parked sync is forgotten")
        first.node = node
        await first.sync()
        assert stored(store) is None


async def test_forgotten_join_phase_awaits_no_member_after_a_failover() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, STANDING, clock) as node:
        first = await Caller(node).settle()
        joining = asyncio.ensure_future(Caller(node).join())
        await until(lambda: state_of(node, "g") == "PreparingRebalance", "the join phase begins")
        clock.jumped_ms += AFTER_MS
        await until(lambda: awaits(store, "join", first), "the member is awaited")
    await asyncio.gather(joining, return_exceptions=True)
    async with running(store, replace(STANDING, node_id="b"), clock) as node:
        await until(lambda: state_of(node, "g") == "Stable", "the group is what it was")
        await until(lambda: stored(store) is None, "it waits for no member")
