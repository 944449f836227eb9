"""Write batching (group commit): decisions queue during a transaction, and the next transaction stores all of them.

A batch is taken when the event loop has nothing more to queue (decision 104).
Each client has a queue of its own, and a batch takes entries from all of them in turn, so that the many rows of one
client delay another's by one batch at most. Entries of one group are stored in their order, also those of several
clients. For each entry the event loop calls `on_stored` once when it is in the database, or `on_failed` when it is not
stored or the outcome is unknown. One transaction is under way at a time.

Source: ARCHITECTURE.md "The path of a request".
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.clock import Clock, Threads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.current_request import current_client
from coordinator_core.runtime.memory import end_if_out_of_memory
from coordinator_core.runtime.quarantine import WriteRefused
from coordinator_core.runtime.readiness import FailureStreak
from coordinator_core.state_store.interface import Store, StoreError
from coordinator_core.state_store.rows import Batch, GroupWrite, WriteResult

log = structlog.get_logger("muster.runtime")

QUANTUM_ROWS: Final = 250
"""The rows that a batch takes from one client before it takes some of the next one."""
LINGER_ITERATIONS: Final = 4
"""A batch waits until so many iterations of the event loop, one after the other, have queued nothing."""
LINGER_MAX_S: Final = 0.005
"""How long a batch waits at most, in seconds: as Kafka's ``group.coordinator.append.linger.ms``."""
MAX_SHARE: Final = 3
"""How many times the free rows of the queue one client may have in it: three quarters of an otherwise empty queue."""


class Lease(Protocol):
    """The right to write to a shard under one epoch; it ends when the shard is unloaded."""

    shard_id: int
    epoch: int

    @property
    def is_unloaded(self) -> bool:
        """Whether the shard was unloaded since."""
        ...


class Entry(Protocol):
    """The rows of one decision, and what is to be done when their outcome is known."""

    @property
    def lease(self) -> Lease:
        """The right to write them."""
        ...

    write: GroupWrite
    rows: int
    size_bytes: int
    """The metadata and assignments in them."""
    queue: "ClientQueue"
    """Where it waits; set by the writer."""

    def on_stored(self, log_position: int, node_ms: int) -> None:
        """Go on: the rows are stored, their commits at this position of the offset log, at this node time."""
        ...

    def on_failed(self, error: CoordinatorError) -> None:
        """Go on: the rows are not stored, or it is not known whether they are."""
        ...


class ClientQueue:
    """The queued entries of one client."""

    __slots__ = ("credit_rows", "entries", "rows", "size_bytes")

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()
        self.rows = 0
        self.size_bytes = 0
        self.credit_rows = 0
        """The rows that the client may still write before it is the next one's turn (deficit round robin)."""


