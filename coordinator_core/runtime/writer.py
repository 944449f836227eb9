"""Group commit: while a transaction is under way, decisions queue; the next transaction takes all of them.

Entries are stored in the order they came in. Each has somebody waiting for it: `on_stored` is called once, on the
loop, when the entry is in the database, or `on_failed` when it is not (or nobody can tell).

One transaction is under way at a time. Where enough rows have come together meanwhile, the next one is prepared beside
it and takes no more in from then on. It begins in the moment in which the one before is stored whole, so that the
database waits neither for rows to be written out nor for the loop. If anything was amiss, the loop looks at it first.

Source: ARCHITECTURE.md "Where a request goes".
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


class Turn:
    """One transaction: whose decisions are in it, and how far it is."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.prepared: asyncio.Future[Callable[[], Written]] | None = None
        """The call that writes, where it is made ready beforehand."""
        self.before: Turn | None = None
        """The turn that it is to be queued behind as soon as it is prepared."""
        self.early: asyncio.Future[Written | None] | None = None
        """What came of it where it was queued beforehand; None in it: nothing was written."""
        self.is_whole = False
        """Whether all of it is stored; set on the writer's thread, in which the next turn asks."""

    def write(self, write: Callable[[], Written]) -> Written:
        """Write, on the writer's thread."""
        written = write()
        self.is_whole = not written.lost_shards and not written.refused_groups
        return written

    def write_behind(self, before: "Turn", write: Callable[[], Written]) -> Written | None:
        """Write, on the writer's thread, unless the loop has to look at it once more before."""
        if not before.is_whole or any(entry.lease.is_dropped for entry in self.entries):
            return None
        return self.write(write)


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
        self._under_way: Turn | None = None
        self._next: Turn | None = None
        self._began_ms: int | None = None
        self.queued_rows = 0
        """Rows that no transaction has taken yet."""

    def busy_ms(self) -> int:
        """Return for how long the transaction under way has been so; 0 where there is none."""
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
                    self._under_way, self._next = self._next or Turn(self._take_batch()), None
                    await self._write(self._under_way)
                self._under_way = None
        finally:
            if self._next and self._next.early:
                self._next.early.cancel()
            self._under_way = self._next = None

    def _prepare_behind(self, before: Turn) -> None:
        turn = Turn(self._take_batch())
        if turn.entries:
            turn.before = before
            turn.prepared = self._threads.prepare(partial(self._store.prepare, self._batch(turn.entries)))
            turn.prepared.add_done_callback(lambda _: self._queue_behind(turn))
            self._next = turn

    def _queue_behind(self, turn: Turn) -> None:
        """Queue a prepared turn on the writer's thread, where no loop has to come round before it begins."""
        prepared, before, turn.before = turn.prepared, turn.before, None
        is_awaited = turn in (self._under_way, self._next)
        if is_awaited and before and prepared and not prepared.cancelled() and not prepared.exception():
            turn.early = self._threads.write(partial(turn.write_behind, before, prepared.result()))

    async def _written_early(self, turn: Turn) -> Written | None:
        """Return what came of a turn that was prepared; None: nothing of it was written."""
        if turn.prepared is None:
            return None
        await turn.prepared
        self._queue_behind(turn)  # unless that was done since
        return None if turn.early is None else await turn.early

    async def _write(self, turn: Turn) -> None:
        """Bring a turn to its end, whatever comes of it."""
        try:
            began_ms = self._began_ms = self._clock.now().node_ms
            written = await self._written_early(turn)
            if written is None:
                turn.entries = _let_dropped_go(turn.entries)
                if not turn.entries:
                    return
                write = partial(self._store.write, self._batch(turn.entries))
                written = await self._threads.write(partial(turn.write, write))
            self._counters.batch_s.add((self._clock.now().node_ms - began_ms) / 1000)
            self._counters.batch_rows.add(sum(entry.rows for entry in turn.entries))
            _tell(turn.entries, written)
        except StoreError as error:
            self._counters.batches_failed += 1
            _fail_all(turn.entries, f"the database did not take it: {error}")
        except Exception:  # whatever it is, nobody else would store anything any more if the writer ended of it
            log.exception("write_broke", entries=len(turn.entries))
            _fail_all(turn.entries, "the node could not write it")
        finally:
            self._began_ms = None

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


def _tell(entries: Sequence[Entry], written: Written) -> None:
    """Tell everybody who waits what came of it."""
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
        return NotCoordinator("the lease on the shard is over: another node owns it, or the database was restored")
    refused: Mapping[str, str] = written.refused_groups
    if entry.write.group_id in refused:
        return CoordinatorNotAvailable(f"the database refused it: {refused[entry.write.group_id]}")
    return None
