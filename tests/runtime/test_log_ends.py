"""Ends of logs are gathered from trusted commits, stored about once a second, and survive a database that fails."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.runtime.clock import SystemThreads
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.log_ends import RENEWALS_PER_AGE, LogEndReports
from coordinator_core.store.interface import StoreError, StoreUnavailable
from coordinator_core.store.log_ends import LogEndReport
from coordinator_core.store.memory import MemoryStore
from tests.runtime.nodes import config, running, until

pytestmark = pytest.mark.anyio

AGE_MS = 1_000
EVERY = ("",)


class CountingStore(MemoryStore):
    """A store that keeps what was reported, and fails once with `failure` if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[LogEndReport] = []
        self.failure: StoreError | None = None

    def report_log_ends(self, reports: Sequence[LogEndReport]) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self.reported += reports
        super().report_log_ends(reports)


def committed(at_ms: int, offset: int, end: int | None, topic: str = "t") -> OffsetsCommitted:
    return OffsetsCommitted(at_ms, "m", None, (OffsetToCommit(topic, 0, offset, log_end_offset=end),))


async def flushed(store: CountingStore, *steps: Callable[[LogEndReports], None] | None) -> list[LogEndReport]:
    """Take steps, and flush wherever there is None in their place; return what was reported."""
    threads = SystemThreads(readers=1)
    reports = LogEndReports(store, threads, AGE_MS)
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


async def test_what_a_failing_database_did_not_take_is_stored_later() -> None:
    store = CountingStore()
    store.failure = StoreUnavailable("it is away")
    found = await flushed(store, seen(committed(1, 2, 5)), None, seen(committed(2, 2, 4)), None)
    assert found == [LogEndReport("t", 0, 5, 1)]


async def test_topics_that_were_deleted_are_forgotten() -> None:
    def forget(reports: LogEndReports) -> None:
        reports.forget(frozenset({"t"}))

    store = CountingStore()
    await flushed(store, seen(committed(1, 2, 5)), forget, None)
    assert store.reported == []
    await flushed(store, seen(committed(1, 2, 5)), None, forget, seen(committed(1, 2, 5)), None)
    assert len(store.reported) == 2


async def commit(node: Coordinator, end: int) -> None:
    offsets = (OffsetToCommit("t", 0, 1, log_end_offset=end),)
    await node.ask("g", CommitOffsets(node.new_token(), -1, "", None, offsets, trusted_topics=EVERY))


async def test_a_node_stores_ends_while_it_runs_even_after_an_error_and_when_it_stops() -> None:
    store = CountingStore()
    async with running(store, config()) as node:
        store.failure = StoreError("nobody expected this")
        await commit(node, 5)
        await until(lambda: store.failure is None, "the flush failed")
        await commit(node, 6)
        await until(lambda: store.reported != [], "a later flush succeeded")
        await commit(node, 7)
    assert [each.log_end_offset for each in store.reported][-1] == 7
    assert store.log_ends(["t"])["t", 0].offset == 7
