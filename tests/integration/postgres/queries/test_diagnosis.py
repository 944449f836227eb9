"""A diagnosis of a group that a node has served."""

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import pytest

from coordinator_core.admin.groups import delete_group, remove_member
from coordinator_core.admin.settings import put_settings
from coordinator_core.protocol.errors import GroupIdNotFound, RebalanceInProgress
from coordinator_core.protocol.requests import Heartbeat
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.queries.diagnosis import WINDOW_MS, Finding, diagnose
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.views import EffectiveSetting
from coordinator_core.state_store.postgres import PostgresStore
from tests.support.store_rows import NOW_MS, group_row, member_row, part_row, rebalance_row, session_row, write
from tests.support.store_worlds import Owner, Query
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


async def test_a_former_group_of_the_same_name_counts_only_while_there_is_no_other(
    postgres_store: PostgresStore, query: Query
) -> None:
    clock = JumpingClock()
    async with running(postgres_store, STANDING, clock) as node:
        _, prompt = await missed_rebalance(node, clock, heartbeats=True)
        await prompt.leave()
        await delete_group(node, "g", a_change())
        clock.jumped_ms += 1_000
        assert [finding.kind for finding in diagnosed(query, node)] == ["late_join"]
        member = await Caller(node).settle()
        assert diagnosed(query, node) == []
        await remove_member(node, "g", member.member_id, a_change())
        assert [finding.kind for finding in diagnosed(query, node)] == ["removed"]


def test_waits_and_reasons_of_a_former_group_do_not_count(owner: Owner, query: Query) -> None:
    ended = session_row(end_reason="session_expired", ended_at_ms=NOW_MS + 50_000, last_heartbeat_at_ms=None)
    former: dict[str, Any] = {"group_created_at_ms": NOW_MS - 1}
    said: dict[str, Any] = {"trigger_member_id": f"client-{uuid4()}", "client_reason": "UNKNOWN_MEMBER_ID"}
    owner.write(
        write(
            group=group_row(),
            members={"m-2": member_row("m-2", joined_at_ms=NOW_MS + 51_000)},
            sessions=(ended,),
            rebalances=(rebalance_row(**said, **former),),
            rebalance_members=(part_row(waited_for_ms=60_000, client_host=ended.client_host, **former),),
        )
    )
    settings = {key: EffectiveSetting(value, "default") for key, value in asdict(GroupSettings()).items()}
    (finding,) = query(diagnose, "orders", settings, NOW_MS + 60_000)
    assert "It paused, or was started again at once." in finding.text
    assert "waited" not in finding.text


async def test_a_group_is_not_another_one_after_a_failover_with_loss(
    postgres_store: PostgresStore, query: Query
) -> None:
    clock = JumpingClock()
    async with running(postgres_store, STANDING, clock) as node:
        _, prompt = await missed_rebalance(node, clock, heartbeats=True)
    postgres_store.start_incarnation(1, "a", "failed over")
    async with running(postgres_store, STANDING, clock) as node:
        prompt.node = node
        await prompt.leave()
        assert [finding.kind for finding in diagnosed(query, node)] == ["late_join"]


def test_an_unknown_group_is_refused(query: Query) -> None:
    with pytest.raises(GroupIdNotFound):
        query(diagnose, "g", {}, NOW_MS)
