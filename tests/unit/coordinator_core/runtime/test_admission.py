"""Limits of clients and groups refuse what would fill a node's memory or tables, and count what they refuse."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from coordinator_core.admin.groups import delete_group
from coordinator_core.admin.reset_by_commit import reset_by_commit
from coordinator_core.protocol.errors import CoordinatorNotAvailable, PolicyViolation
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.runtime import offset_counts
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.current_request import current_client
from coordinator_core.runtime.offset_counts import UNCOUNTED_MAX
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import QUICK, Member, a_change, config, running

pytestmark = pytest.mark.anyio

NEVER_MS = 3_600_000
LIMIT = 5
FEW_OFFSETS = replace(QUICK, group_max_offsets=LIMIT)


@pytest.fixture(autouse=True)
def no_counts_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_counts, "COUNT_INTERVAL_S", NEVER_MS / 1000)


@contextmanager
def client(name: str) -> Iterator[None]:
    token = current_client.set(name)
    try:
        yield
    finally:
        current_client.reset(token)


async def commit(node: Coordinator, group_id: str, partitions: range) -> None:
    for partition in partitions:
        await Member(node, group_id).commit(1, partition=partition)


async def reset(node: Coordinator, group_id: str, partitions: range = range(1)) -> None:
    offsets = tuple(OffsetToCommit("t", partition, 1) for partition in partitions)
    commit = CommitOffsets(node.new_token(), -1, "", None, offsets)
    await reset_by_commit(node, group_id, commit, a_change(), only_back=False)


def refused(node: Coordinator, limit: str) -> int:
    return node.counts().sums.requests_refused[limit]


# -- dirty offsets --------------------------------------------------------------------------------------------


async def test_one_client_cannot_fill_the_memory_for_dirty_offsets() -> None:
    async with running(MemoryStore(), config(offsets_checkpoint_interval_ms=NEVER_MS, max_dirty_offsets=10)) as node:
        node._checkpoints._wake.set = lambda: None  # type: ignore[method-assign]  # no checkpoint makes room
        with client("busy"):
            await commit(node, "a", range(16))
            with pytest.raises(CoordinatorNotAvailable, match="max_dirty_offsets"):
                await commit(node, "a", range(16, 17))
        with client("calm"):
            await commit(node, "b", range(1))
        assert refused(node, "max_dirty_offsets") == 1
        assert node.counts().largest_shares["max_dirty_offsets"] == 0.8


async def test_a_checkpoint_gives_a_client_its_share_back() -> None:
    async with running(MemoryStore(), config(offsets_checkpoint_interval_ms=NEVER_MS)) as node:
        with client("busy"):
            await commit(node, "a", range(3))
        assert node._checkpoints.client_sizes["busy"] == 3
        await node.fetch_offsets("a", None)
        assert not node._checkpoints.client_sizes


# -- groups ---------------------------------------------------------------------------------------------------


async def test_a_client_creates_no_more_groups_than_it_may() -> None:
    async with running(MemoryStore(), config(max_groups_per_client=2)) as node:
        with client("busy"):
            await Member(node, "a").settle()
            await commit(node, "b", range(1))
            with pytest.raises(PolicyViolation, match=r"\(2\)"):
                await Member(node, "c").settle()
            with pytest.raises(PolicyViolation):
                await commit(node, "c", range(1))
            await commit(node, "b", range(2))
        with client("calm"):
            await commit(node, "c", range(1))
        assert refused(node, "max_groups_per_client") == 2
        assert node.counts().largest_shares["max_groups_per_client"] == 1.0


async def test_resets_of_kafkas_tools_create_no_more_groups_either() -> None:
    async with running(MemoryStore(), config(max_groups_per_client=1)) as node:
        with client("busy"):
            await reset(node, "a")
            with pytest.raises(PolicyViolation, match=r"\(1\)"):
                await reset(node, "b")
            await reset(node, "a")
        assert refused(node, "max_groups_per_client") == 1


async def test_a_deleted_group_counts_no_longer() -> None:
    async with running(MemoryStore(), config(max_groups_per_client=1)) as node:
        with client("busy"):
            await commit(node, "a", range(1))
        await delete_group(node, "a", a_change())
        with client("busy"):
            await commit(node, "b", range(1))


async def test_groups_of_an_unloaded_shard_count_no_longer() -> None:
    async with running(MemoryStore(), config(max_groups_per_client=1)) as node:
        with client("busy"):
            await commit(node, "a", range(1))
        node._ownership.owned[shard_of("a", 50)].fail(CoordinatorNotAvailable("for the test"))
        assert not node._groups_of_clients.counts


# -- offsets of a group ---------------------------------------------------------------------------------------


async def test_commits_of_a_group_with_too_many_offsets_are_refused_until_some_are_deleted() -> None:
    store = MemoryStore()
    async with running(store, config(settings=FEW_OFFSETS)) as node:
        await commit(node, "a", range(LIMIT + 1))
        await node.fetch_offsets("a", None)
        group_context = node._ownership.owned[shard_of("a", 50)].groups["a"]
        assert group_context.uncounted_offsets == LIMIT + 1
        await node._offset_counts.count()
        assert group_context.offset_count == 0, "a group that has grown little is not counted"
        group_context.uncounted_offsets += UNCOUNTED_MAX
        await node._offset_counts.count()
        assert group_context.uncounted_offsets == 0
        with pytest.raises(PolicyViolation, match="6 partitions, and may have 5"):
            await commit(node, "a", range(1))
        assert refused(node, "group_max_offsets") == 1
        await commit(node, "b", range(1))
        await Member(node, "a").settle()


async def test_resets_count_as_growth_where_nothing_was_committed() -> None:
    async with running(MemoryStore(), config(settings=FEW_OFFSETS)) as node:
        await reset(node, "a", range(LIMIT + 1))
        await reset(node, "a", range(LIMIT + 1))
        group_context = node._ownership.owned[shard_of("a", 50)].groups["a"]
        assert group_context.uncounted_offsets == LIMIT + 1
        group_context.uncounted_offsets += UNCOUNTED_MAX
        await node._offset_counts.count()
        with pytest.raises(PolicyViolation, match="6 partitions, and may have 5"):
            await reset(node, "a", range(1))


async def test_a_group_at_its_limit_commits() -> None:
    async with running(MemoryStore(), config(settings=FEW_OFFSETS)) as node:
        await commit(node, "a", range(LIMIT))
        await node.fetch_offsets("a", None)
        node._ownership.owned[shard_of("a", 50)].groups["a"].uncounted_offsets += UNCOUNTED_MAX
        await node._offset_counts.count()
        await commit(node, "a", range(LIMIT))


async def test_a_group_beyond_its_limit_is_counted_until_it_is_not() -> None:
    store = MemoryStore()
    async with running(store, config(settings=FEW_OFFSETS)) as node:
        await commit(node, "a", range(1))
        group_context = node._ownership.owned[shard_of("a", 50)].groups["a"]
        await node.fetch_offsets("a", None)
        group_context.offset_count = LIMIT + 1
        await node._offset_counts.count()
        assert group_context.offset_count == 1
        await commit(node, "a", range(1))
