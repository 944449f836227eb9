"""Whatever rests on a record leaves when the record is stored, and never before."""

import asyncio

import pytest

from coordinator_core.protocol.errors import CoordinatorNotAvailable, RetryError
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import Deadline, DeadlineKind
from coordinator_core.runtime.timers import Armed
from coordinator_core.store.interface import OutcomeUnknown, StoreUnavailable
from tests.runtime.nodes import HeldStore, Member, config, running, until
from tests.runtime.test_operations import act

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> HeldStore:
    return HeldStore()


async def test_a_join_is_answered_when_its_generation_is_stored(store: HeldStore) -> None:
    async with running(store) as node:
        store.go.clear()
        join = asyncio.create_task(Member(node, "g").join())
        await asyncio.to_thread(store.is_writing.wait)
        assert not join.done()
        store.go.set()
        assert (await join).generation == 1


async def test_a_heartbeat_of_a_settled_group_waits_for_nothing(store: HeldStore) -> None:
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        store.go.clear()
        await member.heartbeat()
        store.go.set()


async def test_a_heartbeat_waits_for_the_change_that_it_may_have_seen(store: HeldStore) -> None:
    async with running(store) as node:
        member = Member(node, "g")
        await member.join()
        store.go.clear()
        store.is_writing.clear()
        sync = asyncio.create_task(member.sync((member.member_id, b"")))
        await asyncio.to_thread(store.is_writing.wait)
        heartbeat = asyncio.create_task(member.heartbeat())
        await asyncio.sleep(0)
        assert not sync.done()
        assert not heartbeat.done()
        store.go.set()
        await asyncio.gather(sync, heartbeat)


async def test_a_commit_under_way_holds_up_no_heartbeat(store: HeldStore) -> None:
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
        await node.operators.put_settings("g", {"session_timeout_ms": 600_000}, act())
        await member.heartbeat()
        store.go.set()
        await commit
        session = Armed("g", Deadline(DeadlineKind.MEMBER, member.member_id))
        due_at_ms = node._ownership.owned[shard_of("g", 50)].timers.due_at_ms(session)
        assert due_at_ms is not None
        assert due_at_ms - node._clock.now().node_ms > 300_000


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
