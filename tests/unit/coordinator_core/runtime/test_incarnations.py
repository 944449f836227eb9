"""After a restore or failover a node continues from the database, and gives out no generation twice."""

import asyncio
from collections.abc import Callable

import pytest

from coordinator_core.protocol.errors import IllegalGeneration, RejoinError, RetryError, UnknownMemberId
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.incarnations import GENERATION_JUMP
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import Incarnation
from tests.support.memory_backup import Backup
from tests.support.memory_store import MemoryStore
from tests.support.waiting import turns
from tests.unit.coordinator_core.runtime.nodes import Member, config, running, until

pytestmark = pytest.mark.anyio

GoBack = Callable[[Backup, MemoryStore], None]
EVERY_WAY = pytest.mark.parametrize("go_back", [Backup.promote, Backup.put_back], ids=["failover", "rollback"])


async def renewed(node: Coordinator) -> None:
    """Let the node renew, and wait until it has."""
    before = node._counters.renewals
    node._ownership.wake()
    await until(lambda: node._counters.renewals > before, "the node renews")


def incarnation_of(node: Coordinator) -> int:
    """Return the number of the incarnation that the node has found."""
    found = node.counts().incarnation
    assert found is not None
    return found.number


async def settled(member: Member) -> None:
    """Join and sync until that works."""
    while True:
        try:
            await member.settle()
        except RetryError:
            await asyncio.sleep(0.01)
        except RejoinError:
            member.member_id = ""
        else:
            return


@EVERY_WAY
async def test_a_lost_generation_is_not_given_out_again(go_back: GoBack) -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        await renewed(node)
        backup = Backup(store)
        await member.settle()
        assert member.generation == 2
        await renewed(node)
        go_back(backup, store)
        await until(lambda: store.incarnation().number == 2, "the node starts an incarnation")
        await settled(member)
        assert member.generation == 1 + GENERATION_JUMP + 1


@EVERY_WAY
async def test_members_rejoin_after_a_failover(go_back: GoBack) -> None:
    store = MemoryStore()
    async with running(store) as node:
        remaining = Member(node, "g")
        await remaining.settle()
        await renewed(node)
        backup = Backup(store)
        lost = Member(node, "other")
        await lost.settle()
        await renewed(node)
        go_back(backup, store)
        await until(lambda: incarnation_of(node) == 2, "the node notices")
        await until(lambda: len(node._ownership.owned) == 50, "the node has loaded every shard")
        with pytest.raises(IllegalGeneration):
            await remaining.heartbeat()
        with pytest.raises(UnknownMemberId):
            await lost.heartbeat()
        with pytest.raises(RejoinError):
            await remaining.commit(41)
        await settled(remaining)
        await remaining.commit(42)
        assert [one.offset for one in await node.fetch_offsets("g", None)] == [42]
        assert store.history.rebalances[-1].trigger == "database_restored"


class RefusingStore(MemoryStore):
    """A store that fails to start an incarnation a few times."""

    left = 10

    def start_incarnation(self, known: int, actor: str, reason: str) -> Incarnation:
        self.left -= 1
        if self.left >= 0:
            raise StoreUnavailable("the server has just been started")
        return super().start_incarnation(known, actor, reason)


async def test_a_rollback_is_not_forgotten_when_starting_the_incarnation_fails() -> None:
    store = RefusingStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        backup = Backup(store)
        await renewed(node)
        backup.put_back(store)
        for _ in range(store.left):
            node._ownership.wake()
            await turns()
        with pytest.raises(RetryError):
            await member.commit(41)
        await until(lambda: incarnation_of(node) == 2, "the node starts an incarnation")
        assert store.fetch_offsets("g") == []


async def test_write_after_a_failover_is_refused_until_the_node_detects_it() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        backup = Backup(store)
        backup.promote(store)
        with pytest.raises(RetryError):
            await member.commit(41)
        assert store.fetch_offsets("g") == []


async def test_every_node_unloads_its_shards_and_one_change_is_recorded() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        nodes = (first, second)
        await until(lambda: all(len(node._ownership.owned) == 25 for node in nodes), "both own 25 shards")
        members = [Member(node, _group_served_by(node)) for node in nodes]
        for member in members:
            await member.settle()
        Backup(store).promote(store)
        await until(lambda: all(incarnation_of(node) == 2 for node in nodes), "both notice")
        await until(lambda: sum(len(node._ownership.owned) for node in nodes) == 50, "every shard is served again")
        assert [change.action for change in store.history.changes] == ["start_incarnation"]
        assert {node._ownership.last_renewal.incarnation.number for node in nodes if node._ownership.last_renewal} == {
            2
        }


async def test_parked_requests_get_a_retriable_error() -> None:
    store = MemoryStore()
    async with running(store) as node:
        first = Member(node, "g")
        await first.settle()
        parked = asyncio.create_task(Member(node, "g").join())
        await until(lambda: node.describe("g").waiting_for == (first.member_id,), "the second member waits")  # type: ignore[union-attr]  # it exists
        Backup(store).promote(store)
        with pytest.raises(RetryError):
            await parked


async def test_a_node_that_starts_on_a_restored_database_starts_an_incarnation() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
    Backup(store).promote(store)
    async with running(store, config("b")) as node:
        member.node = node
        with pytest.raises(IllegalGeneration):
            await member.heartbeat()
    assert store.incarnation().number == 2


async def test_a_restart_of_every_node_starts_none() -> None:
    store = MemoryStore()
    for name in ("a", "b", "a"):
        async with running(store, config(name)) as node:
            await renewed(node)
    assert store.incarnation().number == 1


def _group_served_by(node: Coordinator) -> str:
    return next(f"g{n}" for n in range(1000) if shard_of(f"g{n}", 50) in node._ownership.owned)
