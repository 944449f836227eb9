"""Small commits are decided when the event loop has read its sockets: nothing comes between, and nothing is lost."""

import asyncio

import pytest

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, IllegalGeneration
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.protocol.responses import Answer, CommitOffsetsResponse
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.current_request import current_client
from coordinator_core.runtime.shard import SMALL_COMMIT_MAX_OFFSETS
from tests.support.memory_store import MemoryStore
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, config, running, until

pytestmark = pytest.mark.anyio

STORED = CommitOffsetsResponse({})


def submit(node: Coordinator, member: Member, offset: int, partitions: int = 1) -> "asyncio.Future[Answer]":
    """Submit a commit of the same offset for some partitions, and do not wait."""
    who = (member.generation, member.member_id, None)
    offsets = tuple(OffsetToCommit("t", partition, offset) for partition in range(partitions))
    return node.submit(member.group_id, CommitOffsets(node.new_token(), *who, offsets))


async def offsets_of(node: Coordinator, group_id: str) -> list[int]:
    """Return the committed offsets, by partition."""
    return [each.offset for each in await node.fetch_offsets(group_id, None)]


async def test_the_last_of_the_commits_of_a_group_counts() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        answers = await asyncio.gather(*[submit(node, member, offset) for offset in (1, 3, 2)])
        assert answers == [STORED] * 3
        assert await offsets_of(node, "g") == [2]


async def test_a_large_commit_passes_no_small_one() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        partitions = SMALL_COMMIT_MAX_OFFSETS + 1
        answers = await asyncio.gather(submit(node, member, 1), submit(node, member, 2, partitions))
        assert list(answers) == [STORED] * 2
        assert await offsets_of(node, "g") == [2] * partitions


async def test_a_commit_whose_client_has_gone_is_stored() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        submit(node, member, 7).cancel()
        await member.commit(1, partition=1)
        assert await offsets_of(node, "g") == [7, 1]


async def test_an_operation_waits_for_a_commit_that_came_before_it() -> None:
    store = HeldStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        store.is_writing.clear()
        commit = submit(node, member, 7)
        locking = asyncio.create_task(node.serving_shard("g").locked("g").__aenter__())
        await until(store.is_writing.is_set, "the write of the commit")
        assert not locking.done()
        store.go.set()
        async with limited("the commit and then the operation"):
            assert await commit == STORED
            await locking


async def test_an_operation_does_not_wait_for_a_refused_commit() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        member.generation += 1
        commit = submit(node, member, 7)
        async with limited("the operation"), node.serving_shard("g").locked("g"):
            with pytest.raises(IllegalGeneration):
                await commit


async def test_a_commit_to_a_shard_that_is_lost_meanwhile_is_not_decided() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        shard = node.serving_shard("g")
        decided: list[object] = []
        shard._decide = lambda *request: decided.append(request)  # type: ignore[assignment]
        commit = submit(node, member, 7)
        locking = asyncio.create_task(shard.groups["g"].wait_until_drained())
        shard.unload(CoordinatorNotAvailable("lost"))
        with pytest.raises(CoordinatorNotAvailable, match="lost"):
            await commit
        async with limited("the end of the commit"):
            await locking
        assert decided == []


async def test_a_group_that_ends_meanwhile_is_forgotten() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        shard = node.serving_shard("g")
        commit = submit(node, member, 7)
        shard.groups["g"].group = shard._absent("g").group
        with pytest.raises(CoordinatorError):
            await commit
        await asyncio.sleep(0)
        assert "g" not in shard.groups


async def test_commits_that_arrive_together_do_not_overfill_the_queue() -> None:
    store = HeldStore()
    async with running(store, config(max_queued_rows=8)) as node:
        members = [Member(node, f"g{number}") for number in range(5)]
        for member in members:
            await member.settle()
        store.go.clear()
        store.is_writing.clear()
        commits = [submit(node, members[0], 0)]
        await until(store.is_writing.is_set, "a write")
        commits += [submit(node, member, 1) for member in members[:4]]
        with pytest.raises(CoordinatorNotAvailable, match="max_queued_rows"):
            submit(node, members[4], 1)
        await asyncio.sleep(0)
        assert (node._writer.queued_rows, node._writer._expected_rows) == (8, 0)
        store.go.set()
        await asyncio.gather(*commits)


async def test_a_commit_counts_for_the_client_that_has_sent_it() -> None:
    store = HeldStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        current_client.set("alice")
        commit = submit(node, member, 7)
        current_client.set("bob")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [*node._writer._queues] == ["alice"]
        store.go.set()
        await commit


async def test_commits_of_one_client_take_nothing_of_the_share_of_another() -> None:
    async with running(MemoryStore(), config(max_queued_rows=40)) as node:
        member, other = Member(node, "g"), Member(node, "other")
        for each in (member, other):
            await each.settle()
        current_client.set("alice")
        commits = [submit(node, member, offset) for offset in range(16)]
        with pytest.raises(CoordinatorNotAvailable, match="max_queued_rows"):
            submit(node, member, 16)
        current_client.set("bob")
        commits.append(submit(node, other, 1))
        assert await asyncio.gather(*commits) == [STORED] * 17
        current_client.set("alice")
        assert await submit(node, member, 17) == STORED
        assert node._writer._expected_of == {}
