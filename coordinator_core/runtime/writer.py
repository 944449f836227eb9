"""Write batching: decisions queue while a transaction is under way, and the next transaction stores all of them.

Entries are stored in the order of the queue. For each entry the event loop calls `on_stored` once when it is in the
database, or `on_failed` when it is not stored or the outcome is unknown.

One transaction is under way at a time. When enough rows have been queued meanwhile, the next batch is prepared on
another thread and takes no more entries. The writer's thread starts it as soon as the one before is stored completely,
so the database waits neither for rows to be encoded nor for the event loop. If a part of the one before was not stored,
the event loop first removes the entries of unloaded shards.

Source: ARCHITECTURE.md "The path of a request".
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.clock import Clock, Threads
from coordinator_core.runtime.counters import Counters
from coordinator_core.store.interface import Store, StoreError
from coordinator_core.store.rows import Batch, GroupWrite, WriteResult

log = structlog.get_logger("muster.runtime")


class Lease(Protocol):
    """The right to write to a shard under one epoch; it ends when the shard is unloaded."""

    shard_id: int
    epoch: int

    @property
    def is_unloaded(self) -> bool:
        """Whether the shard was unloaded since."""
        ...


class Entry(NamedTuple):
    """The rows of one decision, and the callbacks for their outcome."""

    lease: Lease
    write: GroupWrite
    rows: int
    on_stored: Callable[[], None]
    on_failed: Callable[[CoordinatorError], None]


class WriteBatch:
    """One transaction: its entries, and its progress."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.prepared: asyncio.Future[Callable[[], WriteResult]] | None = None
        """The call that writes, if the batch is prepared ahead."""
        self.before: WriteBatch | None = None
        """The batch behind which this one is queued once it is prepared."""
        self.early: asyncio.Future[WriteResult | None] | None = None
        """The result, if the batch was queued on the writer's thread ahead; its value None: nothing was written."""
        self.is_whole = False
        """Whether every entry is stored; set and read on the writer's thread."""

    def write(self, write: Callable[[], WriteResult]) -> WriteResult:
        """Write; called on the writer's thread."""
        written = write()
        self.is_whole = not written.lost_shards and not written.refused_groups
        return written

    def write_behind(self, before: "WriteBatch", write: Callable[[], WriteResult]) -> WriteResult | None:
        """Write unless the event loop has to check the entries again, and return None then; on the writer's thread."""
        if not before.is_whole or any(entry.lease.is_unloaded for entry in self.entries):
            return None
        return self.write(write)


