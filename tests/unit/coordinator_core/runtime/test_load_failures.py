"""A shard that cannot be loaded is released, reported and retried."""

import asyncio
import threading
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.runtime.load_failures import RETRY_MAX_MS, RETRY_MS, LoadFailures
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import ChangeRow, StoredGroup, UnreadableGroup
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S, limited
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, Member, config, running, until, until_readiness

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("log")]

SICK = shard_of("g", 50)
SHORT_LEASE_MS = 6_000
"""Short enough to wait for its end, and kept on a machine that stands still for seconds."""


class UnreadableStore(MemoryStore):
    """A store of which some shards cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.sick: set[int] = set()
        self.error: Exception = ValueError("bad page")
        self.go = threading.Event()
        self.go.set()
        self.loads: list[list[int]] = []

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        wanted = list(shard_ids)
        self.loads.append(wanted)
        if not self.sick.isdisjoint(wanted):
            assert self.go.wait(PATIENCE_S), "the test never let it go"
            raise self.error
        return super().load_shards(wanted)

    def owner(self, shard_id: int) -> str | None:
        return self.leases()[shard_id].node_id


@pytest.fixture
def log() -> Iterator[list[MutableMapping[str, Any]]]:
    """Give the events of a test; to draw the tracebacks of so many failures would take it seconds."""
    with capture_logs() as events:
        yield events


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ValueError("bad page"), "cannot be loaded: ValueError: bad page"),
        (StoreUnavailable("bad page"), f"cannot be loaded: {StoreUnavailable.summary}"),
    ],
    ids=["any", "of the store"],
)
async def test_a_shard_that_cannot_be_loaded_is_released_and_the_others_are_served(
    error: Exception, answer: str, log: list[MutableMapping[str, Any]]
) -> None:
    store = UnreadableStore()
    store.sick, store.error = {SICK}, error
    async with running(store) as node:
        await until(lambda: node.counts().shards_active == 49, "all other shards are served")
        await until(lambda: store.owner(SICK) is None, "the shard is released")
        ready = await node.readiness()
        with pytest.raises(CoordinatorNotAvailable, match=answer):
            await Member(node, "g").heartbeat()
        assert node.counts().sums.loads_failed >= 1
        store.sick = set()
        await until(lambda: node.counts().shards_active == 50, "it is tried again")
        await until_readiness(node, expected=True)
        await Member(node, "g").settle()
    assert not ready.is_ready
    assert any(f"shard {SICK} cannot be loaded" in reason for reason in ready.reasons)
    assert "bad page" in next(event["reason"] for event in log if event["event"] == "shard_load_failed")


async def test_shards_that_failed_are_tried_one_by_one() -> None:
    store = UnreadableStore()
    store.sick = {SICK}
    async with running(store) as node:
        await until(lambda: node.counts().shards_active == 49, "all other shards are served")
    (first,) = [each for each in store.loads if len(each) > 1 and SICK in each][:1]
    assert [[shard_id] in store.loads for shard_id in first] == [True] * len(first)


async def test_node_that_loads_no_shard_starts_and_retries() -> None:
    store = UnreadableStore()
    store.sick = set(range(50))
    async with running(store) as node:
        await until(lambda: node.counts().sums.loads_failed >= 50, "every shard was tried")
        ready = await node.readiness()
        assert not ready.is_ready
        assert any("cannot be loaded: ValueError: bad page" in reason for reason in ready.reasons)
        store.sick = set()
        await until(lambda: node.counts().shards_active == 50, "every shard is served")
        await until_readiness(node, expected=True)


async def test_hanging_load_does_not_delay_other_leases() -> None:
    store = UnreadableStore()
    store.sick = {49}
    store.go.clear()
    group = next(f"g{n}" for n in range(10_000) if shard_of(f"g{n}", 50) == 49)
    try:
        async with running(store, config(lease_ttl_ms=SHORT_LEASE_MS)) as node:
            await until(lambda: [45, 46, 47, 48, 49] in store.loads, "the load hangs")
            await Member(node, group).heartbeat()  # A shard that is being loaded answers as Kafka does.
            renewals = node.counts().sums.renewals
            await until(lambda: node.counts().sums.renewals > renewals + 1, "leases are renewed")
            await until(lambda: node.counts().sums.loads_failed >= 5, "the load is given up")
            await until(lambda: node.counts().shards_active == 45, "the other shards are served")
            assert "time of a lease" in await refusal_of(Member(node, group))
            await until_readiness(node, expected=False, reason=f"{SHORT_LEASE_MS // 1000} s, the time of a lease")
            store.go.set()
    finally:
        store.go.set()


async def refusal_of(member: Member) -> str:
    """Send heartbeats until one is refused: a shard is loaded again and again, and answers them meanwhile."""
    async with limited("a heartbeat is refused"):
        while True:
            try:
                await member.heartbeat()
            except CoordinatorNotAvailable as refusal:
                return refusal.detail
            await asyncio.sleep(0.005)


async def test_another_node_acquires_a_shard_that_failed_to_load() -> None:
    sick, store = UnreadableStore(), MemoryStore()
    sick.sick = set(range(50))
    for part in ("_leases", "_groups", "_settings_and_topics", "_maintenance", "_lock"):
        setattr(sick, part, getattr(store, part))
    async with running(sick, config("a")) as first:
        await until(lambda: first.counts().sums.loads_failed >= 5, "the first fails")
        async with running(store, config("b")) as second:
            await until(lambda: second.counts().shards_active >= 25, "the second serves its share")
            group = next(f"g{n}" for n in range(1000) if sick.owner(shard_of(f"g{n}", 50)) == "b")
            await Member(second, group).settle()
            assert not (await first.readiness()).is_ready


def test_the_time_until_the_next_attempt_doubles_up_to_a_limit() -> None:
    clock = JumpingClock()
    failures = LoadFailures(clock)
    waits = []
    for _ in range(12):
        failures.add(3, "why")
        waits.append(failures._failures[3].retry_at_ms - clock.now().node_ms)
    assert waits[0] <= RETRY_MS < waits[2] <= 4 * RETRY_MS
    assert RETRY_MAX_MS - 1_000 < waits[-1] <= RETRY_MAX_MS
    clock.jumped_ms = RETRY_MAX_MS
    assert not failures.is_waiting(3)


async def test_unreadable_setting_is_ignored_and_logged(log: list[MutableMapping[str, Any]]) -> None:
    store = MemoryStore()
    change = ChangeRow("7b0e0d0c-0000-4000-8000-000000000001", 1, "ada", "put_settings", "g", None, None, "a test")
    store.put_settings("g", {"session_timeout_ms": "soon", "group_max_size": "1"}, change)
    async with running(store) as node:
        await until(lambda: node.counts().shards_active == 50, "all shards are served")
        settings = node.metadata_cache.effective_settings("g")
    assert (settings["session_timeout_ms"].source, settings["group_max_size"].value) == ("default", 1)
    assert [event["key"] for event in log if event["event"] == "invalid_setting_ignored"][:1] == ["session_timeout_ms"]
