"""Readiness of a node with a store that tests control."""

import asyncio
import threading

import pytest

from coordinator_core.state_store.schema_revision import SchemaRevision
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, config, running, until

pytestmark = pytest.mark.anyio


class SlowStore(MemoryStore):
    """A store that returns its schema when a test allows it."""

    def __init__(self, shards: int = 50) -> None:
        super().__init__(shards=shards)
        self.go = threading.Event()
        self.go.set()
        self.looks = 0
        self.revision: SchemaRevision | None = SchemaRevision("0002", "0001")

    def schema(self) -> SchemaRevision | None:
        self.looks += 1
        assert self.go.wait(PATIENCE_S), "the test never let it go"
        return self.revision


async def test_database_that_does_not_answer_is_unreachable() -> None:
    store = SlowStore()
    async with running(store) as node:
        store.go.clear()
        silent = await node.readiness()
        store.go.set()
        await until(lambda: store.looks >= 1, "it was asked")
        again = await node.readiness()
    assert (silent.is_ready, silent.reasons) == (False, ("the database did not answer within 1 s",))
    assert again.is_ready


async def test_concurrent_checks_share_one_query() -> None:
    store = SlowStore()
    async with running(store) as node:
        store.go.clear()
        asking = [asyncio.create_task(node.readiness()) for _ in range(20)]
        await until(lambda: store.looks == 1, "one looks")
        store.go.set()
        answers = await asyncio.gather(*asking)
    assert {answer.is_ready for answer in answers} == {True}
    assert store.looks == 1


SCHEMAS = {
    SchemaRevision("0001", "0001"): "the database has schema 0001 and this node needs 0002: run muster migrate",
    SchemaRevision("0002", "0001"): None,
    SchemaRevision("0003", "0002"): None,
    SchemaRevision("0003", "0003"): "the database has schema 0003 and this node needs 0002: use a newer program",
    None: "the database has no schema and this node needs 0002: run muster migrate",
}


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS.items())
async def test_node_is_ready_with_the_schema_of_a_newer_compatible_release(
    schema: SchemaRevision | None, expected: str | None
) -> None:
    store = SlowStore()
    store.revision = schema
    async with running(store, config(schema="0002")) as node:
        found = await node.readiness()
    assert (found.is_ready, found.reasons) == (expected is None, () if expected is None else (expected,))


async def test_a_node_without_a_shard_is_ready_only_if_there_are_too_few() -> None:
    for shards, expected in ((1, True), (2, False)):
        store = SlowStore(shards)
        async with running(store, config("a", lease_ttl_ms=60_000)) as first:
            await until(lambda: first.counts().shards_active == shards, "the first owns all")  # noqa: B023 - called at once
            async with running(store, config("b", lease_ttl_ms=60_000)) as second:
                assert second.counts().shards_active == 0
                assert (await second.readiness()).is_ready is expected


async def test_expired_lease_is_no_active_shard() -> None:
    clock = JumpingClock()
    async with running(SlowStore(), config(lease_ttl_ms=60_000), clock) as node:
        before = await node.readiness()
        clock.jumped_ms = 60_001
        after = await node.readiness()
    assert (before.is_ready, after.reasons) == (True, ("the node owns no shard yet",))
