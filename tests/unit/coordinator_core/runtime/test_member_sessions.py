"""A node writes member sessions when they end and every hour, without time in which it was paused."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS
from coordinator_core.protocol.errors import RebalanceInProgress
from coordinator_core.runtime import shard_scan
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.member_sessions import INTERVAL_MS
from coordinator_core.state_store.rows import MemberSessionRow
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.callers import Caller
from tests.unit.coordinator_core.runtime.doubtful_lease import FarStore, be_sure_again, put_in_doubt
from tests.unit.coordinator_core.runtime.nodes import HeldStore, JumpingClock, Member, config, running, until

pytestmark = pytest.mark.anyio

NO_PAUSE = config(pause_ms=10**9, lease_ttl_ms=10**9)
"""No step in time is taken for a pause of the node's, or for a lost lease."""
PAUSES = config(lease_ttl_ms=10**9)


def gaps(row: MemberSessionRow) -> dict[int, int]:
    """Return bound → how many gaps it counts, of a second and more; what is below is the machine's own time."""
    counted = zip(GAP_BOUNDS_MS, row.heartbeat_gap_histogram or (), strict=False)
    return {bound: count for bound, count in counted if count and bound > 1_024}


def only(store: MemoryStore) -> MemberSessionRow:
    (row,) = store.history.sessions
    return row


async def test_heartbeat_gaps_are_stored_when_the_member_leaves() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, NO_PAUSE, clock) as node:
        member = Member(node, "g")
        await member.settle()
        for gap_ms in (3_000, 3_000, 9_000):
            clock.jumped_ms += gap_ms
            await member.heartbeat()
        clock.jumped_ms += 20_000
        await member.leave()
    row = only(store)
    assert gaps(row) == {4_096: 2, 16_384: 1}
    assert row.heartbeat_gap_ms_max is not None
    assert 9_000 <= row.heartbeat_gap_ms_max < 16_384
    assert row.heartbeat_count == 3 + 1, "the sync was heard as well"
    assert (row.end_reason, row.generation, row.session_timeout_ms) == ("left", 1, 60_000)
    assert row.last_heartbeat_at_ms is not None
    assert row.ended_at_ms - row.last_heartbeat_at_ms >= 20_000


async def test_a_commit_ends_a_gap_as_a_heartbeat_does() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, NO_PAUSE, clock) as node:
        member = Member(node, "g")
        await member.settle()
        clock.jumped_ms += 3_000
        await member.commit(1)
        await member.leave()
    assert gaps(only(store)) == {4_096: 1}


async def test_slow_store_causes_no_heartbeat_gap() -> None:
    store, clock = HeldStore(), JumpingClock()
    async with running(store, NO_PAUSE, clock) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        store.is_writing.clear()
        commit = asyncio.ensure_future(member.commit(1))
        await until(store.is_writing.is_set, "the commit is on its way")
        clock.jumped_ms += 5_000
        store.go.set()
        await commit
        await member.heartbeat()
        await member.leave()
    assert gaps(only(store)) == {}


async def test_a_member_has_a_session_from_the_end_of_the_join_phase() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, NO_PAUSE, clock) as node:
        member = Caller(node)
        await member.join()
        clock.jumped_ms += 3_000
        await member.sync()
        await member.leave()
    assert gaps(only(store)) == {4_096: 1}


async def test_retry_of_a_waiting_request_keeps_its_order() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, NO_PAUSE, clock) as node:
        first, second = await Caller(node).settle(), Caller(node)
        await asyncio.gather(second.join(), first.settle_again())
        second.topics = ("t", "u")
        await waits_twice(node, clock, second, "join", second.join, first.join)
        await waits_twice(node, clock, second, "sync", second.sync, first.sync)
        await second.leave()
    assert gaps(only(store)) == {}


async def waits_twice(
    node: Coordinator,
    clock: JumpingClock,
    member: Caller,
    awaited: str,
    ask: Callable[[], Awaitable[object]],
    release: Callable[[], Awaitable[object]],
) -> None:
    """Let a member ask, ask again after a long wait, and be answered."""
    overtaken = asyncio.ensure_future(ask())
    await until(lambda: parked_request(node, member) == awaited, "it waits")
    clock.jumped_ms += 20_000
    again = asyncio.ensure_future(ask())
    with pytest.raises(RebalanceInProgress):
        await overtaken
    await asyncio.gather(again, release())


