"""Log end offsets are gathered from trusted commits, stored about once a second, and deleted."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from uuid import uuid4

import pytest

from coordinator_core.admin.changes import CannotUndo, Change, IdempotencyKeyConflict
from coordinator_core.admin.topics import delete_log_ends, delete_topic, put_topic
from coordinator_core.admin.undo import undo_change
from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.runtime.clock import SystemThreads
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.log_ends import RENEWALS_PER_AGE, LogEndReports
from coordinator_core.state_store.interface import StoreError, StoreUnavailable
from coordinator_core.state_store.log_ends import LogEndReport
from tests.support.memory_store import MemoryStore
from tests.support.store_rows import change_row
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import config, running, until

pytestmark = pytest.mark.anyio

AGE_MS = 1_000
EVERY = ("",)


class CountingStore(MemoryStore):
    """A store that keeps what was reported, and fails once with `failure` if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[LogEndReport] = []
        self.failure: StoreError | None = None

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self.reported += reports
        return super().report_log_ends(reports, deletions)


def committed(at_ms: int, offset: int, end: int | None, topic: str = "t") -> OffsetsCommitted:
    return OffsetsCommitted(at_ms, "m", None, (OffsetToCommit(topic, 0, offset, log_end_offset=end),))


async def flushed(store: CountingStore, *steps: Callable[[LogEndReports], None] | None) -> list[LogEndReport]:
    """Take steps, and flush wherever there is None in their place; return what was reported."""
    threads = SystemThreads(readers=1)
    reports = LogEndReports(store, threads, lambda: AGE_MS)
    for step in steps:
        if step is None:
            await reports.flush()
        else:
            step(reports)
    await asyncio.to_thread(threads.close)
    return store.reported


def seen(*record: OffsetsCommitted, topics: tuple[str, ...] = EVERY) -> Callable[[LogEndReports], None]:
    return lambda reports: reports.observe(record, topics)


async def test_of_several_reports_the_furthest_is_stored_once() -> None:
    found = await flushed(
        CountingStore(), seen(committed(1, 2, 5)), seen(committed(2, 3, 9)), seen(committed(3, 3, 4)), None, None
    )
    assert found == [LogEndReport("t", 0, 9, 2)]


async def test_a_log_reaches_what_was_committed_and_only_an_end_that_is_named_has_an_age() -> None:
    store = CountingStore()
    await flushed(store, seen(committed(5, 7, None)), None)
    assert store.log_ends(["t"]) == {}
    await flushed(store, seen(committed(6, 7, 3)), None, seen(committed(9, 20, None)), None)
    assert store.log_ends(["t"]) == {("t", 0): LogEnd(6, 20)}


async def test_only_topics_that_the_reporter_is_trusted_for_count() -> None:
    records = (committed(1, 2, 5, "orders-eu"), committed(1, 2, 5, "clicks"))
    found = await flushed(CountingStore(), seen(*records, topics=("orders", "x")), None)
    assert [each.topic for each in found] == ["orders-eu"]


