"""Failed writes end the operations that wait for them; the same failure is logged once."""

import asyncio
from contextlib import nullcontext

import pytest
from structlog.testing import capture_logs

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, InvalidRequest
from coordinator_core.protocol.settings import Now
from coordinator_core.runtime.clock import SystemClock
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.shard_ownership import RETRY_AFTER_FAILURE_MS
from coordinator_core.state_store.interface import StoreUnavailable
from tests.support.memory_store import MemoryStore
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, config, running, until

pytestmark = pytest.mark.anyio


async def test_operation_does_not_wait_for_a_write_that_failed() -> None:
    store = HeldStore()
    async with running(store) as node:
        store.go.clear()
        joining = asyncio.create_task(Member(node, "g").join())
        await until(store.is_writing.is_set, "the write of the join")
        operation = node.serving_shard("g").locked("g")
        locking = asyncio.create_task(operation.__aenter__())
        await asyncio.sleep(0)

        store.failure = StoreUnavailable("the database is away")
        store.go.set()

        with pytest.raises(CoordinatorNotAvailable):
            await joining
        async with limited("the operation to end its wait"):
            await locking
        await operation.__aexit__(None, None, None)


async def test_repeated_failure_of_writes_is_logged_once_until_one_succeeds() -> None:
    store = HeldStore()
    async with running(store) as node:
        with capture_logs() as events:
            for is_failing in (True, True, True, False, True, True, True, False):
                store.failure = StoreUnavailable("the disk is full") if is_failing else None
                await until(lambda: is_served(node), "the group's shard")
                with pytest.raises(CoordinatorNotAvailable) if is_failing else nullcontext():
                    await Member(node, "g").commit(1)
    names = [event["event"] for event in events]
    assert [names.count(each) for each in ("batch_failed", "shard_unloaded", "shards_acquired")] == [2, 2, 2]


async def test_commit_that_no_column_can_hold_is_refused_alone() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await until(lambda: is_served(node), "the group's shard")
        shard = node.serving_shard("g")
        with capture_logs() as events, pytest.raises(InvalidRequest, match="NUL"):
            await member.commit(1, topic="a\0b")
        assert [event["event"] for event in events] == ["commit_refused"]
        assert node.describe("g") is None, "the refused commit created it"
        await member.commit(2)
        assert node.serving_shard("g") is shard
        assert [one.offset for one in await node.fetch_offsets("g", ["t"])] == [2]


def is_served(node: Coordinator) -> bool:
    try:
        node.serving_shard("g")
    except CoordinatorError:
        return False
    return True


class StoppedClock:
    """A clock that only the test puts forward."""

    def __init__(self) -> None:
        self.at = SystemClock().now()

    def now(self) -> Now:
        return self.at


async def test_shard_that_fails_as_soon_as_it_is_loaded_is_not_acquired_at_once() -> None:
    clock = StoppedClock()
    async with running(MemoryStore(), config(lease_ttl_ms=600_000), clock) as node:
        owned = node._ownership.owned
        await until(lambda: len(node.serving_shards()) == 50, "every shard is loaded")
        owned[7].fail(CoordinatorNotAvailable("the database refused a value of the write"))
        assert not node._ownership._wake.is_set(), "a loop of loads and failures would have no pause"
        clock.at = Now(clock.at.node_ms + RETRY_AFTER_FAILURE_MS, clock.at.wall_ms)
        owned[8].fail(CoordinatorNotAvailable("the connection was lost"))
        await until(lambda: len(owned) == 50, "both are acquired")