def parked_request(node: Coordinator, member: Caller) -> str | None:
    view = node.describe("g")
    assert view is not None
    return next(each.parked_request for each in view.members if each.member.member_id == member.member_id)


async def test_refused_heartbeat_is_no_activity() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member, unknown_member = Member(node, "g"), Member(node, "g")
        await member.settle()
        unknown_member.member_id, unknown_member.generation = member.member_id, 77
        with pytest.raises(Exception, match="generation"):
            await unknown_member.heartbeat()
        await member.leave()
    assert only(store).heartbeat_count == 1


async def test_session_ends_with_the_write_that_evicts_its_member() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, NO_PAUSE, clock) as node:
        member = Member(node, "g")
        await member.settle()
        clock.jumped_ms += member.session_timeout_ms
        await until(lambda: bool(store.history.sessions), "its session is written")
        row = only(store)
        assert (row.end_reason, row.session_timeout_ms) == ("session_expired", 60_000)
        assert row.ended_at_ms in {each.at_ms for each in store.history.transitions}


async def test_pause_of_the_node_is_no_heartbeat_gap() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, PAUSES, clock) as node:
        heard_first, heard_late = Member(node, "g"), Member(node, "h")
        await heard_first.settle()
        await heard_late.settle()
        clock.jumped_ms += 5_000
        await heard_first.heartbeat()  # it comes before the node has noticed
        await until(lambda: sum(node.counts().sums.loop_gap_s.counts) == 1, "the pause is noticed")
        await heard_late.heartbeat()
        await heard_first.heartbeat()
        for member in (heard_first, heard_late):
            await member.leave()
    assert [gaps(row) for row in store.history.sessions] == [{}, {}]
    assert [row.heartbeat_count for row in store.history.sessions] == [3, 2]


async def test_doubtful_lease_pauses_progress() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=10**9), clock) as node:
        member = Member(node, "g")
        await member.settle()
        await put_in_doubt(store, clock, by_ms=40_000)
        await be_sure_again(store)
        await member.heartbeat()
        await member.leave()
    row = only(store)
    assert max(gaps(row), default=0) <= 32_768, "time in doubt is no gap"
    assert row.heartbeat_count == 2


async def test_failover_starts_a_row_without_a_heartbeat_gap() -> None:
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, NO_PAUSE, clock) as node:
        member = Member(node, "g")
        await member.settle()
    clock.jumped_ms += 7_000
    taken_at_ms = clock.now().wall_ms
    async with running(store, config("b", pause_ms=10**9, lease_ttl_ms=10**9), clock) as other:
        member.node = other
        clock.jumped_ms += 5_000
        await member.heartbeat()
        clock.jumped_ms += 3_000
        await member.heartbeat()
        await member.leave()
    row = only(store)
    assert gaps(row) == {4_096: 1}
    assert row.joined_at_ms < taken_at_ms <= row.started_at_ms


# -- by the hour ----------------------------------------------------------------------------------------------


async def test_long_session_is_written_in_hourly_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_scan, "SESSIONS_SCAN_INTERVAL_S", 0.01)
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, PAUSES, clock) as node:
        member = Member(node, "g")
        await member.settle()
        await pass_an_hour(node, clock, store, written=1)
        await member.heartbeat()
        await pass_an_hour(node, clock, store, written=2)
        await member.leave()
    first, second, last = store.history.sessions
    assert [row.end_reason for row in (first, second, last)] == ["hour", "hour", "left"]
    assert [row.heartbeat_count for row in (first, second, last)] == [1, 1, 0]
    assert (second.started_at_ms, last.started_at_ms) == (first.ended_at_ms, second.ended_at_ms)
    assert first.joined_at_ms == second.joined_at_ms == last.joined_at_ms


async def pass_an_hour(node: Coordinator, clock: JumpingClock, store: MemoryStore, *, written: int) -> None:
    """Let the node sleep for an hour, so that no member is evicted for it."""
    clock.jumped_ms += INTERVAL_MS
    await until(lambda: len(store.history.sessions) == written, "the interval is written")
