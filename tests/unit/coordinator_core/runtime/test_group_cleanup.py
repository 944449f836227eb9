"""A cleanup run retires groups without offsets if they have not changed since the proposal."""

import asyncio
from uuid import uuid4

import pytest

from coordinator_core.admin.changes import Change
from coordinator_core.admin.groups import delete_group
from coordinator_core.admin.maintenance import apply_run
from coordinator_core.protocol.errors import UnknownMemberId
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import GroupSnapshot
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.runs import GROUP_CLEANUP, WHOLE_GROUP, CandidateRow, RunRow
from tests.support.memory_store import MemoryStore
from tests.support.store_rows import loaded
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, commit_simple, config, running, state_of, until
from tests.unit.coordinator_core.runtime.proposals import outcome_counts

pytestmark = pytest.mark.anyio

STEADY = config(lease_ttl_ms=5_000)
"""A node that keeps its lease on a machine that has much else to do."""


def propose(store: MemoryStore, *group_ids: str) -> str:
    """Propose to retire groups as they are stored now, as the job does."""
    run_id = str(uuid4())
    run = RunRow(run_id, GROUP_CLEANUP, 0, None, None, "proposed", dry_run=False, counts={})
    stored = {one.group.group_id: one.group for one in loaded(store, range(50))}
    candidates = [
        CandidateRow(
            run_id,
            "",
            shard_of(group_id, 50),
            group_id,
            *WHOLE_GROUP,
            0,
            seen=GroupSnapshot(stored[group_id].generation, stored[group_id].state_since_ms),
        )
        for group_id in group_ids
    ]
    store.propose(run, candidates)
    return run_id


async def emptied(node: Coordinator, group_id: str) -> Member:
    """Let a member come, never commit, and go."""
    member = Member(node, group_id)
    await member.settle()
    await member.leave()
    return member


async def test_a_group_that_never_had_offsets_and_emptied_is_retired_and_starts_afresh() -> None:
    store = MemoryStore()
    async with running(store, STEADY) as node:
        old = await emptied(node, "g")
        assert (await outcome_counts(node, propose(store, "g"))) == {"retired": 1}
        assert node.describe("g") is None
        assert store.history.transitions[-1].to_state == "Dead"
        with pytest.raises(UnknownMemberId):
            await old.heartbeat()
        with pytest.raises(UnknownMemberId):
            await old.join()
        assert (await Member(node, "g").join()).generation == 1


async def test_group_with_new_members_is_kept() -> None:
    store = MemoryStore()
    async with running(store, STEADY) as node:
        await emptied(node, "g")
        run_id = propose(store, "g")
        await Member(node, "g").settle()
        assert (await outcome_counts(node, run_id)) == {"not_empty": 1}
        assert state_of(node, "g") == "Stable"


async def test_group_that_was_used_since_is_kept() -> None:
    store = MemoryStore()
    async with running(store, STEADY) as node:
        await emptied(node, "g")
        run_id = propose(store, "g")
        await emptied(node, "g")
        assert (await outcome_counts(node, run_id)) == {"woke_since": 1}
        assert state_of(node, "g") == "Empty"


async def test_recreated_group_is_not_retired() -> None:
    store = MemoryStore()
    async with running(store, STEADY) as node:
        await emptied(node, "g")
        run_id = propose(store, "g")
        await delete_group(node, "g", Change("test", "because", str(uuid4())))
        await emptied(node, "g")
        assert (await outcome_counts(node, run_id)) == {"woke_since": 1}


async def test_a_group_that_has_offsets_by_now_is_kept() -> None:
    store = MemoryStore()
    async with running(store, STEADY) as node:
        await emptied(node, "g")
        run_id = propose(store, "g")
        await commit_simple(node, "g", 1)
        assert (await outcome_counts(node, run_id)) == {"has_offsets": 1}
        assert len(await node.fetch_offsets("g", None)) == 1


async def test_deleted_group_is_already_gone() -> None:
    store = MemoryStore()
    async with running(store, STEADY) as node:
        await emptied(node, "g")
        first, second = propose(store, "g"), propose(store, "g")
        assert (await outcome_counts(node, first)) == {"retired": 1}
        assert (await outcome_counts(node, second)) == {"already_gone": 1}
        assert (await outcome_counts(node, first)) == {"retired": 1}


async def test_next_owner_resumes_a_run() -> None:
    """The write of the first chunk fails, as if the node had been killed in the middle of it."""
    store = HeldStore()
    group_ids = [f"g{number}" for number in range(20)]
    patient = GroupSettings(group_initial_rebalance_delay_ms=0)
    async with running(store, config(settings=patient, maintenance_chunk=6)) as node:
        await asyncio.gather(*(emptied(node, group_id) for group_id in group_ids))
        run_id = propose(store, *group_ids)
        store.go.clear()
        store.is_writing.clear()
        await apply_run(node, run_id, Change("test", "because", str(uuid4())))
        await asyncio.to_thread(store.is_writing.wait)
        store.failure = StoreUnavailable("killed in the middle")
        store.go.set()
        await until(lambda: store.failure is None, "the write failed")
    async with running(store, config("b", settings=patient, maintenance_chunk=6)) as node:
        assert (await outcome_counts(node, run_id)) == {"retired": 20}
        assert all(node.describe(group_id) is None for group_id in group_ids)
