"""The write queue is fair between clients and limited in rows and bytes, in all and for each client."""

import asyncio
from collections.abc import Sequence

import pytest

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.runtime.background_tasks import restart_on_error
from coordinator_core.runtime.clock import SystemClock, SystemThreads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.current_request import current_client
from coordinator_core.runtime.writer import ClientQueue, Entry, Writer
from coordinator_core.state_store.offset_log import LoggedCommits, encode
from coordinator_core.state_store.rows import Batch, GroupWrite, WriteResult
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S, limited
from tests.unit.coordinator_core.runtime.nodes import until


class Lease:
    """A valid lease."""

    shard_id = 0
    epoch = 1
    is_unloaded = False


class BrokenLease(Lease):
    """A lease for which the loop of the writer has a bug."""

    @property
    def is_unloaded(self) -> bool:  # type: ignore[override]  # an attribute elsewhere
        raise RuntimeError("a bug")


class Decided:
    """An entry of a number of rows, however many it has."""

    lease: Lease = Lease()
    queue: ClientQueue

    def __init__(self, write: GroupWrite, rows: int) -> None:
        self.write = write
        self.rows = rows
        _, self.size_bytes = write.size

    def on_stored(self, log_position: int, node_ms: int) -> None:
        """Do nothing."""

    def on_failed(self, error: CoordinatorError) -> None:
        """Fail the test."""
        raise AssertionError(error)


def writer(store: MemoryStore | None = None, **limits: int) -> Writer:
    config = NodeConfig("a", {}, **limits)  # type: ignore[arg-type]  # the limits are numbers
    return Writer(store or MemoryStore(), config, SystemClock(), SystemThreads(1), Counters())


def enqueue(queue: Writer, client: str, group_id: str, rows: int, metadata: str = "") -> None:
    commit = OffsetsCommitted(0, "m", None, (OffsetToCommit("t", 0, rows, metadata=metadata),))
    token = current_client.set(client)
    write = GroupWrite(group_id, 0, logged=encode(LoggedCommits(0, group_id, (commit,))))
    queue.enqueue(Decided(write, rows))
    current_client.reset(token)


def batches(queue: Writer) -> list[list[str]]:
    """Return the groups of each batch, in order."""
    taken: list[list[str]] = []
    while queue.queued_rows:
        taken.append(_groups(queue._take_entries()))
    return taken


def _groups(entries: Sequence[Entry]) -> list[str]:
    return [entry.write.group_id for entry in entries]


def is_full(queue: Writer, client: str) -> bool:
    token = current_client.set(client)
    try:
        return queue.is_full()
    finally:
        current_client.reset(token)


def test_many_rows_of_one_client_do_not_delay_the_rows_of_another() -> None:
    queue = writer(max_batch_rows=1_000)
    for number in range(10):
        enqueue(queue, "busy", f"busy-{number}", 500)
    enqueue(queue, "calm", "calm", 1)
    assert batches(queue)[0] == ["calm", "busy-0"]


def test_a_write_larger_than_a_batch_waits_for_the_credit_of_its_client() -> None:
    queue = writer(max_batch_rows=1_000)
    enqueue(queue, "busy", "large", 10_000)
    enqueue(queue, "calm", "calm", 1)
    assert batches(queue) == [["calm"], ["large"]]


def test_clients_with_many_rows_share_a_batch() -> None:
    queue = writer(max_batch_rows=1_000)
    for client in ("a", "b"):
        for _ in range(5):
            enqueue(queue, client, client, 250)
    assert [sorted(batch) for batch in batches(queue)][:2] == [["a", "a", "b", "b"]] * 2


def test_a_client_that_was_alone_owes_nothing() -> None:
    queue = writer(max_batch_rows=1_000)
    for _ in range(20):
        enqueue(queue, "a", "a", 500)
    for _ in range(5):
        queue._take_entries()
    for _ in range(20):
        enqueue(queue, "b", "b", 500)
    first = [group for _ in range(4) for group in _groups(queue._take_entries())]
    assert first.count("a") == first.count("b")


def test_writes_of_one_group_keep_their_order_across_clients() -> None:
    queue = writer(max_batch_rows=1_000)
    for rows in (301, 302, 303):
        enqueue(queue, "busy", "shared", rows)
    enqueue(queue, "calm", "shared", 1)
    enqueue(queue, "calm", "own", 2)
    taken = [entry for _ in range(3) for entry in queue._take_entries()]
    assert [entry.rows for entry in taken if entry.write.group_id == "shared"] == [301, 302, 303, 1]


def test_a_client_may_fill_three_quarters_of_the_queue_and_others_the_rest() -> None:
    queue = writer(max_queued_rows=1_000)
    enqueue(queue, "busy", "a", 700)
    assert not is_full(queue, "busy")
    enqueue(queue, "busy", "a", 100)
    assert is_full(queue, "busy")
    assert not is_full(queue, "calm")
    batches(queue)
    assert not is_full(queue, "busy")


def test_the_queue_is_limited_in_bytes() -> None:
    queue = writer(max_queued_bytes=1_000)
    enqueue(queue, "busy", "a", 1, metadata="m" * 800)
    assert is_full(queue, "busy")
    assert not is_full(queue, "calm")
    enqueue(queue, "calm", "b", 1, metadata="m" * 300)
    assert is_full(queue, "third")


class CountingStore(MemoryStore):
    """Stores nothing, and counts the writes of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def write(self, batch: Batch) -> WriteResult:
        self.batches.append(len(batch.writes))
        return WriteResult()


@pytest.mark.anyio
async def test_batch_has_what_the_next_iterations_of_the_event_loop_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator_core.runtime.writer.LINGER_MAX_S", PATIENCE_S)  # however slow the machine is
    store = CountingStore()
    queue = writer(store=store)
    running = asyncio.create_task(queue.run())
    for number in range(20):
        enqueue(queue, "client", f"group-{number}", 1)
        await asyncio.sleep(0)
    await until(lambda: sum(store.batches) == 20, "all entries are written")
    running.cancel()
    assert store.batches[0] == 20


@pytest.mark.anyio
async def test_what_is_queued_is_written_after_an_error_of_the_loop() -> None:
    store = CountingStore()
    queue = writer(store=store)
    broken = Decided(GroupWrite("broken", 0), 1)
    broken.lease = BrokenLease()
    queue.enqueue(broken)
    enqueue(queue, "client", "group", 1)
    running = asyncio.create_task(restart_on_error("writer", queue.run))
    await until(lambda: store.batches == [1], "the other entry is written")
    running.cancel()


@pytest.mark.anyio
async def test_batch_does_not_wait_longer_than_its_limit() -> None:
    store = CountingStore()
    queue = writer(store=store)
    running = asyncio.create_task(queue.run())
    async with limited("a batch is written while each iteration queues an entry"):
        while not store.batches:
            enqueue(queue, "client", "group", 1)
            await asyncio.sleep(0)
    running.cancel()
