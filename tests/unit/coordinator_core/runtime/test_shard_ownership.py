"""Shards have one owner at a time, are shared evenly, and losing a node costs no rebalance."""

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence

import pytest

from coordinator_core.protocol.errors import NotCoordinator, RetryError
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.runtime import coordinator
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.rows import CheckpointResult, ShardCheckpoint
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import LEASE_TTL_MS, HeldStore, Member, config, running, until

pytestmark = pytest.mark.anyio


def owner_of(group_id: str, *nodes: Coordinator) -> Coordinator | None:
    """Return the node that serves a group, if one does now."""
    for node in nodes:
        try:
            node.describe(group_id)
        except RetryError:
            continue
        return node
    return None


async def test_two_nodes_come_to_own_half_each() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        await until(lambda: _share(store, "a") == _share(store, "b") == 25, "both own 25 shards")
        group = _group_of(store, "b")
        await until(lambda: owner_of(group, second) is second, "the second serves what it owns")
        await until(lambda: first.find_coordinator(group).node_id == "b", "the first knows")
        with pytest.raises(NotCoordinator) as refused:
            first.describe(group)
        assert refused.value.listeners == {"http": "http://b"}


async def test_nodes_renew_often_only_while_shards_have_no_owner() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        assert second._ownership.renewal_delay_ms() == LEASE_TTL_MS / 20
        await until(lambda: _share(store, "a") == _share(store, "b") == 25, "both own 25 shards")
        for node in (first, second):
            await until(lambda node=node: node._ownership.renewal_delay_ms() == LEASE_TTL_MS / 3, "the node is content")  # type: ignore[misc]


def state_in(store: MemoryStore, group_id: str) -> str | None:
    row = store._groups.standing(group_id).row
    return None if row is None else row.state


def _group_of(store: MemoryStore, node_id: str) -> str:
    """Return the name of a group whose shard a node owns."""
    owned = {lease.shard_id for lease in store.leases() if lease.node_id == node_id}
    return next(f"g{n}" for n in range(1000) if shard_of(f"g{n}", 50) in owned)


def _share(store: MemoryStore, node_id: str) -> int:
    return sum(lease.node_id == node_id for lease in store.leases())


async def test_member_keeps_its_assignment_when_its_node_stops() -> None:
    store = MemoryStore()
    async with running(store, config("b")) as second:
        async with running(store) as first:
            await until(lambda: _share(store, "a") == 25, "the first has its share")
            group = _group_of(store, "a")
            await until(lambda: owner_of(group, first) is first, "the first serves the group")
            member = Member(first, group)
            await member.settle()
            await member.commit(41)
        await until(lambda: owner_of(group, second) is second, "the second takes over")
        member.node = second
        await member.heartbeat()
        await member.commit(42)
        view = second.describe(group)
        assert view is not None
        assert (view.generation, [m.member.member_id for m in view.members]) == (1, [member.member_id])
        assert len(store.history.rebalances) == 1


async def test_parked_requests_get_a_retriable_error_when_the_node_stops() -> None:
    store = MemoryStore()
    async with running(store) as node:
        first = Member(node, "g")
        await first.settle()
        parked = asyncio.create_task(Member(node, "g").join())
        await until(lambda: node.describe("g").waiting_for == (first.member_id,), "the new member waits")  # type: ignore[union-attr]  # it exists
    with pytest.raises(RetryError):
        await parked


async def test_node_that_lost_its_lease_stores_nothing() -> None:
    store = HeldStore()
    async with running(store, config(lease_ttl_ms=60_000)) as node:
        member = Member(node, "g")
        await member.settle()
        shard_id = node.find_coordinator("g").shard_id
        store.go.clear()
        store.is_writing.clear()
        commit = asyncio.create_task(member.commit(7))
        await asyncio.to_thread(store.is_writing.wait)
        store.release("a", {shard_id: node.find_coordinator("g").epoch})
        store.acquire_leases("thief", [shard_id], 60_000)
        store.go.set()
        with pytest.raises(NotCoordinator):
            await commit
        assert store.fetch_offsets("g") == []


async def test_group_in_a_join_phase_returns_to_its_previous_state() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        joining = asyncio.create_task(Member(node, "g").join())
        await until(lambda: state_in(store, "g") == "PreparingRebalance", "it prepares")
    await asyncio.gather(joining, return_exceptions=True)
    async with running(store) as node:
        await until(lambda: owner_of("g", node) is node, "the node is back")
        member.node = node
        await member.heartbeat()
        assert [row.outcome for row in store.history.rebalances] == ["completed", "abandoned"]


async def test_stopping_node_releases_unloaded_shards() -> None:
    store = MemoryStore()
    node = Coordinator(store, config())
    await node.start()
    await until(lambda: len(node._ownership.owned) == 50, "it owns all")
    node._ownership.owned[7].fail(NotCoordinator("a write failed"))
    await node.stop()
    assert _owned_in(store) == []


class SlowTakeOver(MemoryStore):
    """A store whose answer to a take-over is a long time on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stored = threading.Event()
        self.may_answer = threading.Event()

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        epochs = super().acquire_leases(node_id, shard_ids, ttl_ms)
        self.is_stored.set()
        assert self.may_answer.wait(PATIENCE_S), "the test never let the answer go"
        return epochs


async def test_stopping_node_releases_shards_that_it_is_acquiring() -> None:
    store = SlowTakeOver()
    elsewhere = MemoryStore.acquire_leases(store, "b", range(50), 60_000)
    node = Coordinator(store, config())
    await node.start()
    store.release("b", elsewhere)
    node._ownership.wake()
    await until(store.is_stored.is_set, "a take-over is stored")
    stopping = asyncio.create_task(node.stop())
    await asyncio.sleep(0)  # The loops are cancelled in this turn.
    store.may_answer.set()
    await stopping
    assert _owned_in(store) == []


async def test_requests_are_served_between_the_loads_of_two_shards() -> None:
    node = Coordinator(MemoryStore(), config())
    starting = asyncio.create_task(node.start())
    seen: set[int] = set()
    while 50 not in seen:
        seen.add(len(node.serving_shards()))
        await asyncio.sleep(0)
    await starting
    await node.stop()
    assert seen == set(range(51))


class SlowEnd(MemoryStore):
    """A store in which what a node stores beside its leases takes until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        assert self.go.wait(PATIENCE_S), "the test never let the checkpoint go"
        return super().checkpoint(node_id, shards)

    def report_log_ends(self, reports: Sequence[LogEndReport], deletions: int) -> bool:
        assert self.go.wait(PATIENCE_S), "the test never let the reports go"
        return super().report_log_ends(reports, deletions)


async def test_stopping_node_hands_over_while_offsets_and_log_ends_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "CHECKPOINT_AT_STOP_S", 0.01)
    store = SlowEnd()
    node = Coordinator(store, config(lease_ttl_ms=600_000))  # Its row does not expire while the test waits.
    await node.start()
    await until(lambda: owner_of("g", node) is node, "it serves the group")
    await Member(node, "g").commit(41)
    node.observe_log_ends({("t", 0): 99})
    stopping = asyncio.create_task(node.stop())
    await until(lambda: "a" not in store.renew("c", {}, "1", {}, LEASE_TTL_MS).live_nodes, "its row is deleted")
    assert _owned_in(store) == []
    assert not stopping.done()
    store.go.set()
    await stopping


def _owned_in(store: MemoryStore) -> list[int]:
    leases = store.renew("c", {"http": "http://c"}, "1", {}, 1_000).leases
    return [lease.shard_id for lease in leases if lease.node_id is not None]