class Writer:
    """The queues of entries, and the loop that writes them in batches."""

    def __init__(self, store: Store, config: NodeConfig, clock: Clock, threads: Threads, counters: Counters) -> None:
        self._store = store
        self._node_id = config.node_id
        self._clock = clock
        self._threads = threads
        self._counters = counters
        self._max_batch_rows = config.max_batch_rows
        self._max_queued_rows = config.max_queued_rows
        self._max_queued_bytes = config.max_queued_bytes
        self._queues: dict[str, ClientQueue] = {}
        """Client → its entries, for clients that have any; the next one to serve first."""
        self._last_of: dict[str, Entry] = {}
        """Group with queued entries → the last of them."""
        self._wake = asyncio.Event()
        self._began_ms: int | None = None
        self.failures = FailureStreak("writes fail", clock)
        self.queued_rows = 0
        """Rows that no transaction has taken yet."""
        self._expected_rows = 0
        """Rows of commits that have arrived in this iteration of the event loop, and are not decided yet."""
        self._expected_of: dict[str, int] = {}
        """Client → its expected rows, for clients that have any."""
        self.queued_bytes = 0
        """The metadata and assignments in the queued rows."""

    def busy_ms(self) -> int:
        """Return how long the transaction under way has lasted; 0 if there is none."""
        return 0 if self._began_ms is None else self._clock.now().node_ms - self._began_ms

    def is_full(self) -> bool:
        """Return whether the current client may queue no more: the queue is full, or its share of it."""
        all_rows = self.queued_rows + self._expected_rows
        has_space = all_rows * 2 < self._max_queued_rows and self.queued_bytes * 2 < self._max_queued_bytes
        if has_space:  # Nearly always: no client has more than is free.
            return False
        client = current_client.get()
        queue = self._queues.get(client)
        own_rows, own_bytes = (0, 0) if queue is None else (queue.rows, queue.size_bytes)
        free_rows, free_bytes = self._max_queued_rows - all_rows, self._max_queued_bytes - self.queued_bytes
        own_rows += self._expected_of.get(client, 0)
        return own_rows > MAX_SHARE * free_rows or own_bytes > MAX_SHARE * free_bytes

    def expect(self, rows: int) -> None:
        """Count so many rows of the current client, which are decided in a moment; negative: they are decided now."""
        client = current_client.get()
        self._expected_rows += rows
        self._expected_of[client] = left = self._expected_of.get(client, 0) + rows
        if not left:
            del self._expected_of[client]

    def largest_queue(self) -> tuple[int, int]:
        """Return the most rows, and the most bytes, that one client has in the queue."""
        queues = self._queues.values()
        rows = max((queue.rows for queue in queues), default=0)
        return rows, max((queue.size_bytes for queue in queues), default=0)

    def enqueue(self, entry: Entry) -> None:
        """Queue an entry behind all others of its client, and of its group."""
        group_id = entry.write.group_id
        last = self._last_of.get(group_id)
        queue = self._own_queue() if last is None else last.queue
        self._last_of[group_id] = entry
        entry.queue = queue
        queue.entries.append(entry)
        rows, size_bytes = entry.rows, entry.size_bytes
        queue.rows += rows
        queue.size_bytes += size_bytes
        self.queued_rows += rows
        self.queued_bytes += size_bytes

    def _own_queue(self) -> ClientQueue:
        """Return the queue of the current client."""
        client = current_client.get()
        queue = self._queues.get(client)
        if queue is None:
            queue = self._queues[client] = ClientQueue()
            self._wake.set()
        return queue

    async def run(self) -> None:
        """Write batches, without end."""
        while True:
            while self._queues:
                await self._linger()
                await self._write(self._take_entries())
            self._wake.clear()
            await self._wake.wait()

    async def _linger(self) -> None:
        """Let the event loop queue what arrives, so that one batch has all of it; a client alone waits some µs."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LINGER_MAX_S
        idle = 0
        while idle < LINGER_ITERATIONS and self.queued_rows < self._max_batch_rows and loop.time() < until_s:
            rows = self.queued_rows
            await asyncio.sleep(0)
            idle = 0 if self.queued_rows > rows else idle + 1

    async def _write(self, entries: Sequence[Entry]) -> None:
        """Write entries, and report the outcome to each; raises nothing."""
        if not entries:
            return
        began_ms = self._began_ms = self._clock.now().node_ms
        epochs = {entry.lease.shard_id: entry.lease.epoch for entry in entries}
        batch = Batch(self._node_id, epochs, tuple([entry.write for entry in entries]))
        try:
            written = await self._threads.write(partial(self._store.write, batch))
            ended_ms = self._clock.now().node_ms
            self.failures.end()
            self._counters.batch_s.add((ended_ms - began_ms) / 1000)
            self._counters.batch_rows.add(sum([entry.rows for entry in entries]))
            _notify(entries, written, ended_ms)
        except StoreError as error:
            self._counters.batches_failed += 1
            self.failures.add(error)
            if not self.failures.is_repeated:
                log.warning("batch_failed", entries=len(entries), reason=str(error))
            _fail_all(entries, f"the database did not store the write: {error.summary}")
        except Exception as error:  # any error: without the writer's loop the node stores nothing any more
            end_if_out_of_memory(error)
            log.exception("write_failed", entries=len(entries))
            _fail_all(entries, "the node failed to write it; its log has the traceback")
        finally:
            self._began_ms = None

    def _take_entries(self) -> list[Entry]:
        """Take entries of all clients in turn up to the row limit, at least one; entries of unloaded shards fail."""
        taken: list[Entry] = []
        rows = 0
        while self._queues:
            client, queue = next(iter(self._queues.items()))
            queue.credit_rows += QUANTUM_ROWS
            while queue.entries and (queue.entries[0].rows <= queue.credit_rows or len(self._queues) == 1):
                if taken and rows + queue.entries[0].rows > self._max_batch_rows:
                    queue.credit_rows -= QUANTUM_ROWS  # Its turn goes on in the next batch.
                    return taken
                entry = self._take(queue)
                if entry.lease.is_unloaded:
                    entry.on_failed(NotCoordinator("the shard was unloaded on this node"))
                else:
                    taken.append(entry)
                    rows += entry.rows
            del self._queues[client]
            if queue.entries:
                self._queues[client] = queue  # Behind the others.
        return taken

    def _take(self, queue: ClientQueue) -> Entry:
        entry = queue.entries.popleft()
        rows, size_bytes = entry.rows, entry.size_bytes
        queue.rows -= rows
        queue.size_bytes -= size_bytes
        self.queued_rows -= rows
        self.queued_bytes -= size_bytes
        queue.credit_rows = max(0, queue.credit_rows - rows)  # Alone, a client takes more than its credit.
        if self._last_of[entry.write.group_id] is entry:
            del self._last_of[entry.write.group_id]
        return entry


def _notify(entries: Sequence[Entry], written: WriteResult, node_ms: int) -> None:
    """Report the outcome to every entry."""
    is_complete = not written.lost_shards and not written.refused_groups
    for entry in entries:
        failure = None if is_complete else _failure(entry, written)
        if failure is None:
            entry.on_stored(written.log_position, node_ms)
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
        return WriteRefused("the database refused a value of the write")
    return None
