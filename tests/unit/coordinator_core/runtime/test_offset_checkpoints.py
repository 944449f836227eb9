"""Commits are answered when they are in the offset log; checkpoints store them in the table, in time or on demand."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from coordinator_core.protocol.errors import CoordinatorNotAvailable, NotCoordinator, RetryError
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.offset_checkpoints import next_due_ms
from coordinator_core.state_store.interface import OutcomeUnknown, StoreUnavailable
from coordinator_core.state_store.rows import CheckpointResult, ShardCheckpoint
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S, limited
from tests.unit.coordinator_core.runtime.nodes import Member, config, running, until

pytestmark = pytest.mark.anyio

NEVER_MS = 3_600_000
OVERTAKING_S = 0.2
"""How long a response that must wait has time to come too early."""


class CheckpointStore(MemoryStore):
    """A store whose checkpoints wait for `go`, and fail once with `failure`, before or after they have stored."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()
        self.began = threading.Event()
        self.failure: Exception | None = None
        self.failures_after: int | None = None
        """After so many further checkpoints one fails, and stores nothing."""
        self.is_stored_before_failure = False
        self.checkpoints: list[list[int]] = []

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        self.began.set()
        assert self.go.wait(PATIENCE_S), "the test never let the checkpoint go"
        failure, self.failure = self.failure, None
        if self.failures_after is not None:
            failure = StoreUnavailable("it failed") if self.failures_after == 0 else None
            self.failures_after = None if failure else self.failures_after - 1
        if failure is not None and not self.is_stored_before_failure:
            raise failure
        result = super().checkpoint(node_id, shards)
        self.checkpoints.append([len(shard.dirty) for shard in shards.values()])
        if failure is not None:
            raise failure
        return result


@pytest.fixture
def store() -> CheckpointStore:
    return CheckpointStore()


@contextmanager
def checkpoints_held(store: CheckpointStore) -> Iterator[None]:
    """Let checkpoints begin and not end until the end of the block, which a failure ends too."""
    store.go.clear()
    try:
        yield
    finally:
        store.go.set()


def on_demand(**overrides: int) -> NodeConfig:
    """Return the config of a node that makes no checkpoint before one is demanded."""
    return replace(config(offsets_checkpoint_interval_ms=NEVER_MS), **overrides)  # type: ignore[arg-type]  # as in config


async def fetched(node: Coordinator, group_id: str = "g") -> list[int]:
    return [one.offset for one in await node.fetch_offsets(group_id, None)]


async def commit(node: Coordinator, *offsets: int, group_id: str = "g") -> None:
    """Commit offsets of partitions 0, 1, …, one request each."""
    for partition, offset in enumerate(offsets):
        await Member(node, group_id).commit(offset, partition=partition)


async def committed_while_a_checkpoint_is_held(node: Coordinator, store: CheckpointStore) -> "asyncio.Task[list[int]]":
    """Commit 1, begin a fetch whose checkpoint is held, and commit 2; return the fetch."""
    await commit(node, 1)
    store.go.clear()
    store.began.clear()
    fetch = asyncio.create_task(fetched(node))
    await asyncio.to_thread(store.began.wait)
    await commit(node, 2)
    return fetch


# -- when -----------------------------------------------------------------------------------------------------


async def test_commit_is_in_the_table_after_the_interval_without_any_request(store: CheckpointStore) -> None:
    async with running(store, config(offsets_checkpoint_interval_ms=20)) as node:
        await commit(node, 7)
        await until(lambda: node.counts().dirty_offsets == 0, "a checkpoint is made")
        assert store.has_offsets("g")


@pytest.mark.parametrize(
    ("took_ms", "due_ms"),
    [(0, 1_000), (125, 1_000), (400, 3_200), (1_000, 8_000), (3_000, 12_000)],
)
def test_long_checkpoint_is_followed_by_a_rest(took_ms: int, due_ms: int) -> None:
    """It takes an eighth of the time, and more if that would be a rest of more than nine intervals."""
    assert next_due_ms(50_000, took_ms, 1_000) == 50_000 + due_ms


