"""The ledger of a node records every trigger of a rebalance, with the member and its reason.

Source: tables.md, `rebalances.trigger`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from coordinator_core.admin.groups import force_rebalance
from coordinator_core.admin.topics import put_topic
from coordinator_core.protocol.errors import GroupMaxSizeReached
from coordinator_core.protocol.records import Trigger
from coordinator_core.protocol.states import PREPARING
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.rows import RebalanceRow
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.callers import LONG_MS, Caller, waited_for
from tests.unit.coordinator_core.runtime.nodes import QUICK, JumpingClock, a_change, config, running, state_of, until

pytestmark = pytest.mark.anyio

NEVER = {Trigger.REBALANCE_TIMEOUT}
"""A member that is evicted at the join limit leaves a rebalance in progress."""
STANDING = config(pause_ms=10**9, lease_ttl_ms=10**9)
"""A node whose clock may be put forward."""
LIMIT_MS = 20_000


# -- one play a trigger: each returns the member that the ledger is to name --------------------------------------


async def member_joined(node: Coordinator) -> str | None:
    first, second = await Caller(node).settle(), Caller(node)
    await asyncio.gather(second.join("a new one"), first.settle_again())
    return second.member_id


async def member_left(node: Coordinator) -> str | None:
    first = await Caller(node).settle()
    await first.leave("going home")
    return first.member_id


async def session_expired(node: Coordinator) -> str | None:
    first = await Caller(node).settle()
    return first.member_id


async def sync_timeout(node: Coordinator) -> str | None:
    """Let a follower not fetch what the leader assigned."""
    first, second = await Caller(node).settle(), Caller(node)
    first.limit_ms = second.limit_ms = LIMIT_MS
    await asyncio.gather(second.join(), first.settle_again())
    return second.member_id


async def subscription_changed(node: Coordinator) -> str | None:
    first = await Caller(node).settle()
    first.topics = ("t", "u")
    await first.settle("subscription has changed")
    return first.member_id


async def leader_rejoined(node: Coordinator) -> str | None:
    first = await Caller(node).settle()
    await first.settle("metadata has changed")
    return first.member_id


async def static_member_replaced(node: Coordinator) -> str | None:
    """Let a static member come back preferring another assignor; else there is nothing to rebalance."""
    await Caller(node, instance="I").settle()
    again = Caller(node, instance="I")
    again.assignors = ("roundrobin", "range")
    await again.settle("restarted")
    return again.member_id


async def partitions_changed(node: Coordinator) -> str | None:
    first = await Caller(node).settle()
    await put_topic(node, "t", 8, None, a_change())
    await first.settle_again()
    return None


async def admin(node: Coordinator) -> str | None:
    first = await Caller(node).settle()
    await force_rebalance(node, "g", a_change())
    await first.settle_again()
    return None


Play = Callable[[Coordinator], Awaitable[str | None]]
PLAYS: dict[Trigger, tuple[Play, str | None]] = {
    Trigger.MEMBER_JOINED: (member_joined, "a new one"),
    Trigger.MEMBER_LEFT: (member_left, "going home"),
    Trigger.SESSION_EXPIRED: (session_expired, None),
    Trigger.SYNC_TIMEOUT: (sync_timeout, None),
    Trigger.SUBSCRIPTION_CHANGED: (subscription_changed, "subscription has changed"),
    Trigger.LEADER_REJOINED: (leader_rejoined, "metadata has changed"),
    Trigger.STATIC_MEMBER_REPLACED: (static_member_replaced, "restarted"),
    Trigger.PARTITIONS_CHANGED: (partitions_changed, None),
    Trigger.ADMIN: (admin, "because"),
}


PASSING_MS = {Trigger.SESSION_EXPIRED: LONG_MS, Trigger.SYNC_TIMEOUT: LIMIT_MS}
"""The time that passes after a play."""


def rebalances_by(store: MemoryStore, trigger: Trigger) -> list[RebalanceRow]:
    """Return the rebalances that this began, but for the one that made the group."""
    return [row for row in store.history.rebalances[1:] if row.trigger == trigger]


@pytest.mark.parametrize("trigger", PLAYS)
async def test_ledger_records_the_trigger_of_a_rebalance(trigger: Trigger) -> None:
    play, reason = PLAYS[trigger]
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, STANDING, clock) as node:
        member_id = await play(node)
        clock.jumped_ms += PASSING_MS.get(trigger, 0)
        if trigger is Trigger.SYNC_TIMEOUT:
            await until(lambda: state_of(node, "g") == PREPARING, "the follower is evicted")
            clock.jumped_ms += LIMIT_MS  # The leader does not join again.
        await until(lambda: bool(rebalances_by(store, trigger)), "it is recorded")
    (row,) = rebalances_by(store, trigger)
    assert (row.trigger_member_id, row.client_reason) == (member_id, reason)
    assert row.started_at_ms <= row.completed_at_ms


async def test_loaded_group_over_capacity_rebalances() -> None:
    store = MemoryStore()
    async with running(store) as node:
        first, second = await Caller(node).settle(), Caller(node)
        await asyncio.gather(second.join(), first.settle_again())
        await second.sync()
    async with running(store, config("b", replace(QUICK, group_max_size=1))) as other:
        first.node = second.node = other
        settled = asyncio.ensure_future(first.settle_again())
        await until(lambda: waited_for(other) == (second.member_id,), "the second is waited for")
        with pytest.raises(GroupMaxSizeReached):
            await second.join()
        await settled
    (row,) = rebalances_by(store, Trigger.OVER_CAPACITY)
    assert (row.trigger_member_id, row.member_count_before) == (None, 2)


def test_every_other_trigger_begins_no_rebalance() -> None:
    mirrored = {Trigger.MEMBER_LEFT_OR_EXPIRED, Trigger.UNKNOWN}
    elsewhere = {Trigger.OVER_CAPACITY, Trigger.DATABASE_RESTORED, *mirrored}
    assert {*PLAYS, *elsewhere} == set(Trigger) - NEVER


async def test_eviction_at_the_join_timeout_is_recorded_in_the_open_rebalance() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, STANDING, clock) as node:
        first, second, third = (Caller(node) for _ in range(3))
        first.limit_ms = second.limit_ms = third.limit_ms = LIMIT_MS
        await first.settle()
        await asyncio.gather(second.join(), first.settle_again())
        await second.sync()
        joining = asyncio.gather(third.join(), first.join())
        await until(lambda: waited_for(node) == (second.member_id,), "the second is waited for")
        clock.jumped_ms += LIMIT_MS
        await joining
        await first.sync()
    row = store.history.rebalances[-1]
    assert (row.trigger, row.outcome, row.member_count_before, row.member_count_after) == (
        "member_joined",
        "completed",
        2,
        2,
    )
    parts = {part.member_id: part for part in store.history.rebalance_members if part.rebalance_id == row.rebalance_id}
    assert {name: part.outcome for name, part in parts.items()} == {
        first.member_id: "joined",
        second.member_id: "evicted",
        third.member_id: "joined",
    }
    assert max(parts.values(), key=lambda part: part.waited_for_ms or 0).member_id == second.member_id
    ends = [(session.member_id, session.end_reason) for session in store.history.sessions]
    assert ends == [(second.member_id, "rebalance_timeout")]
