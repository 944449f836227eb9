"""Settings of groups are effective at their owner, and settings of the cluster are confirmed by every node."""

import asyncio
import threading
from collections.abc import Iterable, Mapping

import pytest

from coordinator_core.admin.settings import put_settings
from coordinator_core.admin.undo import undo_change
from coordinator_core.protocol.errors import CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.confirmations import ALLOWANCE_MS
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.shard_ownership import RENEWALS_PER_TTL
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import ChangeRow, StoredSettings, Versions
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.doubtful_lease import FarStore, be_sure_again, put_in_doubt
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, a_change, config, running, until

pytestmark = pytest.mark.anyio

SHORT_LEASE_MS = 2_000
RENEWAL_MS = SHORT_LEASE_MS // RENEWALS_PER_TTL
PLENTY_MS = 60_000.0
SIZE = "group_max_size"
OVERTAKING_S = 0.2
"""The time in which a refresh that waits for no other one would overtake the first."""


def size_at(node: Coordinator, group_id: str | None = None) -> int | str | None:
    return node.metadata_cache.effective_settings(group_id)[SIZE].value


def add_hanging_node(store: MemoryStore) -> str:
    """Add a node that has renewed just now, and does not renew again."""
    store.renew("hanging", {"http": "http://hanging"}, "1", {}, ttl_ms=60_000)
    return "hanging"


# -- the cluster --------------------------------------------------------------------------------------------


async def test_confirmed_setting_is_effective_on_every_node() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second, running(store, config("c")) as third:
        await put_settings(first, None, {SIZE: 3}, a_change())
        assert await first.confirmations.wait(PLENTY_MS) == []
        assert (size_at(second), size_at(third)) == (3, 3)


async def test_only_node_of_a_cluster_waits_for_none() -> None:
    async with running(MemoryStore(), config(lease_ttl_ms=10**9)) as node:
        await put_settings(node, None, {SIZE: 3}, a_change())
        async with asyncio.timeout(PATIENCE_S):
            assert await node.confirmations.wait(PLENTY_MS) == []


async def test_node_that_does_not_renew_is_waited_for_no_longer_than_one_renewal() -> None:
    store = MemoryStore()
    clock = JumpingClock()
    async with running(store, config(lease_ttl_ms=SHORT_LEASE_MS), clock) as node:
        hanging = add_hanging_node(store)
        await put_settings(node, None, {SIZE: 3}, a_change())
        began_ms = clock.now().node_ms
        assert await node.confirmations.wait(PLENTY_MS) == [hanging]
        assert clock.now().node_ms - began_ms >= RENEWAL_MS
        asked = asyncio.create_task(node.confirmations.wait(PLENTY_MS))
        await asyncio.sleep(0)
        clock.jumped_ms += RENEWAL_MS + ALLOWANCE_MS
        assert await asked == [hanging]


async def test_wait_ends_before_the_time_of_the_request() -> None:
    store = MemoryStore()
    async with running(store, config(lease_ttl_ms=10**9)) as node:
        hanging = add_hanging_node(store)
        await put_settings(node, None, {SIZE: 3}, a_change())
        async with asyncio.timeout(PATIENCE_S):
            assert await node.confirmations.wait(ALLOWANCE_MS + 10) == [hanging]
            assert await node.confirmations.wait(0) == [hanging]


async def test_change_of_a_group_needs_no_confirmation() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await put_settings(node, "g", {SIZE: 3}, a_change())
        add_hanging_node(store)
        assert await node.confirmations.unconfirmed_nodes() == []


# -- one group ----------------------------------------------------------------------------------------------


async def test_only_the_owner_changes_and_restores_settings_of_a_group() -> None:
    store = MemoryStore()
    async with running(store) as owner, running(store, config("b")) as other:
        put = a_change()
        with pytest.raises(NotCoordinator) as refusal:
            await put_settings(other, "g", {SIZE: 3}, put)
        assert refusal.value.listeners == owner.listeners
        assert store.settings().groups == {}
        await put_settings(owner, "g", {SIZE: 3}, put)
        with pytest.raises(NotCoordinator):
            await undo_change(other, put.change_id, a_change())
        assert size_at(owner, "g") == 3


async def test_settings_of_a_group_without_an_owner_are_not_changed() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, clock=clock) as node:
        await put_in_doubt(store, clock)
        with pytest.raises(CoordinatorNotAvailable):
            await put_settings(node, "g", {SIZE: 3}, a_change())
        assert store.settings().groups == {}


