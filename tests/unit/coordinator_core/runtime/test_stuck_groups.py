"""A rebalancing group reports the members that it waits for and its deadline, and is counted by duration."""

import asyncio
from dataclasses import replace

import pytest

from coordinator_core.admin.settings import put_settings
from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.views import GroupView
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.callers import LONG_MS, Caller
from tests.unit.coordinator_core.runtime.nodes import QUICK, JumpingClock, a_change, config, running, until

pytestmark = pytest.mark.anyio

STANDING = config(pause_ms=10**9, lease_ttl_ms=10**9)
"""A node whose clock may be put forward."""


def seen(node: Coordinator) -> GroupView:
    view = node.describe("g")
    assert view is not None
    return view


def left_ms(node: Coordinator, clock: JumpingClock) -> int:
    """Return how long the group still waits."""
    until_ms = seen(node).waiting_until_ms
    assert until_ms is not None
    return until_ms - clock.now().wall_ms


@pytest.mark.parametrize("instance", [None, "I"], ids=["dynamic", "static"])
async def test_join_phase_reports_awaited_members_and_deadline(instance: str | None) -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), STANDING, clock) as node:
        first = await Caller(node, instance=instance).settle()
        second = Caller(node)
        joined = asyncio.ensure_future(second.join())
        await until(lambda: seen(node).state == PREPARING, "the phase begins")
        await until(lambda: seen(node).waiting_until_ms is not None, "it is stored, so its time runs")
        assert seen(node).waiting_for == (first.member_id,)
        assert LONG_MS - 5_000 < left_ms(node, clock) <= LONG_MS
        assert [member.parked_request for member in seen(node).members] == [None, "join"]
        await first.settle()
        await joined


@pytest.mark.parametrize("instance", [None, "I"], ids=["dynamic", "static"])
async def test_sync_phase_reports_awaited_members_and_deadline(instance: str | None) -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), STANDING, clock) as node:
        first = Caller(node, instance=instance)
        await first.join()
        assert (seen(node).state, seen(node).waiting_for) == (COMPLETING, (first.member_id,))
        assert LONG_MS - 5_000 < left_ms(node, clock) <= LONG_MS
        await first.sync()
        settled = seen(node)
    assert (settled.state, settled.waiting_for, settled.waiting_until_ms) == (STABLE, (), None)


async def test_initial_delay_waits_until_it_ends() -> None:
    clock = JumpingClock()
    window = replace(STANDING, defaults=replace(QUICK, group_initial_rebalance_delay_ms=30_000))
    async with running(MemoryStore(), window, clock) as node:
        joined = asyncio.ensure_future(Caller(node).join())
        await until(lambda: node.describe("g") is not None, "the group is made")
        await until(lambda: seen(node).waiting_until_ms is not None, "its time runs")
        assert (seen(node).state, seen(node).waiting_for) == (PREPARING, ())
        assert 25_000 < left_ms(node, clock) <= 30_000
        clock.jumped_ms += 30_000
        await joined


async def test_changed_timeout_changes_the_deadline() -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), STANDING, clock) as node:
        await Caller(node).join()
        clock.jumped_ms += 5_000
        await put_settings(node, "g", {"rebalance_timeout_ms": 20_000}, a_change())
        assert 10_000 < left_ms(node, clock) <= 15_000


async def test_groups_are_counted_by_rebalance_duration() -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), STANDING, clock) as node:
        assert node.counts().longest_rebalance_s == 0
        first = Caller(node)
        first.session_ms = first.limit_ms = 1_000_000
        await first.join()
        clock.jumped_ms += 61_000
        counted = node.counts()
        over = {over_s: number for (state, over_s), number in counted.groups.rebalancing.items() if state is COMPLETING}
        await first.sync()
        settled = node.counts()
    assert over == {10: 1, 60: 1, 300: 0, 1_800: 0}
    assert 61 <= counted.longest_rebalance_s < 70
    assert set(settled.groups.rebalancing.values()) == {0}
    assert settled.longest_rebalance_s == 0
