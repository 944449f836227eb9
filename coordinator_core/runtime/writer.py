"""Group commit: while a transaction is under way, decisions queue; the next transaction takes all of them.

Entries are stored in the order they came in. Each has somebody waiting for it: `on_stored` is called once, on the
loop, when the entry is in the database, or `on_failed` when it is not (or nobody can tell).

One transaction is under way at a time. Where enough rows have come together meanwhile, the next one is prepared beside
it, so that the database does not wait for rows to be written out; it takes no more in from then on.

Source: architecture.md "Group commit".
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.clock import Clock, Threads
from coordinator_core.runtime.counters import Counters
from coordinator_core.store.interface import Store, StoreError
from coordinator_core.store.rows import Batch, GroupWrite, Written

log = structlog.get_logger("muster.runtime")


class Lease(Protocol):
    """The right to write to a shard, as of some epoch; lost for good once it is dropped."""

    shard_id: int
    epoch: int

    @property
    def is_dropped(self) -> bool:
        """Tell whether the shard was given up since."""
        ...


class Entry(NamedTuple):
    """One decision's rows, and who waits for them."""

    lease: Lease
    write: GroupWrite
    rows: int
    on_stored: Callable[[], None]
    on_failed: Callable[[CoordinatorError], None]


class Ahead(NamedTuple):
    """The next transaction, which is being prepared."""

    entries: list[Entry]
    ready: Awaitable[Callable[[], Written]]


class Writer:
    """The queue in front of the database, and the loop that empties it."""

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
        self._is_writing = False
        self._ahead: Ahead | None = None
        self.queued_rows = 0
        """Rows that no transaction has taken yet."""

    def enqueue(self, entry: Entry) -> None:
        """Queue an entry behind all others."""
        self._queue.append(entry)
        self.queued_rows += entry.rows
        self._wake.set()
        if self._is_writing and self._ahead is None and self.queued_rows >= self._prepare_ahead_rows:
            self._prepare_ahead()

    async def run(self) -> None:
        """Write batches for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue or self._ahead:
                self._is_writing = True
                await self._write_next()
                self._is_writing = False

    def _prepare_ahead(self) -> None:
        entries = self._take_batch()
        if entries:
            prepare = partial(self._store.prepare, self._batch(entries))
            self._ahead = Ahead(entries, self._threads.prepare(prepare))

    async def _write_next(self) -> None:
        ahead, self._ahead = self._ahead, None
        entries = self._take_batch() if ahead is None else _let_dropped_go(ahead.entries)
        if not entries:
            return
        write: Callable[[], Written] = partial(self._store.write, self._batch(entries))
        try:
            if ahead is not None and len(entries) == len(ahead.entries):
                write = await ahead.ready
            await self._write_batch(entries, write)
        except Exception:  # whatever it is, nobody else would store anything any more if the writer ended of it
            log.exception("write_broke", entries=len(entries))
            _fail_all(entries, "the node could not write it")

    def _take_batch(self) -> list[Entry]:
        """Take entries up to the row limit, at least one; those whose shard was dropped since are let go."""
        taken: list[Entry] = []
        rows = 0
        while self._queue and (not taken or rows + self._queue[0].rows <= self._max_batch_rows):
            entry = self._queue.popleft()
            self.queued_rows -= entry.rows
            if not _is_let_go(entry):
                taken.append(entry)
                rows += entry.rows
        return taken

    def _batch(self, entries: Sequence[Entry]) -> Batch:
        epochs = {entry.lease.shard_id: entry.lease.epoch for entry in entries}
        return Batch(self._node_id, epochs, tuple([entry.write for entry in entries]))

    async def _write_batch(self, entries: Sequence[Entry], write: Callable[[], Written]) -> None:
        began_ms = self._clock.now().node_ms
        try:
            written = await self._threads.write(write)
        except StoreError as error:
            self._counters.batches_failed += 1
            _fail_all(entries, f"the database did not take it: {error}")
            return
        self._counters.batch_s.add((self._clock.now().node_ms - began_ms) / 1000)
        self._counters.batch_rows.add(sum(entry.rows for entry in entries))
        for entry in entries:
            failure = _failure(entry, written.lost_shards, written)
            if failure is None:
                entry.on_stored()
            else:
                entry.on_failed(failure)


def _let_dropped_go(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if not _is_let_go(entry)]


def _is_let_go(entry: Entry) -> bool:
    """Tell whoever waits for an entry of a shard that was dropped since, and return whether that was so."""
    if entry.lease.is_dropped:
        entry.on_failed(NotCoordinator("the shard has moved on"))
    return entry.lease.is_dropped


def _fail_all(entries: Sequence[Entry], why: str) -> None:
    for entry in entries:
        entry.on_failed(CoordinatorNotAvailable(why))


def _failure(entry: Entry, lost: frozenset[int], written: Written) -> CoordinatorError | None:
    if entry.lease.shard_id in lost:
        return NotCoordinator("another node owns the shard now")
    refused: Mapping[str, str] = written.refused_groups
    if entry.write.group_id in refused:
        return CoordinatorNotAvailable(f"the database refused it: {refused[entry.write.group_id]}")
    return None
