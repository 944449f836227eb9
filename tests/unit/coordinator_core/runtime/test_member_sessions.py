"""A running node tells each stay when it ends, or by the hour, and counts no time that was not the member's."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator_core.protocol.errors import RebalanceInProgress
from coordinator_core.runtime import stays
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.stays import ROWS_A_LOOK, Hours
from coordinator_core.store.memory import MemoryStore
from coordinator_core.store.rows import MemberSessionRow
from coordinator_core.store.stays import GAP_BOUNDS_MS, HOUR_MS
from tests.unit.coordinator_core.runtime.callers import Caller
from tests.unit.coordinator_core.runtime.doubtful_lease import FarStore, be_sure_again, put_in_doubt
from tests.unit.coordinator_core.runtime.nodes import HeldStore, JumpingClock, Member, config, running, until

pytestmark = pytest.mark.anyio

NO_PAUSE = config(pause_ms=10**9, lease_ttl_ms=10**9)
"""No step in time is taken for a pause of the node's, or for a lost lease."""
PAUSES = config(lease_ttl_ms=10**9)


def gaps(row: MemberSessionRow) -> dict[int, int]:
    """Return bound → how many gaps it counts, of a second and more; what is below is the machine's own time."""
    counted = zip(GAP_BOUNDS_MS, row.heartbeat_gap_histogram, strict=False)
    return {bound: count for bound, count in counted if count and bound > 1_024}


def only(store: MemoryStore) -> MemberSessionRow:
    (row,) = store.history.sessions
    return row


async def test_gaps_between_heartbeats_are_told_when_the_member_leaves() -> None:
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


async def test_the_wait_of_a_slow_store_is_no_gap() -> None:
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


async def test_whoever_asks_again_while_it_waits_lets_nothing_pass() -> None:
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
    await until(lambda: awaiting(node, member) == awaited, "it waits")
    clock.jumped_ms += 20_000
    again = asyncio.ensure_future(ask())
    with pytest.raises(RebalanceInProgress):
        await overtaken
    await asyncio.gather(again, release())


def awaiting(node: Coordinator, member: Caller) -> str | None:
    view = node.describe("g")
    assert view is not None
    return next(each.awaiting for each in view.members if each.member.member_id == member.member_id)


async def test_a_refused_heartbeat_is_no_sign_of_life() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member, stranger = Member(node, "g"), Member(node, "g")
        await member.settle()
        stranger.member_id, stranger.generation = member.member_id, 77
        with pytest.raises(Exception, match="generation"):
            await stranger.heartbeat()
        await member.leave()
    assert only(store).heartbeat_count == 1


async def test_a_silent_member_s_stay_ends_with_the_write_that_puts_it_out() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        member.session_timeout_ms = 30
        await member.settle()
        await until(lambda: bool(store.history.sessions), "its stay is told")
        row = only(store)
        assert (row.end_reason, row.session_timeout_ms) == ("session_expired", 30)
        assert row.ended_at_ms in {each.at_ms for each in store.history.transitions}


async def test_a_pause_of_the_node_is_nobody_s_gap() -> None:
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


async def test_while_a_lease_is_in_doubt_nobody_lets_anything_pass() -> None:
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(pause_ms=10**9), clock) as node:
        member = Member(node, "g")
        await member.settle()
        await put_in_doubt(store, clock, by_ms=40_000)
        await be_sure_again(store)
        await member.heartbeat()
        await member.leave()
    row = only(store)
    assert max(gaps(row), default=0) < 32_768, "what passed in doubt is nobody's gap"
    assert row.heartbeat_count == 2


async def test_a_take_over_begins_a_row_and_is_nobody_s_gap() -> None:
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


async def test_a_stay_of_hours_is_told_by_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stays, "LOOK_S", 0.01)
    store, clock = MemoryStore(), JumpingClock()
    async with running(store, PAUSES, clock) as node:
        member = Member(node, "g")
        await member.settle()
        await pass_an_hour(node, clock, store, told=1)
        await member.heartbeat()
        await pass_an_hour(node, clock, store, told=2)
        await member.leave()
    first, second, last = store.history.sessions
    assert [row.end_reason for row in (first, second, last)] == ["hour", "hour", "left"]
    assert [row.heartbeat_count for row in (first, second, last)] == [1, 1, 0]
    assert (second.started_at_ms, last.started_at_ms) == (first.ended_at_ms, second.ended_at_ms)
    assert first.joined_at_ms == second.joined_at_ms == last.joined_at_ms


async def pass_an_hour(node: Coordinator, clock: JumpingClock, store: MemoryStore, *, told: int) -> None:
    """Let the node sleep for an hour, so that nobody is put out for it."""
    clock.jumped_ms += HOUR_MS
    await until(lambda: len(store.history.sessions) == told, "the hour is told")


class ManyStays:
    """A shard with rows to tell."""

    def __init__(self, due: int) -> None:
        self.due = due

    def tell_hours(self, limit: int) -> int:
        told = min(limit, self.due)
        self.due -= told
        return told


async def test_a_look_queues_so_many_rows_and_no_more() -> None:
    shards = [ManyStays(ROWS_A_LOOK - 10), ManyStays(30), ManyStays(5)]
    hours = Hours(lambda: shards, lambda: False)
    await hours.look()
    assert [shard.due for shard in shards] == [0, 20, 5]
    await hours.look()
    assert [shard.due for shard in shards] == [0, 0, 0]


async def test_a_writer_that_is_behind_gets_no_background_work() -> None:
    shards = [ManyStays(30)]
    await Hours(lambda: shards, lambda: True).look()
    assert shards[0].due == 30
