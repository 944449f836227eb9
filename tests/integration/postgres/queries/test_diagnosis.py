"""A diagnosis of a group that a node has served."""

import asyncio
from contextlib import suppress

import pytest

from coordinator_core.admin.settings import put_settings
from coordinator_core.protocol.errors import GroupIdNotFound, RebalanceInProgress
from coordinator_core.protocol.requests import Heartbeat
from coordinator_core.queries.diagnosis import WINDOW_MS, Finding, diagnose
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.postgres import PostgresStore
from tests.support.store_rows import NOW_MS
from tests.support.store_worlds import Query
from tests.unit.coordinator_core.runtime.callers import Caller, waited_for
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, a_change, config, running, until

pytestmark = pytest.mark.anyio

STANDING = config(pause_ms=10**9, lease_ttl_ms=10**9)


async def heartbeat(member: Caller) -> None:
    with suppress(RebalanceInProgress):
        await member.node.submit("g", Heartbeat(member.node.new_token(), member.generation, member.member_id))


async def missed_rebalance(node: Coordinator, clock: JumpingClock, *, heartbeats: bool) -> tuple[Caller, Caller]:
    """Let a member miss a rebalance timeout of ten seconds; return it, and the one that joined in time."""
    await put_settings(node, "g", {"rebalance_timeout_ms": 10_000}, a_change())
    late = await Caller(node).settle()
    await heartbeat(late)
    for _ in range(3):
        clock.jumped_ms += 2_000
        await heartbeat(late)
    prompt = Caller(node, client_id="prompt")  # else it would be a new process of the same client
    joining = asyncio.ensure_future(prompt.settle())
    await until(lambda: waited_for(node) == (late.member_id,), "the group waits for it")
    for _ in range(4):
        clock.jumped_ms += 2_400
        if heartbeats:
            await heartbeat(late)
    clock.jumped_ms += 500
    await joining
    return late, prompt


def diagnosed(query: Query, node: Coordinator) -> list[Finding]:
    return query(diagnose, "g", node.metadata_cache.effective_settings("g"), node.wall_ms())


async def test_a_live_member_that_misses_a_rebalance_is_not_called_dead(
    postgres_store: PostgresStore, query: Query
) -> None:
    clock = JumpingClock()
    async with running(postgres_store, STANDING, clock) as node:
        late, prompt = await missed_rebalance(node, clock, heartbeats=True)
        late.member_id, gone_id = "", late.member_id
        clock.jumped_ms += 1_000
        await asyncio.gather(late.join(), prompt.settle_again())
        (finding,) = diagnosed(query, node)
        assert gone_id not in finding.text
        assert finding.kind == "late_join"
        assert "although it was alive" in finding.text
        assert "set for this group by test at" in finding.text
        assert finding.value_ms is not None
        clock.jumped_ms += WINDOW_MS
        assert diagnosed(query, node) == []


async def test_member_that_becomes_silent_in_a_rebalance_is_called_dead(
    postgres_store: PostgresStore, query: Query
) -> None:
    clock = JumpingClock()
    async with running(postgres_store, STANDING, clock) as node:
        await missed_rebalance(node, clock, heartbeats=False)
        (finding,) = diagnosed(query, node)
    assert finding.kind == "silent"


def test_an_unknown_group_is_refused(query: Query) -> None:
    with pytest.raises(GroupIdNotFound):
        query(diagnose, "g", {}, NOW_MS)
