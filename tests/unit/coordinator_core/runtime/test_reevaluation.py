"""Changed settings and topic metadata reach every group, in lots between which the node answers requests."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import count, islice

import pytest

from coordinator_core.admin.topics import put_topic
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.states import PREPARING, STABLE
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import Member, a_change, running, state_of, until

pytestmark = pytest.mark.anyio

GROUPS = list(islice((f"g{n}" for n in count() if shard_of(f"g{n}", 50) == 7), 60))
"""More groups of one shard than one turn of the event loop re-evaluates."""


@pytest.fixture
async def node() -> AsyncIterator[Coordinator]:
    """Run a node with stable groups that read one topic."""
    async with running(MemoryStore()) as node:
        await until(lambda: len(node.serving_shards()) == 50, "every shard is loaded")
        await asyncio.gather(*(Member(node, group_id).settle() for group_id in GROUPS))
        yield node


async def change_begun(node: Coordinator) -> asyncio.Task[object]:
    """Return a change of the topic that has reached some of the groups, which rebalance, and not yet the others."""
    change = asyncio.ensure_future(put_topic(node, "t", 8, None, a_change()))
    while not rebalancing(node):
        await asyncio.sleep(0)
        time.sleep(0.0005)  # noqa: ASYNC251 - a loop that never rests may keep the interpreter from the store's threads
    assert {state_of(node, group_id) for group_id in GROUPS} == {STABLE, PREPARING}
    assert not change.done()
    return change


def rebalancing(node: Coordinator) -> int:
    return sum(state_of(node, group_id) == PREPARING for group_id in GROUPS)


async def test_change_is_answered_when_it_has_reached_every_group(node: Coordinator) -> None:
    change = await change_begun(node)
    await change
    assert rebalancing(node) == len(GROUPS)


async def test_change_reaches_every_group_also_if_its_client_has_gone(node: Coordinator) -> None:
    change = await change_begun(node)
    change.cancel()
    await until(lambda: rebalancing(node) == len(GROUPS), "every group rebalances")


async def test_shard_that_is_unloaded_meanwhile_is_loaded_with_the_change(node: Coordinator) -> None:
    change = await change_begun(node)
    await node._ownership.release_shards([7])
    await change
    await until(lambda: len(node.serving_shards()) == 50, "the shard is loaded again")
    assert rebalancing(node) == len(GROUPS)
