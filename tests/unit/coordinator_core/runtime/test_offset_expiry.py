"""An expiry run decides its candidates by the current state, not by that of the proposal."""

import asyncio
from collections.abc import Sequence

import pytest

from coordinator_core.admin.maintenance import apply_run
from coordinator_core.admin.settings import put_settings
from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.protocol.settings import GroupSettings, Now
from coordinator_core.runtime.clock import SystemClock
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import OutcomeUnknown
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import (
    HeldStore,
    Member,
    a_change,
    commit_simple,
    config,
    running,
    state_of,
    until,
)
from tests.unit.coordinator_core.runtime.proposals import DUE, outcome_counts, propose

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
ONE_HOUR = GroupSettings(group_initial_rebalance_delay_ms=0, offsets_retention_minutes=60)
OLD, NEW = 1, 1_000_000


class LaterClock(SystemClock):
    """The wall clock of a node on which hours can go by in no time; sessions know nothing of it."""

    later_ms = 0

    def now(self) -> Now:
        now = super().now()
        return Now(now.node_ms, now.wall_ms + self.later_ms)


async def emptied_with_offset(node: Coordinator, group_id: str = "g") -> None:
    """Let a member come, commit, and go."""
    member = Member(node, group_id)
    await member.settle()
    await member.commit(OLD)
    await member.leave()


async def test_group_empty_for_its_retention_is_expired_and_retired() -> None:
    store, clock = MemoryStore(), LaterClock()
    async with running(store, config(settings=ONE_HOUR), clock) as node:
        await emptied_with_offset(node)
        run_id = propose(store, "g")
        clock.later_ms = HOUR_MS
        assert await outcome_counts(node, run_id) == {"expired": 1}
        assert node.describe("g") is None
        assert [(row.topic, row.offset, row.cause) for row in store.history.archived] == [("t", OLD, "expired")]


async def test_group_that_was_used_since_keeps_its_offsets() -> None:
    store, clock = MemoryStore(), LaterClock()
    async with running(store, config(settings=ONE_HOUR), clock) as node:
        await emptied_with_offset(node)
        run_id = propose(store, "g")
        clock.later_ms = HOUR_MS
        again = Member(node, "g")
        await again.settle()
        await again.leave()
        assert await outcome_counts(node, run_id) == {"not_due": 1}
        assert (state_of(node, "g"), len(await node.fetch_offsets("g", None))) == ("Empty", 1)


async def test_a_group_that_reads_the_topic_again_keeps_its_offset() -> None:
    store, clock = MemoryStore(), LaterClock()
    async with running(store, config(settings=ONE_HOUR), clock) as node:
        member = Member(node, "g", topics=("t",))
        await member.settle()
        for topic in ("t", "u", "v"):
            await member.commit(OLD, topic=topic)
        run_id = propose(store, "g")
        clock.later_ms = HOUR_MS
        # The proposal saw a group that reads "t" alone.
        member.topics = ("t", "u")
        await member.settle()
        assert await outcome_counts(node, run_id) == {"expired": 1, "not_due": 2}
        assert [offset.topic for offset in await node.fetch_offsets("g", None)] == ["t", "u"]


async def test_a_retention_that_was_made_longer_since_counts() -> None:
    store, clock = MemoryStore(), LaterClock()
    async with running(store, config(settings=ONE_HOUR), clock) as node:
        await commit_simple(node, "long", 1)
        await commit_simple(node, "short", 1)
        run_id = propose(store, "long", "short")
        clock.later_ms = HOUR_MS
        await put_settings(node, "long", {"offsets_retention_minutes": 61}, a_change())
        assert await outcome_counts(node, run_id) == {"expired": 1, "not_due": 1}
        assert len(await node.fetch_offsets("long", None)) == 1


async def test_commits_that_race_with_a_run_are_never_lost() -> None:
    store = MemoryStore()
    group_ids = [f"g{number}" for number in range(12)]
    async with running(store, config(settings=DUE, maintenance_chunk=7)) as node:
        await asyncio.gather(*(commit_simple(node, group_id, 10) for group_id in group_ids))
        run_id = propose(store, *group_ids)
        applying = asyncio.create_task(outcome_counts(node, run_id))
        racing = [Member(node, group_id).commit(NEW, partition=p) for group_id in group_ids for p in range(0, 10, 2)]
        await asyncio.gather(*racing)
        counts = await applying
        assert counts.keys() <= {"expired", "committed_since"}
        assert sum(counts.values()) == 120
        assert counts["expired"] == len(store.history.archived) >= 60
        assert {row.offset for row in store.history.archived} <= set(range(10))
        for group_id in group_ids:
            left = {offset.partition: offset.offset for offset in await node.fetch_offsets(group_id, None)}
            assert left == dict.fromkeys(range(0, 10, 2), NEW)


async def test_next_owner_resumes_an_expiry_without_repeating_it() -> None:
    """The first write's fate is unknown, as when the node or its connection dies while committing."""
    store = HeldStore()
    group_ids = [f"g{number}" for number in range(10)]
    async with running(store, config(settings=DUE, maintenance_chunk=6)) as node:
        await asyncio.gather(*(commit_simple(node, group_id, 4) for group_id in group_ids))
        run_id = propose(store, *group_ids)
        store.go.clear()
        store.is_writing.clear()
        await apply_run(node, run_id, a_change())
        await asyncio.to_thread(store.is_writing.wait)
        store.failure = OutcomeUnknown("the connection went while committing")
        store.go.set()
        await until(lambda: store.failure is None, "the write failed")
    async with running(store, config("b", settings=DUE, maintenance_chunk=6)) as node:
        assert await outcome_counts(node, run_id) == {"expired": 40}
        archived = [(row.group_id, row.partition) for row in store.history.archived]
        assert len(archived) == len(set(archived)) == 40
        first, _again = store.history.changes
        assert {row.change_id for row in store.history.archived} == {first.change_id}


class WatchedStore(HeldStore):
    """Remembers which groups' offsets were read, and how many at most."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()
        self.most = 0

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        self.read.add(group_id)
        found = super().stored_offsets(group_id, partitions)
        self.most = max(self.most, len(found))
        return found


async def test_a_step_reads_no_more_offsets_than_it_decides() -> None:
    """A group with very many offsets is expired in as many steps: each must not read all that is left."""
    store = WatchedStore()
    async with running(store, config(settings=DUE, maintenance_chunk=2)) as node:
        await commit_simple(node, "g", 20)
        run_id = propose(store, "g")
        store.most = 0
        assert await outcome_counts(node, run_id) == {"expired": 20}
        assert store.most == 2
        assert node.describe("g") is None


async def test_concurrently_decided_groups_are_limited() -> None:
    store = WatchedStore()
    group_ids = [f"g{number}" for number in range(12)]
    async with running(store, config(settings=DUE, maintenance_groups=3)) as node:
        await asyncio.gather(*(commit_simple(node, group_id, 1) for group_id in group_ids))
        run_id = propose(store, *group_ids)
        store.read.clear()
        store.go.clear()
        await apply_run(node, run_id, a_change())
        await until(lambda: len(store.read) >= 3, "three groups are looked at")
        await node.fetch_offsets("g", None)  # Whatever was to be read when these were is read before this is.
        assert len(store.read) == 3
        store.go.set()
        assert await outcome_counts(node, run_id) == {"expired": 12}