class Writer:
    """The queue of entries, and the loop that writes them in batches."""

    def __init__(
        self,
        store: Store,
        node_id: str,
        clock: Clock,
        threads: Threads,
        counters: Counters,
        *,
        max_batch_rows: int,
        prepare_ahead_rows: int,
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._clock = clock
        self._threads = threads
        self._counters = counters
        self._max_batch_rows = max_batch_rows
        self._prepare_ahead_rows = prepare_ahead_rows
        self._queue: deque[Entry] = deque()
        self._wake = asyncio.Event()
        self._under_way: WriteBatch | None = None
        self._next: WriteBatch | None = None
        self._began_ms: int | None = None
        self.queued_rows = 0
        """Rows that no transaction has taken yet."""

    def busy_ms(self) -> int:
        """Return how long the transaction under way has lasted; 0 if there is none."""
        return 0 if self._began_ms is None else self._clock.now().node_ms - self._began_ms

    def enqueue(self, entry: Entry) -> None:
        """Queue an entry behind all others."""
        self._queue.append(entry)
        self.queued_rows += entry.rows
        self._wake.set()
        if self._under_way and not self._next and self.queued_rows >= self._prepare_ahead_rows:
            self._prepare_behind(self._under_way)

    async def run(self) -> None:
        """Write batches for ever."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue or self._next:
                    self._under_way, self._next = self._next or WriteBatch(self._take_entries()), None
                    await self._write(self._under_way)
                self._under_way = None
        finally:
            if self._next and self._next.early:
                self._next.early.cancel()
            self._under_way = self._next = None

    def _prepare_behind(self, before: WriteBatch) -> None:
        batch = WriteBatch(self._take_entries())
        if batch.entries:
            batch.before = before
            batch.prepared = self._threads.prepare(partial(self._store.prepare, self._rows_of(batch.entries)))
            batch.prepared.add_done_callback(lambda _: self._queue_behind(batch))
            self._next = batch

    def _queue_behind(self, batch: WriteBatch) -> None:
        """Queue a prepared batch on the writer's thread, which starts it without waiting for the event loop."""
        prepared, before, batch.before = batch.prepared, batch.before, None
        is_awaited = batch in (self._under_way, self._next)
        if is_awaited and before and prepared and not prepared.cancelled() and not prepared.exception():
            batch.early = self._threads.write(partial(batch.write_behind, before, prepared.result()))

    async def _written_early(self, batch: WriteBatch) -> WriteResult | None:
        """Return the result of a batch that was prepared ahead; None if nothing of it was written."""
        if batch.prepared is None:
            return None
        await batch.prepared
        self._queue_behind(batch)  # no effect if the callback has done it
        return None if batch.early is None else await batch.early

    async def _write(self, batch: WriteBatch) -> None:
        """Write a batch, and report the outcome to every entry; raises nothing."""
        try:
            began_ms = self._began_ms = self._clock.now().node_ms
            written = await self._written_early(batch)
            if written is None:
                batch.entries = _without_unloaded(batch.entries)
                if not batch.entries:
                    return
                write = partial(self._store.write, self._rows_of(batch.entries))
                written = await self._threads.write(partial(batch.write, write))
            self._counters.batch_s.add((self._clock.now().node_ms - began_ms) / 1000)
            self._counters.batch_rows.add(sum(entry.rows for entry in batch.entries))
            _notify(batch.entries, written)
        except StoreError as error:
            self._counters.batches_failed += 1
            _fail_all(batch.entries, f"the database did not store the write: {error}")
        except Exception:  # any error: without the writer's loop the node stores nothing any more
            log.exception("write_failed", entries=len(batch.entries))
            _fail_all(batch.entries, "the node failed to write it; its log has the traceback")
        finally:
            self._began_ms = None

    def _take_entries(self) -> list[Entry]:
        """Take entries up to the row limit, at least one; entries of unloaded shards fail."""
        taken: list[Entry] = []
        rows = 0
        while self._queue and (not taken or rows + self._queue[0].rows <= self._max_batch_rows):
            entry = self._queue.popleft()
            self.queued_rows -= entry.rows
            if not _fail_if_unloaded(entry):
                taken.append(entry)
                rows += entry.rows
        return taken

    def _rows_of(self, entries: Sequence[Entry]) -> Batch:
        epochs = {entry.lease.shard_id: entry.lease.epoch for entry in entries}
        return Batch(self._node_id, epochs, tuple([entry.write for entry in entries]))


def _notify(entries: Sequence[Entry], written: WriteResult) -> None:
    """Report the outcome to every entry."""
    for entry in entries:
        failure = _failure(entry, written.lost_shards, written)
        if failure is None:
            entry.on_stored()
        else:
            entry.on_failed(failure)


def _without_unloaded(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if not _fail_if_unloaded(entry)]


def _fail_if_unloaded(entry: Entry) -> bool:
    """Fail an entry if its shard was unloaded since; return whether it was."""
    if entry.lease.is_unloaded:
        entry.on_failed(NotCoordinator("the shard was unloaded on this node"))
    return entry.lease.is_unloaded


def _fail_all(entries: Sequence[Entry], why: str) -> None:
    for entry in entries:
        entry.on_failed(CoordinatorNotAvailable(why))


def _failure(entry: Entry, lost: frozenset[int], written: WriteResult) -> CoordinatorError | None:
    if entry.lease.shard_id in lost:
        return NotCoordinator("the lease on the shard was lost: another node owns it, or the database was restored")
    refused: Mapping[str, str] = written.refused_groups
    if entry.write.group_id in refused:
        return CoordinatorNotAvailable(f"the database refused it: {refused[entry.write.group_id]}")
    return None
