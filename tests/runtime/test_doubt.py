"""While a lease is in doubt nobody is heard, and so nobody is put out for it; a held group still hears heartbeats.

Each of these was found by the simulation (docs/simulation.md) before it stood here.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest

from coordinator_core.protocol.errors import CoordinatorNotAvailable, RetryError
from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.protocol.states import STABLE
from coordinator_core.runtime.act import Act
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.store.interface import StoreUnavailable
from coordinator_core.store.memory import MemoryStore
from coordinator_core.store.rows import Renewal
from tests.runtime.nodes import Member, config, running, until
from tests.runtime.test_time import JumpingClock, state_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

NO_PAUSE_MS = 10**9
"""No gap in time is taken for a pause of the node's."""
ACT = Act("someone", "a reason", "00000000-0000-4000-8000-000000000001")


class FarStore(MemoryStore):
    """A store whose renewals can fail, and whose reads of offsets can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.renewals = 0
        self.failures = 0
        self.go = threading.Event()
        self.go.set()
        self.is_reading = threading.Event()

    def renew(
        self, node_id: str, url: str, version: str, epochs: Mapping[int, int], ttl_ms: int, renewals: int = 0
    ) -> Renewal:
        if self.is_away:
            self.failures += 1
            raise StoreUnavailable("far away")
        self.renewals += 1
        return super().renew(node_id, url, version, epochs, ttl_ms, renewals)

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        self.is_reading.set()
        assert self.go.wait(PATIENCE_S), "the test never let the read go"
        return super().stored_offsets(group_id, partitions)


async def put_in_doubt(store: FarStore, clock: JumpingClock, by_ms: int = 20_000) -> None:
    """Let so much time pass without a renewal that the lease may be another's."""
    store.is_away = True
    clock.jumped_ms += by_ms
    failures = store.failures
    await until(lambda: store.failures > failures + 1, "renewals are tried, so the loop turns")


async def be_sure_again(store: FarStore) -> None:
    """Let renewals work, and wait until there were some."""
    store.is_away = False
    renewals = store.renewals
    await until(lambda: store.renewals > renewals + 2, "leases are renewed")


async def test_what_is_due_on_a_doubtful_lease_leaves_the_node_running_and_puts_nobody_out() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS), clock) as node:
        member = Member(node, "g")
        member.session_timeout_ms = 5_000
        await member.settle()
        await put_in_doubt(store, clock)
        await be_sure_again(store)
        assert state_of(node, "g") == STABLE
        await member.heartbeat()


async def holding(node: Coordinator, store: FarStore) -> "asyncio.Task[object]":
    """Let an operator's deletion hold the group while it reads."""
    store.go.clear()
    store.is_reading.clear()
    deletion: asyncio.Task[object] = asyncio.create_task(node.operators.delete_offsets("g", "u", None, ACT))
    await asyncio.to_thread(store.is_reading.wait)
    return deletion


async def test_a_held_group_hears_heartbeats() -> None:
    store = FarStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        deletion = await holding(node, store)
        await member.heartbeat()
        assert not deletion.done()
        store.go.set()
        await deletion


async def test_what_waited_for_a_held_group_until_the_lease_was_in_doubt_is_not_decided() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=NO_PAUSE_MS), clock) as node:
        member = Member(node, "g")
        await member.settle()
        deletion = await holding(node, store)
        commit = asyncio.create_task(member.commit(7))
        await asyncio.sleep(0)
        await put_in_doubt(store, clock)
        store.go.set()
        with pytest.raises(CoordinatorNotAvailable):
            await commit
        with pytest.raises(RetryError):
            await deletion
        assert store.fetch_offsets("g") == []
