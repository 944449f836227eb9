"""Background loops restart after errors, and never block for so long that leases expire."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pytest
import structlog

from coordinator_core.runtime import coordinator
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import Renewal, StoredGroup, StoredSettings, UnreadableGroup
from tests.support.memory_store import MemoryStore
from tests.support.store_rows import change_row
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import (
    HeldStore,
    Member,
    config,
    running,
    until,
    until_readiness,
)

pytestmark = pytest.mark.anyio

SHORT_LEASE_MS = 1_000
"""Ends soon, in a test in which it does not matter whether it ends sooner than meant."""
LONG_LOAD_LEASE_MS = 8_000
"""Kept on a machine that stands still for seconds during a load."""


@dataclass
class Trouble:
    """What a store does instead of answering; nothing, if there is none."""

    error: Exception | None = None
    go: threading.Event = field(default_factory=threading.Event)
    is_hanging: bool = False

    def strike(self) -> None:
        """Fail, or hang until `go`."""
        if self.is_hanging:
            assert self.go.wait(PATIENCE_S), "the test never released it"
        if self.error is not None:
            raise self.error


class TroubledStore(MemoryStore):
    """A store that breaks or hangs where a test wants it to."""

    def __init__(self) -> None:
        super().__init__()
        self.renewing = Trouble()
        self.taken_at_once: list[int] = []
        self.before_load: Callable[[], None] = lambda: None
        self.creating_partitions = Trouble()
        self.created_partitions = 0
        self.reading_settings = Trouble()

    def create_history_partitions(self, days_ahead: int) -> None:
        self.creating_partitions.strike()
        self.created_partitions += 1

    def renew(
        self,
        node_id: str,
        listeners: Mapping[str, str],
        version: str,
        epochs: Mapping[int, int],
        ttl_ms: int,
        last: Renewal | None = None,
        cluster_configs: int = 0,
    ) -> Renewal:
        self.renewing.strike()
        return super().renew(node_id, listeners, version, epochs, ttl_ms, last, cluster_configs)

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        wanted = list(shard_ids)
        self.taken_at_once.append(len(wanted))
        return super().acquire_leases(node_id, wanted, ttl_ms)

    def settings(self) -> StoredSettings:
        self.reading_settings.strike()
        return super().settings()

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        self.before_load()
        return super().load_shards(shard_ids)


async def test_partitions_that_could_not_be_created_at_the_start_are_created_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "HISTORY_RETRY_S", 0.01)
    store = TroubledStore()
    store.creating_partitions.error = StoreUnavailable("server closed the connection unexpectedly")
    with structlog.testing.capture_logs() as events:
        async with running(store):
            await until(lambda: count_of(events, "history_partition_check_failed") >= 3, "it tries again")
            store.creating_partitions.error = None
            await until(lambda: store.created_partitions == 1, "the partitions are created")


def count_of(events: list[structlog.typing.EventDict], name: str) -> int:
    return sum(event["event"] == name for event in events)


async def test_node_recovers_from_a_failed_renewal() -> None:
    store = TroubledStore()
    with structlog.testing.capture_logs() as events:
        async with running(store) as node:
            store.renewing.error = KeyError("versions")
            await until(lambda: not node.counts().is_store_reachable, "the node knows")
            broken = await node.readiness()
            store.renewing.error = None
            await until(lambda: node.counts().is_store_reachable, "the node renews again")
            await until(lambda: len(node._ownership.owned) == 50, "the node serves again")
    assert "KeyError" in broken.reasons[0]
    assert "background_loop_failed" in [event["event"] for event in events]


async def test_slow_read_of_changed_settings_delays_no_renewal() -> None:
    store = TroubledStore()
    async with running(store) as node:
        store.reading_settings.is_hanging = True
        store.put_settings(None, {"group_max_size": "5"}, change_row("put"))
        try:
            before = node.counts().sums.renewals
            await until(lambda: node.counts().sums.renewals > before + 3, "leases are renewed")
            assert node.settings_of("g").group_max_size != 5
        finally:
            store.reading_settings.go.set()
        await until(lambda: node.settings_of("g").group_max_size == 5, "the settings are effective")


async def test_hanging_renewal_counts_as_unreachable_database() -> None:
    store = TroubledStore()
    async with running(store, config(lease_ttl_ms=SHORT_LEASE_MS)) as node:
        await until(lambda: node.counts().is_store_reachable, "the node renews")
        store.renewing.is_hanging = True
        await until(lambda: not node.counts().is_store_reachable, "the node knows")
        store.renewing.is_hanging = False
        store.renewing.go.set()
        await until(lambda: node.counts().is_store_reachable, "the node is back")


async def test_a_node_whose_write_hangs_is_not_ready() -> None:
    store = HeldStore()
    async with running(store, config(lease_ttl_ms=5_000)) as node:
        await until_readiness(node, expected=True)
        store.go.clear()
        member = asyncio.create_task(Member(node, "g").settle())
        await until_readiness(node, expected=False, reason="hanging")
        store.go.set()
        await member
        await until_readiness(node, expected=True)


async def test_shards_are_acquired_in_steps_with_renewals_in_between() -> None:
    store = TroubledStore()
    renewed_before_load: list[int] = []

    async with running(store, config("b")) as other:
        await until(lambda: len(other._ownership.owned) == 50, "the other owns all")
    store.taken_at_once.clear()
    node = Coordinator(store, config(lease_ttl_ms=LONG_LOAD_LEASE_MS))
    store.before_load = lambda: renewed_before_load.append(_take_long(node))
    await node.start()
    try:
        await until(lambda: len(node._ownership.owned) == 50, "the node owns all")
        assert max(store.taken_at_once) == 5
        assert renewed_before_load[-1] > renewed_before_load[0]
        assert node.counts().sums.shards_failed == 0
    finally:
        await node.stop()


def _take_long(node: Coordinator) -> int:
    """Load for an eighth of a lease, in all for longer than one; return how often the node has renewed by then."""
    threading.Event().wait(LONG_LOAD_LEASE_MS / 8_000)
    return node._counters.renewals


async def test_older_process_resigns_from_a_duplicate_node_id() -> None:
    store = MemoryStore()
    with structlog.testing.capture_logs() as events:
        async with running(store) as older:
            async with running(store) as younger:
                await until(lambda: len(younger._ownership.owned) == 50, "the younger serves")
                await until(lambda: not older._ownership.owned, "the older has resigned")
                ready = await older.readiness()
                epochs = [lease.epoch for lease in store.leases()]
                renewed = older.counts().sums.renewals
                await until(lambda: older.counts().sums.renewals > renewed + 3, "the older keeps renewing")
                assert [lease.epoch for lease in store.leases()] == epochs
                await until_readiness(younger, expected=True)
            await until(lambda: len(older._ownership.owned) == 50, "the older serves when the younger has stopped")
    assert (ready.is_ready, "MUSTER_ADVERTISED_URL" in ready.reasons[0]) == (False, True)
    assert [event["event"] for event in events].count("node_id_conflict_detected") == 1
