"""Readiness of a node with a store that tests control."""

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.runtime import readiness
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.readiness import FAILURES_EXPIRE_MS, FAILURES_MAX
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import Batch, CheckpointResult, ShardCheckpoint, WriteResult
from coordinator_core.state_store.schema_revision import SchemaRevision
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.doubtful_lease import FarStore
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, Member, config, running, until, until_readiness

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


async def test_database_that_does_not_answer_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "DATABASE_TIMEOUT_S", 1.0)
    store = SlowStore()
    async with running(store) as node:
        store.go.clear()
        silent = await node.readiness()
        store.go.set()
        await until(lambda: store.looks >= 1, "it was asked")
        await until_readiness(node, expected=True)
    assert (silent.is_ready, silent.reasons) == (False, ("the database did not answer within 1 s",))


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
                await until_readiness(second, expected=expected)


async def test_expired_lease_is_no_active_shard() -> None:
    clock = JumpingClock()
    async with running(SlowStore(), config(lease_ttl_ms=60_000), clock) as node:
        before = await node.readiness()
        clock.jumped_ms = 60_001
        after = await node.readiness()
    assert (before.is_ready, after.reasons) == (True, ("the node owns no shard yet",))


async def test_node_without_the_loop_that_writes_is_not_ready() -> None:
    async with running(SlowStore()) as node:
        await until_readiness(node, expected=True)
        (writer,) = [task for task in asyncio.all_tasks() if task.get_name() == "muster-writer"]
        writer.cancel()
        await asyncio.wait([writer])
        node._begin("refresh", node._refresh)  # Other work must not make the node forget its loops.
        found = await node.readiness()
    assert (found.is_ready, found.reasons) == (False, ("the loop muster-writer has ended: restart the node",))


async def test_database_that_is_away_is_named_in_one_sentence() -> None:
    store = FarStore()
    async with running(store, config(lease_ttl_ms=300)) as node:
        store.is_away = True
        await until(lambda: store.failures > 0, "a renewal fails")
        found = await node.readiness()
    reason = "leases cannot be renewed: the database cannot be reached, or did not answer in time"
    assert reason in found.reasons


async def test_queries_that_fail_are_logged_once_until_one_succeeds() -> None:
    answers = [StoreUnavailable("connection refused"), StoreUnavailable("timeout"), None, StoreUnavailable("refused")]

    def ask() -> None:
        if (failure := answers.pop(0)) is not None:
            raise failure

    with capture_logs() as logs:
        async with running(MemoryStore()) as node:
            while answers:
                with suppress(CoordinatorNotAvailable):
                    await node.read(ask)
    assert [each["reason"] for each in logs if each["event"] == "query_failed"] == ["connection refused", "refused"]


class FullStore(MemoryStore):
    """A store that answers reads and renewals while its writes, or its checkpoints, have no space."""

    def __init__(self) -> None:
        super().__init__()
        self.are_writes_failing = False
        self.are_checkpoints_failing = False

    def write(self, batch: Batch) -> WriteResult:
        if self.are_writes_failing:
            raise StoreUnavailable("could not extend file")
        return super().write(batch)

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        if self.are_checkpoints_failing:
            raise StoreUnavailable("could not extend file")
        return super().checkpoint(node_id, shards)


class Commits:
    """Commits of groups that are all in different shards, since a failed write unloads its shard."""

    def __init__(self, node: Coordinator) -> None:
        self._node = node
        by_shard = {shard_of(group_id, 50): group_id for group_id in map(str, range(500))}
        self._group_ids = iter(by_shard.values())

    async def commit(self) -> None:
        await Member(self._node, next(self._group_ids)).commit(1)

    async def fail(self, times: int) -> None:
        for _ in range(times):
            with pytest.raises(CoordinatorNotAvailable):
                await self.commit()


async def test_node_whose_writes_fail_is_not_ready_until_one_succeeds() -> None:
    store = FullStore()
    async with running(store, config(lease_ttl_ms=60_000)) as node:
        commits = Commits(node)
        store.are_writes_failing = True
        await commits.fail(FAILURES_MAX - 1)
        after_few = await node.readiness()
        await commits.fail(1)
        after_more = await node.readiness()
        store.are_writes_failing = False
        await commits.commit()
        after_success = await node.readiness()

    reason = "writes fail: the database cannot be reached, or did not answer in time"
    assert after_few.is_ready
    assert (after_more.is_ready, after_more.reasons) == (False, (reason,))
    assert after_success.is_ready


async def test_failed_writes_are_forgotten_when_no_request_shows_that_they_succeed_again() -> None:
    clock = JumpingClock()
    store = FullStore()
    async with running(store, config(lease_ttl_ms=10 * FAILURES_EXPIRE_MS), clock) as node:
        store.are_writes_failing = True
        await Commits(node).fail(FAILURES_MAX)
        before = await node.readiness()
        clock.jumped_ms = FAILURES_EXPIRE_MS
        after = await node.readiness()

    assert not before.is_ready
    assert after.is_ready


async def test_node_whose_checkpoints_fail_is_not_ready_until_one_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FAILURES_EXPIRE_MS", 3_600_000)
    store = FullStore()
    async with running(store, config(lease_ttl_ms=60_000, offsets_checkpoint_interval_ms=1)) as node:
        store.are_checkpoints_failing = True
        await Commits(node).commit()
        await until_readiness(node, expected=False)
        reasons = (await node.readiness()).reasons
        store.are_checkpoints_failing = False
        await until_readiness(node, expected=True)

    assert reasons == (
        "committed offsets cannot be stored in the table: the database cannot be reached, or did not answer in time",
    )
