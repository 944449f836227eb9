"""Proposed maintenance runs on the in-memory store, and the outcome of applying them."""

import asyncio
from uuid import uuid4

from coordinator_core.admin.maintenance import apply_run
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.runs import CandidateRow, RunRow
from tests.support.memory_store import MemoryStore
from tests.support.store_worlds import checkpoint_log
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import (
    a_change,
)


def propose(store: MemoryStore, *group_ids: str, shard_id: int | None = None) -> str:
    """Propose to expire every offset of some groups, as a job would, under their shards or the given one."""
    checkpoint_log(store, store.leases())
    run_id = str(uuid4())
    run = RunRow(run_id, "offset_retention", 0, None, None, "proposed", dry_run=False, counts={})
    candidates = [
        CandidateRow(run_id, "", under, group_id, offset.topic, offset.partition, offset.commit_version)
        for group_id in group_ids
        for under in [shard_of(group_id, 50) if shard_id is None else shard_id]
        for offset in store.stored_offsets(group_id)
    ]
    store.propose(run, candidates)
    return run_id


DUE = GroupSettings(group_initial_rebalance_delay_ms=0, offsets_retention_minutes=0)


async def outcome_counts(node: Coordinator, run_id: str) -> dict[str, int]:
    """Apply a run, wait until it is worked off, and return its counts."""
    await apply_run(node, run_id, a_change())
    return await decided(node, run_id)


async def decided(node: Coordinator, run_id: str) -> dict[str, int]:
    """Wait until every candidate of a run is decided; return the run's counts that are not 0."""
    assert isinstance(node.store, MemoryStore)
    async with limited("every candidate is decided"):
        while (run := node.store.run(run_id)).status != "applied":  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.005)
    return {outcome: count for outcome, count in run.counts.items() if count}
