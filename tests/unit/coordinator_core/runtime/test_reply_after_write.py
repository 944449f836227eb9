"""A reply is sent when the records that it depends on are stored, and never before."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from coordinator_core.admin.settings import put_settings
from coordinator_core.protocol.errors import CoordinatorNotAvailable, RebalanceInProgress, RetryError
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import Deadline, DeadlineKind, Heartbeat
from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.timers import GroupTimer
from coordinator_core.runtime.waiting_requests import REPLIES_AT_ONCE
from coordinator_core.state_store.interface import OutcomeUnknown, StoreUnavailable
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, a_change, config, running, state_of, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> HeldStore:
    return HeldStore()


async def member_with_held_sync(node: Coordinator, store: HeldStore) -> tuple[Member, asyncio.Task[object]]:
    """Return the leader of a group of one, and its sync, which the store holds."""
    member = Member(node, "g")
    await member.join()
    store.go.clear()
    store.is_writing.clear()
    sync: asyncio.Task[object] = asyncio.create_task(member.sync((member.member_id, b"")))
    await asyncio.to_thread(store.is_writing.wait)
    return member, sync


async def test_a_join_is_answered_when_its_generation_is_stored(store: HeldStore) -> None:
    async with running(store) as node:
        store.go.clear()
        join = asyncio.create_task(Member(node, "g").join())
        await asyncio.to_thread(store.is_writing.wait)
        assert not join.done()
        store.go.set()
        assert (await join).generation == 1


async def test_a_cancelled_request_keeps_no_response_from_the_others(store: HeldStore) -> None:
    async with running(store) as node:
        gone, other = Member(node, "g"), Member(node, "h")
        await asyncio.gather(gone.settle(), other.settle())
        store.go.clear()
        commits = [asyncio.ensure_future(each.commit(5)) for each in (gone, other)]
        await asyncio.sleep(0)
        commits[0].cancel()
        store.go.set()
        await commits[1]
        await gone.commit(6)


async def test_heartbeat_of_a_stable_group_completes_at_once(store: HeldStore) -> None:
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        await member.heartbeat()
        store.go.set()


async def test_heartbeat_waits_for_the_write_that_it_depends_on(store: HeldStore) -> None:
    async with running(store) as node:
        member, sync = await member_with_held_sync(node, store)
        heartbeat = asyncio.create_task(member.heartbeat())
        await asyncio.sleep(0)
        assert not sync.done()
        assert not heartbeat.done()
        store.go.set()
        await asyncio.gather(sync, heartbeat)


async def test_replies_that_wait_for_one_write_are_sent_some_at_a_time(store: HeldStore) -> None:
    async with running(store) as node:
        member, sync = await member_with_held_sync(node, store)
        beats = [
            node.submit("g", Heartbeat(node.new_token(), member.generation, member.member_id))
            for _ in range(2 * REPLIES_AT_ONCE)
        ]
        store.go.set()
        answered = [0]
        async with limited("every heartbeat is answered"):
            while answered[-1] < len(beats):
                await asyncio.sleep(0)
                answered.append(sum(beat.done() for beat in beats))
        await sync
        assert max(after - before for before, after in pairwise(answered)) <= REPLIES_AT_ONCE


async def test_a_commit_under_way_blocks_no_heartbeat(store: HeldStore) -> None:
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        commit = asyncio.create_task(member.commit(7))
        await asyncio.sleep(0)
        await member.heartbeat()
        assert not commit.done()
        store.go.set()
        await commit


async def test_a_commit_that_is_stored_late_shortens_no_session_that_was_made_longer_since(store: HeldStore) -> None:
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        commit = asyncio.create_task(member.commit(7))
        await asyncio.sleep(0)
        await put_settings(node, "g", {"session_timeout_ms": 600_000}, a_change())
        await member.heartbeat()
        store.go.set()
        await commit
        assert session_left_ms(node, member) > 300_000


@pytest.mark.parametrize("ends_the_phase", [Member.leave, Member.join])
async def test_session_of_a_new_member_counts_from_its_first_generation(
    store: HeldStore, ends_the_phase: Callable[[Member], Awaitable[object]]
) -> None:
    async with running(store) as node:
        first, new_member = Member(node, "g"), Member(node, "g")
        await first.settle()
        store.go.clear()
        store.is_writing.clear()
        join = asyncio.create_task(new_member.join())
        await asyncio.to_thread(store.is_writing.wait)
        end = asyncio.ensure_future(ends_the_phase(first))
        await until(lambda: state_of(node, "g") == COMPLETING, "a generation starts")
        store.go.set()
        await asyncio.gather(join, end)
        assert 0 < session_left_ms(node, new_member) <= new_member.session_timeout_ms


def session_left_ms(node: Coordinator, member: Member) -> int:
    """Return in how many milliseconds a member is evicted without a heartbeat."""
    session = GroupTimer("g", Deadline(DeadlineKind.SESSION, member.member_id))
    due_at_ms = node._ownership.owned[shard_of("g", 50)].timers.due_at_ms(session)
    assert due_at_ms is not None
    return due_at_ms - node._clock.now().node_ms


async def test_late_stored_assignment_does_not_complete_a_newer_rebalance(
    store: HeldStore,
) -> None:
    async with running(store) as node:
        leader, follower, comer = Member(node, "g"), Member(node, "g"), Member(node, "g")
        await leader.settle()
        join = asyncio.create_task(follower.join())
        await until(lambda: state_of(node, "g") == PREPARING, "the follower joins")
        await asyncio.gather(leader.join(), join)
        store.go.clear()
        store.is_writing.clear()
        follows = asyncio.create_task(follower.sync())
        leads = asyncio.create_task(leader.sync((leader.member_id, b"mine"), (follower.member_id, b"yours")))
        await asyncio.to_thread(store.is_writing.wait)
        third = asyncio.create_task(comer.join())
        await until(lambda: state_of(node, "g") == PREPARING, "a rebalance begins")
        assert not leads.done()
        assert not follows.done()
        store.go.set()
        assert [(await leads).assignment, (await follows).assignment] == [b"mine", b"yours"]
        assert state_of(node, "g") == PREPARING
        for member in (leader, follower):
            with pytest.raises(RebalanceInProgress):
                await member.heartbeat()
        await asyncio.gather(leader.join(), follower.join(), third)
        assert {leader.generation, follower.generation, comer.generation} == {3}


@pytest.mark.parametrize("failure", [StoreUnavailable("gone"), OutcomeUnknown("who knows")])
async def test_an_assignment_that_cannot_be_stored_reaches_no_member(store: HeldStore, failure: Exception) -> None:
    async with running(store) as node:
        leader, follower = Member(node, "g"), Member(node, "g")
        await leader.settle()
        join = asyncio.create_task(follower.join())
        await until(lambda: state_of(node, "g") == PREPARING, "the follower joins")
        await asyncio.gather(leader.join(), join)
        assignments = (leader.member_id, b"mine"), (follower.member_id, b"yours")
        follows = asyncio.create_task(follower.sync())
        await until(lambda: node.counts().groups.parked_syncs == 1, "the follower waits for its assignment")
        store.failure = failure  # type: ignore[assignment]  # both are store errors
        answers = await asyncio.gather(leader.sync(*assignments), follows, return_exceptions=True)
        assert [isinstance(answer, RetryError) for answer in answers] == [True, True]

        await until(lambda: node.counts().shards_active == 50, "the shards come back")
        await until(lambda: _is_served(leader), "the group comes back")
        assert state_of(node, "g") == COMPLETING
        synced = await asyncio.gather(leader.sync(*assignments), follower.sync())
        assert [answer.assignment for answer in synced] == [b"mine", b"yours"]
        assert {leader.generation, follower.generation} == {2}


@pytest.mark.parametrize("failure", [StoreUnavailable("gone"), OutcomeUnknown("who knows")])
async def test_a_failed_write_is_a_retriable_error_and_leaves_what_was_stored(
    store: HeldStore, failure: Exception
) -> None:
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        await member.commit(7)
        store.failure = failure  # type: ignore[assignment]  # both are store errors
        with pytest.raises(RetryError):
            await member.commit(8)
        await until(lambda: node.counts().shards_active == 50, "the shards come back")
        await until(lambda: _is_served(member), "the group comes back")
        assert [offset.offset for offset in await node.fetch_offsets("g", None)] == [7]
        await member.heartbeat()
        await member.commit(9)


def _is_served(member: Member) -> bool:
    try:
        return member.node.describe(member.group_id) is not None
    except RetryError:
        return False


async def test_a_full_queue_refuses_writes_and_lets_heartbeats_through(store: HeldStore) -> None:
    async with running(store, config(max_queued_rows=1)) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        store.is_writing.clear()
        commits = [asyncio.create_task(member.commit(1))]
        await asyncio.to_thread(store.is_writing.wait)
        commits.append(asyncio.create_task(member.commit(2)))
        await asyncio.sleep(0)
        with pytest.raises(CoordinatorNotAvailable):
            await member.commit(3)
        await member.heartbeat()
        store.go.set()
        await asyncio.gather(*commits)


async def test_parked_requests_are_limited_and_commits_go_through(store: HeldStore) -> None:
    async with running(store, config(max_waiting_requests=2)) as node:
        member = Member(node, "g")
        await member.settle()
        parked = [asyncio.create_task(Member(node, "g").join()) for _ in range(2)]
        await until(lambda: state_of(node, "g") is PREPARING, "both wait for the member")
        with pytest.raises(CoordinatorNotAvailable, match="max_waiting_requests"):
            await Member(node, "other").join()
        await member.commit(1)
        await member.leave()
        await until(lambda: any(task.done() for task in parked), "the leader is answered")
        for task in parked:
            task.cancel()