async def test_the_same_end_is_renewed_some_times_within_its_age() -> None:
    renew_ms = AGE_MS // RENEWALS_PER_AGE
    steps: list[Callable[[LogEndReports], None] | None] = []
    for at_ms in range(1, 1 + 3 * renew_ms, renew_ms // 4):
        steps += [seen(committed(at_ms, 5, 5)), None]
    found = await flushed(CountingStore(), *steps)
    assert [each.reported_at_ms for each in found] == [1, 1 + renew_ms, 1 + 2 * renew_ms]


async def test_reports_are_stored_after_a_database_failure() -> None:
    store = CountingStore()
    store.failure = StoreUnavailable("it is away")
    found = await flushed(store, seen(committed(1, 2, 5)), None, seen(committed(2, 2, 4)), None)
    assert found == [LogEndReport("t", 0, 5, 1)]


async def commit(node: Coordinator, end: int, topic: str = "t") -> None:
    offsets = (OffsetToCommit(topic, 0, 1, log_end_offset=end),)
    await node.submit("g", CommitOffsets(node.new_token(), -1, "", None, offsets, trusted_topic_prefixes=EVERY))


async def test_a_node_stores_ends_while_it_runs_even_after_an_error_and_when_it_stops() -> None:
    store = CountingStore()
    async with running(store, config()) as node:
        store.failure = StoreError("unexpected")
        await commit(node, 5)
        await until(lambda: store.failure is None, "the flush failed")
        await commit(node, 6)
        await until(lambda: store.reported != [], "a later flush succeeded")
        await commit(node, 7)
    assert [each.log_end_offset for each in store.reported][-1] == 7
    assert store.log_ends(["t"])["t", 0].offset == 7


# -- ends that are deleted -------------------------------------------------------------------------------------


class HeldStore(CountingStore):
    """A store whose reports wait for `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.attempts = 0
        self.answered = 0

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        self.attempts += 1
        assert self.go.wait(PATIENCE_S), "the test never let the reports go"
        is_stored = super().report_log_ends(reports, deletions)
        self.answered += 1
        return is_stored


def a_change() -> Change:
    return Change("ada", "because", str(uuid4()))


async def test_report_gathered_before_a_deletion_is_discarded() -> None:
    store = HeldStore()
    store.go.set()
    store.put_topic("t", 1, None, change_row("put"))
    async with running(store, config(lease_ttl_ms=60_000)) as behind:
        await commit(behind, 5)
        store.delete_topic("t", change_row("delete"))
        answered = store.answered
        await until(lambda: store.answered > answered, "the node that does not know of the deletion reports")
        assert store.log_ends(["t"]) == {}


@pytest.mark.parametrize("is_put_again", [False, True])
async def test_report_under_way_during_a_deletion_is_refused(
    is_put_again: bool,
) -> None:
    store = HeldStore()
    async with running(store) as node:
        await put_topic(node, "t", 1, None, a_change())
        await commit(node, 5)
        await until(lambda: store.attempts == 1, "the end is on its way")
        await delete_topic(node, "t", a_change())
        if is_put_again:
            await put_topic(node, "t", 1, None, a_change())
        store.go.set()
        await until(lambda: store.answered == 1, "the store has decided")
        await commit(node, 3, topic="other")
        await until(lambda: store.log_ends(["other"]) != {}, "a later flush succeeded")
        assert store.log_ends(["t"]) == {}


async def test_after_a_deletion_a_lower_end_is_stored_at_its_next_report() -> None:
    store = CountingStore()
    async with running(store) as first, running(store, config("b")) as second:
        await until(lambda: second.find_coordinator("g").node_id is not None, "the shard has an owner")
        owner, other = (first, second) if first.find_coordinator("g").node_id == first.node_id else (second, first)
        await commit(owner, 2**63 - 1)
        await until(lambda: store.log_ends(["t"]) != {}, "the end is stored")
        change = await delete_log_ends(other, "t", None, a_change())
        assert [each["log_end_offset"] for each in change.before["log_ends"]] == [2**63 - 1]
        while store.log_ends(["t"]) == {}:
            await commit(owner, 7)
            await asyncio.sleep(0.05)
        assert store.log_ends(["t"])["t", 0].offset == 7


async def test_a_deletion_of_log_ends_is_made_once_and_takes_only_what_it_names() -> None:
    store = MemoryStore()
    store.report_log_ends([LogEndReport(topic, part, 9, 1) for topic in ("t", "u") for part in (0, 1)], 0)
    async with running(store) as node:
        again = a_change()
        first = await delete_log_ends(node, "t", 1, again)
        assert await delete_log_ends(node, "t", 1, again) == first
        assert sorted(store.log_ends(["t", "u"])) == [("t", 0), ("u", 0), ("u", 1)]
        with pytest.raises(IdempotencyKeyConflict):
            await delete_log_ends(node, "t", 0, again)
        with pytest.raises(CannotUndo, match="the next report of an end brings it back"):
            await undo_change(node, first.change_id, a_change())
