"""An operation that waits for a group's queued writes ends when one of them fails."""

import asyncio

import pytest

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.state_store.interface import StoreUnavailable
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, running, until

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