async def test_fetch_waits_for_a_checkpoint_and_for_no_interval(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        await commit(node, 7, 8)
        assert not store.has_offsets("g")
        assert await fetched(node) == [7, 8]
        assert await node.has_offsets("g")
        assert store.checkpoints == [[2]]


async def test_fetch_of_a_group_without_dirty_offsets_waits_for_no_checkpoint(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        await commit(node, 7)
        await fetched(node)
        store.go.clear()
        assert await fetched(node) == [7]
        store.go.set()


async def test_fetch_during_a_checkpoint_waits_for_the_next_one_if_there_is_a_newer_commit(
    store: CheckpointStore,
) -> None:
    async with running(store, on_demand()) as node:
        before = await committed_while_a_checkpoint_is_held(node, store)
        after = asyncio.create_task(fetched(node))
        store.go.set()
        assert (await before)[0] in {1, 2}
        assert await after == [2]


async def test_commits_do_not_wait_for_a_checkpoint(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        fetch = await committed_while_a_checkpoint_is_held(node, store)
        assert not fetch.done()
        store.go.set()
        await fetch


async def test_too_many_dirty_offsets_are_stored_before_the_interval_is_over(store: CheckpointStore) -> None:
    async with running(store, on_demand(max_dirty_offsets=3)) as node:
        await commit(node, 1, 2, 3)
        await until(lambda: store.has_offsets("g"), "a checkpoint is made")


async def test_far_too_many_dirty_offsets_make_commits_wait_and_nothing_else(store: CheckpointStore) -> None:
    async with running(store, on_demand(max_dirty_offsets=2)) as node:
        with checkpoints_held(store):
            await commit(node, 1, 2, 3, 4)
            with pytest.raises(CoordinatorNotAvailable, match="max_dirty_offsets"):
                await commit(node, 5)
            member = Member(node, "other")
            await member.settle()
            await member.heartbeat()
        assert await fetched(node) == [1, 2, 3, 4]
        await commit(node, 5)
        assert await fetched(node) == [5, 2, 3, 4]


async def test_checkpoint_of_many_shards_is_divided(store: CheckpointStore) -> None:
    async with running(store, on_demand(max_checkpoint_offsets=3)) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        groups = {shard_of(f"g{number}", 50): f"g{number}" for number in range(200)}
        for shard in range(4):
            await commit(node, *range(1 if shard else 3), group_id=groups[shard])
    assert store.checkpoints == [[3], [1, 1, 1]]


async def test_partitions_are_fetched_after_a_checkpoint_without_the_others(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        await commit(node, 7, 8, 9)
        topic = (await node.fetch_offsets("g", None))[0].topic
        await commit(node, 17, 18, 19)
        found = await node.fetch_partitions("g", [(topic, 1), (topic, 5)])
        assert [(one.partition, one.offset) for one in found] == [(1, 18)]


async def test_many_offsets_of_one_shard_are_stored_in_parts_of_which_the_last_raises_the_position(
    store: CheckpointStore,
) -> None:
    async with running(store, on_demand(max_checkpoint_offsets=3)) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        await commit(node, *range(8))
        assert await fetched(node) == list(range(8))

        assert store.checkpoints == [[3], [3], [2]]
        assert node.counts().dirty_offsets == 0
    assert store.load_offset_log([shard_of("g", 50)])[shard_of("g", 50)].commits == []


async def commit_long(node: Coordinator, first_offset: int, partitions: int) -> None:
    """Commit offsets with long metadata of partitions 0, 1, … in one request."""
    offsets = [OffsetToCommit("t", number, first_offset + number, -1, 1_000 * "x") for number in range(partitions)]
    await node.submit("g", CommitOffsets(node.new_token(), -1, "", None, tuple(offsets)))


async def test_a_fetch_waits_for_all_parts_also_if_there_are_more_than_expected(store: CheckpointStore) -> None:
    """Metadata that commits have got since makes the parts smaller."""
    async with running(store, on_demand(max_checkpoint_offsets=3)) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        await commit(node, *range(12))
        await commit_long(node, 100, 12)

        assert await fetched(node) == list(range(100, 112))
    assert store.load_offset_log([shard_of("g", 50)])[shard_of("g", 50)].commits == []


async def test_the_last_part_raises_the_position_also_if_more_were_expected(store: CheckpointStore) -> None:
    """Metadata of replaced commits were counted."""
    async with running(store, on_demand(max_checkpoint_offsets=3)) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        for partitions in range(1, 5):
            await commit_long(node, 10 * partitions, partitions)

        assert await fetched(node) == [40, 41, 42, 43]
        assert node.counts().dirty_offsets == 0
        assert store.load_offset_log([shard_of("g", 50)])[shard_of("g", 50)].commits == []
        assert store.checkpoints == [[1], [1], [1], [1]]


async def test_a_fetch_waits_for_one_part_of_another_shard_and_not_for_all(store: CheckpointStore) -> None:
    async with running(store, on_demand(max_checkpoint_offsets=3)) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        await commit(node, *range(8))
        with checkpoints_held(store):
            store.began.clear()
            large = asyncio.create_task(fetched(node))
            await asyncio.to_thread(store.began.wait)
            await commit(node, 7, group_id="other")
            small = asyncio.create_task(fetched(node, "other"))
            await asyncio.sleep(0)
        assert (await small, await large) == ([7], list(range(8)))
        assert store.checkpoints == [[3], [1], [3], [2]]


async def test_a_part_that_fails_is_repeated_and_the_parts_before_it_are_not(store: CheckpointStore) -> None:
    async with running(store, on_demand(max_checkpoint_offsets=3)) as node:
        await until(lambda: node.counts().shards_active == 50, "shards are loaded")
        await commit(node, *range(5))
        store.failures_after = 1
        with pytest.raises(CoordinatorNotAvailable):
            await fetched(node)
        assert store.checkpoints == [[3]]
        log = store.load_offset_log([shard_of("g", 50)])[shard_of("g", 50)].commits
        assert len(log) == 5, "another node would read all of them"

        await commit(node, 10)
        assert await fetched(node) == [10, 1, 2, 3, 4]
        assert store.checkpoints == [[3], [3]]


async def test_stopping_node_leaves_nothing_in_the_log(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        await commit(node, 7)
    assert [one.offset for one in store.fetch_offsets("g")] == [7]
    assert not store.load_offset_log(range(50))[shard_of("g", 50)].commits


async def test_fetches_at_a_node_that_stops_return_every_answered_commit_or_are_refused(store: CheckpointStore) -> None:
    """One fetch waits for the checkpoint under way, which has the commit before the last; one waits for the next."""
    async with running(store, on_demand()) as node:
        first = await committed_while_a_checkpoint_is_held(node, store)
        second = asyncio.create_task(fetched(node))

        async def release_checkpoint() -> None:
            await asyncio.wait([second], timeout=OVERTAKING_S)
            store.go.set()

        releasing = asyncio.create_task(release_checkpoint())
    await releasing
    async with limited("both fetches end"):
        early, late = await asyncio.gather(first, second, return_exceptions=True)
    assert early in ([1], [2]) or isinstance(early, NotCoordinator)  # It was sent before the last commit.
    assert late == [2] or isinstance(late, NotCoordinator)


async def test_age_and_number_of_dirty_offsets_are_counted(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        assert (node.counts().dirty_offsets, node.counts().oldest_dirty_offset_s) == (0, 0)
        await commit(node, 7, 8)
        await until(lambda: node.counts().oldest_dirty_offset_s > 0, "time passes")
        assert node.counts().dirty_offsets == 2
        fetch = asyncio.create_task(fetched(node))
        store.failure = StoreUnavailable("the disk is full")
        with pytest.raises(CoordinatorNotAvailable, match=StoreUnavailable.summary):
            await fetch
        assert node.counts().oldest_dirty_offset_s > 0
        assert node.counts().dirty_offsets == 2
        await fetched(node)
        assert (node.counts().dirty_offsets, node.counts().oldest_dirty_offset_s) == (0, 0)


# -- failures -------------------------------------------------------------------------------------------------


async def test_checkpoint_that_stored_nothing_is_repeated(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        await commit(node, 7)
        store.failure = StoreUnavailable("the disk is full")
        with pytest.raises(CoordinatorNotAvailable, match=StoreUnavailable.summary):
            await fetched(node)
        assert node.counts().sums.checkpoints_failed == 1
        assert await fetched(node) == [7]
        assert node.counts().sums.offsets_checkpointed == 1


async def test_commits_during_a_checkpoint_that_failed_are_stored_with_it(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        fetch = await committed_while_a_checkpoint_is_held(node, store)
        store.failure = StoreUnavailable("the disk is full")
        store.go.set()
        with pytest.raises(CoordinatorNotAvailable):
            await fetch
        assert await fetched(node) == [2]


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("failure", [OutcomeUnknown("the connection was lost"), RuntimeError("a bug")], ids=repr)
async def test_shards_are_loaded_again_after_a_checkpoint_of_unknown_outcome(
    store: CheckpointStore, failure: Exception, is_stored: bool
) -> None:
    async with running(store, on_demand()) as node:
        fetch = await committed_while_a_checkpoint_is_held(node, store)
        store.failure, store.is_stored_before_failure = failure, is_stored
        store.go.set()
        with pytest.raises(CoordinatorNotAvailable, match="checkpoint"):
            await fetch
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    assert await fetched(node) == [2]
                    break
                except RetryError:
                    await asyncio.sleep(0.01)


async def test_owner_that_lost_its_lease_answers_no_fetch(store: CheckpointStore) -> None:
    async with running(store, on_demand()) as node:
        await commit(node, 7)
        shard = shard_of("g", 50)
        store.release("a", {shard: store.leases()[shard].epoch})
        store.acquire_leases("b", [shard], 60_000)
        with pytest.raises(NotCoordinator):
            await fetched(node)
        assert not store.has_offsets("g")
        with pytest.raises(CoordinatorNotAvailable):
            await fetched(node)