class SlowSettingsStore(FarStore):
    """A store that answers changes of settings late."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stored = threading.Event()

    def put_settings(
        self,
        group_id: str | None,
        values: Mapping[str, str | None],
        change: ChangeRow,
        checked: Versions | None = None,
    ) -> bool:
        is_stored = super().put_settings(group_id, values, change, checked)
        self.is_stored.set()
        assert self.go.wait(PATIENCE_S), "the test never let the change go"
        return is_stored


async def test_change_during_which_the_lease_ended_is_not_answered_as_effective() -> None:
    store, clock = SlowSettingsStore(), JumpingClock()
    async with running(store, clock=clock) as node:
        put = a_change()
        store.go.clear()
        changing = asyncio.create_task(put_settings(node, "g", {SIZE: 3}, put))
        await until(store.is_stored.is_set, "the change is stored")
        await put_in_doubt(store, clock)
        store.go.set()
        with pytest.raises(CoordinatorNotAvailable, match="lost the group during the change"):
            await changing
        await be_sure_again(store)
        await put_settings(node, "g", {SIZE: 3}, put)
        assert size_at(node, "g") == 3
        assert len(store.history.changes) == 1


# -- reading them -------------------------------------------------------------------------------------------


class UnreadableSettingsStore(MemoryStore):
    """A store of which settings are read slowly once, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.holds_next = False
        self.is_reading = threading.Event()
        self.go = threading.Event()
        self.is_failing = False
        self.failures = 0

    def settings(self) -> StoredSettings:
        found = super().settings()
        if self.holds_next:
            self.holds_next = False
            self.is_reading.set()
            assert self.go.wait(PATIENCE_S), "the test never let the read go"
        if self.is_failing:
            self.failures += 1
            raise StoreUnavailable("the settings cannot be read")
        return found


def put(store: MemoryStore, size: int) -> None:
    """Change a setting of the cluster as another node does."""
    change = a_change().row(ChangeAction.PUT_SETTINGS, None, 0)
    store.put_settings(None, {SIZE: str(size)}, change)


async def watch_size(node: Coordinator, seen: list[int | str | None]) -> None:
    """Append each value that the setting has, until cancelled."""
    while True:
        if seen[-1:] != [size_at(node)]:
            seen.append(size_at(node))
        await asyncio.sleep(0)


async def test_an_older_refresh_does_not_replace_a_newer_one() -> None:
    store = UnreadableSettingsStore()
    seen: list[int | str | None] = []
    async with running(store) as node:
        store.holds_next = True
        put(store, 3)
        await until(store.is_reading.is_set, "a renewal reads the first value")
        put(store, 5)
        watching = asyncio.create_task(watch_size(node, seen))
        refreshing = asyncio.create_task(node.refresh_settings())
        await asyncio.wait([refreshing], timeout=OVERTAKING_S)
        store.go.set()
        await refreshing
        renewals = node.counts().sums.renewals
        await until(lambda: node.counts().sums.renewals > renewals + 1, "the node renews")
        watching.cancel()
    assert seen[-1] == 5
    assert 3 not in seen[seen.index(5) :]


class BusyStore(MemoryStore):
    """A store in which a setting is changed before the first shards are acquired."""

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        if not self.settings().cluster:
            put(self, 3)
        return super().acquire_leases(node_id, shard_ids, ttl_ms)


async def test_setting_that_was_changed_before_an_acquisition_is_effective_on_its_shards() -> None:
    async with running(BusyStore(), config(lease_ttl_ms=10**9)) as node:
        assert node.counts().shards_active == node.counts().shard_count
        assert size_at(node) == 3


async def test_node_that_cannot_read_the_newest_settings_serves_no_other_shard() -> None:
    store = UnreadableSettingsStore()
    owner = Coordinator(store, config())
    await owner.start()
    async with running(store, config("b")) as node:
        store.is_failing = True
        put(store, 3)
        await owner.stop()
        failures = store.failures
        await until(lambda: store.failures > failures + 5, "the node renews, and acquires shards")
        assert node.counts().shards_active < node.counts().shard_count
        store.is_failing = False
        await until(lambda: node.counts().shards_active == node.counts().shard_count, "it owns all shards")
        assert size_at(node) == 3
