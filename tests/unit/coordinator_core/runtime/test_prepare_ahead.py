"""Preparing a write batch while another is under way keeps the order of writes and the lease checks.

The writer is the real one; the store is held, so that a test says when a write ends.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import pytest

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.runtime.clock import SystemClock, SystemThreads
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.writer import Entry, Writer
from coordinator_core.store.interface import StoreUnavailable
from coordinator_core.store.rows import Batch, GroupWrite, WriteResult
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import HeldStore, until

pytestmark = pytest.mark.anyio

T = TypeVar("T")

NODE = "node"
AHEAD_ROWS = 4


class WatchedStore(HeldStore):
    """Remembers what was prepared and written, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[list[int]] = []
        self.written: list[list[int]] = []
        self.is_second_written = threading.Event()
        self.refused: dict[str, str] = {}
        """Groups that the next write refuses, and why."""

    def prepare(self, batch: Batch) -> Callable[[], WriteResult]:
        self.prepared.append(positions(batch))
        return super().prepare(batch)

    def write(self, batch: Batch) -> WriteResult:
        written = super().write(batch)
        self.written.append(positions(batch))
        if len(self.written) == 2:
            self.is_second_written.set()
        refused, self.refused = self.refused, {}
        return replace(written, refused_groups=refused)


class CountedThreads(SystemThreads):
    """Counts what is queued for the writer's thread."""

    def __init__(self) -> None:
        super().__init__(readers=1)
        self.writes = 0
        self.is_preparing_slow = False

    def write(self, call: Callable[[], T]) -> asyncio.Future[T]:
        self.writes += 1
        return super().write(call)

    def prepare(self, call: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().create_future() if self.is_preparing_slow else super().prepare(call)


@dataclass
class Lease:
    """A lease that a test can revoke."""

    shard_id: int
    epoch: int
    is_unloaded: bool = False


@dataclass
class WriteRecorder:
    """Hands commits to a writer, and remembers what it says of each."""

    writer: Writer
    threads: CountedThreads
    running: asyncio.Task[None]
    leases: list[Lease]
    stored: list[int] = field(default_factory=list)
    failed: list[tuple[int, CoordinatorError]] = field(default_factory=list)

    def commit(self, *numbers: int, shard: int = 0) -> None:
        """Queue commits, two rows each, with different offsets."""
        lease = self.leases[shard]
        for number in numbers:
            record = OffsetsCommitted(0, "member", None, (OffsetToCommit("orders", number, number),))
            write = GroupWrite(f"g{shard}", lease.shard_id, committed=(record,))
            stored = partial(self.stored.append, number)
            self.writer.enqueue(Entry(lease, write, write.row_count, stored, self.failed_with(number, lease)))

    def failed_with(self, number: int, lease: Lease) -> Callable[[CoordinatorError], None]:
        """Return the callback of a failed write: the shard is unloaded, and its requests fail."""

        def reported(error: CoordinatorError) -> None:
            lease.is_unloaded = True
            self.failed.append((number, error))

        return reported


def positions(batch: Batch) -> list[int]:
    """Return the positions that a batch commits."""
    return [committed.offset for write in batch.writes for committed in write.committed_offsets]


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


@asynccontextmanager
async def writer_with(store: WatchedStore) -> AsyncIterator[WriteRecorder]:
    """Run a writer that holds the leases of two shards; its first commit, 0, is under way and held."""
    epochs = store.acquire_leases(NODE, [1, 2], 60_000)
    leases = [Lease(shard, epoch) for shard, epoch in sorted(epochs.items())]
    threads = CountedThreads()
    writer = Writer(store, NODE, SystemClock(), threads, Counters(), max_batch_rows=100, prepare_ahead_rows=AHEAD_ROWS)
    running = asyncio.create_task(writer.run())
    recorder = WriteRecorder(writer, threads, running, leases)
    store.go.clear()
    recorder.commit(0)
    await asyncio.to_thread(store.is_writing.wait)
    try:
        yield recorder
    finally:
        store.go.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        threads.close()


async def test_enough_rows_are_prepared_while_a_write_is_under_way(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1, 2)
        await until(lambda: store.prepared == [[1, 2]], "two are prepared")
        recorder.commit(3, 4, 5)
        store.go.set()
        await until(lambda: recorder.stored == [0, 1, 2, 3, 4, 5], "all are stored")
        assert store.prepared[0] == [1, 2]
        assert [number for batch in store.written for number in batch] == [0, 1, 2, 3, 4, 5]
        assert recorder.failed == []


async def test_fewer_rows_wait_for_the_write_that_takes_them_all(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1)
        store.go.set()
        await until(lambda: recorder.stored == [0, 1], "both are stored")
        assert store.prepared == []


async def test_no_write_follows_an_incomplete_write(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1)
        store.refused = {"g0": "not this one"}
        store.go.set()
        await until(lambda: len(recorder.failed) == 2, "both have failed")
        assert store.written == [[0]]


async def test_prepared_rows_of_a_lost_shard_are_not_written(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1)
        recorder.commit(2, shard=1)
        await until(lambda: store.prepared == [[1, 2]], "two are prepared")
        recorder.leases[0].is_unloaded = True
        store.go.set()
        await until(lambda: 2 in recorder.stored, "the other shard's is stored")
        assert store.written == [[0], [2]]
        assert [(number, type(error)) for number, error in recorder.failed] == [(1, NotCoordinator)]


async def test_prepared_rows_behind_a_failed_write_are_not_written(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        store.failure = StoreUnavailable("gone")
        recorder.commit(1, 2)
        await until(lambda: store.prepared == [[1, 2]], "two are prepared")
        store.go.set()
        await until(lambda: len(recorder.failed) == 3, "all have failed")
        assert store.written == []
        assert recorder.stored == []


async def test_a_prepared_write_begins_while_the_loop_is_busy(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1, 2)
        await until(lambda: recorder.threads.writes == 2, "the second waits behind the first")
        store.go.set()
        assert store.is_second_written.wait(PATIENCE_S), "nothing was written while the loop was blocked"
        assert recorder.stored == []
        await until(lambda: recorder.stored == [0, 1, 2], "all are stored, in their order")


async def test_prepared_write_does_not_follow_an_incomplete_write(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1)
        recorder.commit(2, shard=1)
        await until(lambda: recorder.threads.writes == 2, "the second waits behind the first")
        store.refused = {"g0": "not this one"}
        store.go.set()
        await until(lambda: recorder.stored == [2], "the other shard's is stored")
        assert store.written == [[0], [2]]
        assert [number for number, _ in recorder.failed] == [0, 1]


async def test_queued_rows_of_an_unloaded_shard_are_not_written(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1)
        recorder.commit(2, shard=1)
        await until(lambda: recorder.threads.writes == 2, "the second waits behind the first")
        recorder.leases[0].is_unloaded = True
        store.go.set()
        await until(lambda: 2 in recorder.stored, "the other shard's is stored")
        assert store.written == [[0], [2]]


async def test_queued_writes_are_failed_when_the_writer_stops(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1, 2)
        await until(lambda: recorder.threads.writes == 2, "the second waits behind the first")
        recorder.running.cancel()
        await asyncio.wait([recorder.running])
        store.go.set()
        await recorder.threads.write(lambda: None)
        assert store.written == [[0]]


async def test_a_writer_may_be_stopped_while_it_waits_for_what_is_prepared(store: WatchedStore) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with writer_with(store) as recorder:
        recorder.threads.is_preparing_slow = True
        recorder.commit(1, 2)
        store.go.set()
        await until(lambda: recorder.stored == [0], "the first is stored")
        recorder.running.cancel()
        await asyncio.wait([recorder.running])
    assert complaints == []


async def test_writer_survives_unexpected_errors(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        store.failure = RuntimeError("unexpected")  # type: ignore[assignment]  # nor does the store's contract
        store.go.set()
        await until(lambda: [number for number, _ in recorder.failed] == [0], "the waiting request fails")
        assert isinstance(recorder.failed[0][1], CoordinatorNotAvailable)
        recorder.commit(1, shard=1)
        await until(lambda: recorder.stored == [1], "the writer goes on")


async def test_rows_of_lost_shards_are_dropped_while_prepared(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1, 2)
        recorder.leases[0].is_unloaded = True
        store.go.set()
        await until(lambda: len(recorder.failed) == 2, "both have failed")
        recorder.commit(3, shard=1)
        await until(lambda: 3 in recorder.stored, "the writer goes on")
        assert store.written == [[0], [3]]


async def test_no_rows_are_prepared_for_a_lost_shard(store: WatchedStore) -> None:
    async with writer_with(store) as recorder:
        recorder.commit(1)
        recorder.leases[0].is_unloaded = True
        recorder.commit(2)
        store.go.set()
        await until(lambda: len(recorder.failed) == 2, "both have failed")
        assert store.prepared == []
        recorder.commit(3, shard=1)
        await until(lambda: 3 in recorder.stored, "the writer goes on")
        assert store.written == [[0], [3]]
