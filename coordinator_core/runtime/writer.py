"""Write batching: decisions queue while a transaction is under way, and the next transaction stores all of them.

Entries are stored in the order of the queue. For each entry the event loop calls `on_stored` once when it is in the
database, or `on_failed` when it is not stored or the outcome is unknown. One transaction is under way at a time.

Source: ARCHITECTURE.md "The path of a request".
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.clock import Clock, Threads
from coordinator_core.runtime.counters import Counters
from coordinator_core.state_store.interface import Store, StoreError
from coordinator_core.state_store.rows import Batch, GroupWrite, WriteResult

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
    on_stored: Callable[[int], None]
    """Takes the position of the batch in the offset log."""
    on_failed: Callable[[CoordinatorError], None]


class Writer:
    """The queue of entries, and the loop that writes them in batches."""

    def __init__(
        self, store: Store, node_id: str, clock: Clock, threads: Threads, counters: Counters, *, max_batch_rows: int
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._clock = clock
        self._threads = threads
        self._counters = counters
        self._max_batch_rows = max_batch_rows
        self._queue: deque[Entry] = deque()
        self._wake = asyncio.Event()
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

    async def run(self) -> None:
        """Write batches for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._write(self._take_entries())

    async def _write(self, entries: Sequence[Entry]) -> None:
        """Write entries, and report the outcome to each; raises nothing."""
        if not entries:
            return
        began_ms = self._began_ms = self._clock.now().node_ms
        epochs = {entry.lease.shard_id: entry.lease.epoch for entry in entries}
        batch = Batch(self._node_id, epochs, tuple([entry.write for entry in entries]))
        try:
            written = await self._threads.write(partial(self._store.write, batch))
            self._counters.batch_s.add((self._clock.now().node_ms - began_ms) / 1000)
            self._counters.batch_rows.add(sum(entry.rows for entry in entries))
            _notify(entries, written)
        except StoreError as error:
            self._counters.batches_failed += 1
            log.warning("batch_failed", entries=len(entries), reason=str(error))
            _fail_all(entries, f"the database did not store the write: {error.summary}")
        except Exception:  # any error: without the writer's loop the node stores nothing any more
            log.exception("write_failed", entries=len(entries))
            _fail_all(entries, "the node failed to write it; its log has the traceback")
        finally:
            self._began_ms = None

    def _take_entries(self) -> list[Entry]:
        """Take entries up to the row limit, at least one; entries of unloaded shards fail."""
        taken: list[Entry] = []
        rows = 0
        while self._queue and (not taken or rows + self._queue[0].rows <= self._max_batch_rows):
            entry = self._queue.popleft()
            self.queued_rows -= entry.rows
            if entry.lease.is_unloaded:
                entry.on_failed(NotCoordinator("the shard was unloaded on this node"))
            else:
                taken.append(entry)
                rows += entry.rows
        return taken


def _notify(entries: Sequence[Entry], written: WriteResult) -> None:
    """Report the outcome to every entry."""
    for entry in entries:
        failure = _failure(entry, written)
        if failure is None:
            entry.on_stored(written.log_position)
        else:
            entry.on_failed(failure)


def _fail_all(entries: Sequence[Entry], why: str) -> None:
    for entry in entries:
        entry.on_failed(CoordinatorNotAvailable(why))


def _failure(entry: Entry, written: WriteResult) -> CoordinatorError | None:
    if entry.lease.shard_id in written.lost_shards:
        return NotCoordinator("the lease on the shard was lost: another node owns it, or the database was restored")
    if entry.write.group_id in written.refused_groups:
        group_id = entry.write.group_id
        log.warning("write_refused", group=group_id, reason=written.refused_groups[group_id])
        return CoordinatorNotAvailable("the database refused a value of the write")
    return None
