"""A mirror follows the log of a cluster on an in-memory store: each row once, whatever fails."""

import asyncio

import pytest

from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.states import DEAD
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.rows import MirrorPosition
from mirror import follower, polling
from mirror.decide import decide
from mirror.mirror import Mirror
from mirror.observed import GroupDeleted, ObservedCommit, OffsetDeleted
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, config, until, until_readiness
from tests.unit.mirror.fake_log import FakeLog
from tests.unit.mirror.observations import T0_MS, appended_ms, generation, member
from tests.unit.mirror.world import World

pytestmark = pytest.mark.anyio

NO_CHECKPOINT_MS = 3_600_000
"""No checkpoint is due while a test lasts, so commits are dirty until one is asked for."""


@pytest.fixture
def world() -> World:
    return World()


async def test_first_read_finds_what_is_there_without_history(world: World) -> None:
    world.see(1, "a")
    world.see(2, "a", "b")
    world.commit(0, 5)
    world.commit(0, 7)
    world.log.skip()

    async with world.following() as node:
        view = node.describe("g")

    assert view is not None
    assert (view.generation, {each.member.member_id for each in view.members}) == (2, {"a", "b"})
    assert not world.rebalances
    assert world.offsets() == {0: 7}


async def test_what_comes_after_it_is_history(world: World) -> None:
    world.see(1, "a")
    async with world.following():
        world.see(2, "a", "b")
        world.see(3, "b")
        await world.caught_up()

    assert [row.trigger for row in world.rebalances] == ["member_joined", "member_left_or_expired"]


async def test_mirror_that_starts_again_goes_on(world: World) -> None:
    async with world.following():
        world.see(1, "a")
        world.commit(0, 5)
        await world.caught_up()
    world.see(2, "a", "b")
    world.commit(1, 9)

    async with world.following():
        await world.stored({0: 5, 1: 9})

    assert [row.generation for row in world.rebalances] == [1, 2]


async def test_commit_names_the_owner_of_its_partition(world: World) -> None:
    async with world.following():
        world.see(1, "a", "b")
        world.commit(1, 5)
        world.commit(7, 5)
        await world.stored({1: 5, 7: 5})

    owners = {row.partition: row.member_id for row in world.store.committed_offsets("g")}
    assert owners == {1: "b", 7: ""}


async def test_group_of_commits_alone_is_a_simple_group(world: World) -> None:
    async with world.following() as node:
        world.commit(0, 5, "simple")
        await world.stored({0: 5}, "simple")
        view = node.describe("simple")

    assert view is not None
    assert view.protocol_type is None


async def test_group_without_a_name_is_kept_when_a_position_is_stored(world: World) -> None:
    """Kafka has one for old clients that set no group id; the row of a position is of no group either."""
    world.commit(0, 5, "")
    async with world.following() as node:
        view = node.describe("")
        world.commit(0, 6, "")
        await world.stored({0: 6}, "")

    assert view is not None
    assert [row.to_state for row in world.store.history.transitions] == ["Empty"]


async def test_deleted_offsets_are_archived(world: World) -> None:
    async with world.following():
        world.see(1, "a")
        world.commit(0, 5)
        world.commit(1, 6)
        world.log.say(T0_MS, OffsetDeleted("g", "orders", 0))
        await world.stored({1: 6})
        await world.caught_up()

    assert [(row.partition, row.offset) for row in world.store.history.archived] == [(0, 5)]


async def test_negative_committed_offset_is_none(world: World) -> None:
    async with world.following() as node:
        world.see(1, "a")
        world.commit(0, 5)
        world.commit(1, 6)
        world.commit(0, -1)
        await world.caught_up()
        await node.loaded_shard("g").store_offsets()
        assert world.offsets() == {1: 6}
        mirror = node.counts().mirror

    async with world.following():
        assert world.offsets() == {1: 6}

    assert mirror is not None
    assert mirror.undecodable == 0


async def test_deleted_group_is_gone_with_its_offsets(world: World) -> None:
    async with world.following() as node:
        world.see(1, "a")
        world.commit(0, 5)
        world.see(2)
        world.log.say(T0_MS, OffsetDeleted("g", "orders", 0))
        world.log.say(T0_MS, GroupDeleted("g"))
        await world.caught_up()
        await until(lambda: node.describe("g") is None, "the group to be gone")

    assert world.offsets() == {}
    assert [row.outcome for row in world.rebalances] == ["completed", "emptied"]


async def test_deleted_groups_leave_nothing_in_memory(world: World) -> None:
    """Else the memory of a mirror grows where groups come and go for months."""
    async with world.following() as node:
        world.see(1, "a")
        world.commit(0, 5)
        world.commit(0, 5, "simple")
        await world.stored({0: 5}, "simple")
        world.see(2)
        for group_id in ("g", "simple"):
            world.log.say(T0_MS, OffsetDeleted(group_id, "orders", 0))
        world.log.say(T0_MS, GroupDeleted("g"))
        await world.caught_up()
        await until(lambda: not any(map(node.describe, ("g", "simple"))), "the groups to be gone")
        (follower,) = world.mirror._followers.values()

        assert follower._owners == {}


async def test_group_that_was_deleted_and_created_again_is_another_one(world: World) -> None:
    async with world.following():
        world.see(1, "a")
        world.see(2)
        await world.caught_up()
    world.log.say(T0_MS + 3_000, GroupDeleted("g"))
    world.see(0)
    world.see(1, "b")
    async with world.following():
        await until(lambda: len(world.rebalances) >= 3, "the generation")

    assert [row.outcome for row in world.rebalances] == ["completed", "emptied", "completed"]
    assert [row.to_state for row in world.store.history.transitions].count(DEAD) == 1


async def test_simple_group_ends_with_its_last_offset(world: World) -> None:
    async with world.following() as node:
        world.commit(0, 5)
        await world.caught_up()
        world.log.say(T0_MS, OffsetDeleted("g", "orders", 0))
        await until(lambda: node.describe("g") is None, "the group to be gone")


async def test_log_that_was_created_again_is_read_as_a_whole(world: World) -> None:
    async with world.following() as node:
        world.see(1, "a")
        world.see(2, "a", "b")
        world.see(1, "x", group_id="other")
        world.commit(0, 5)
        world.commit(1, 6)
        await world.stored({0: 5, 1: 6})
        world.log.recreate()
        world.see(3, "b")
        world.commit(1, 2)
        await world.stored({1: 2})
        await until(lambda: node.describe("other") is None, "the other group to be gone")

    assert [row.generation for row in world.rebalances if row.group_id == "g"] == [1, 2, 3]


async def test_what_a_truncated_log_has_lost_is_removed(world: World) -> None:
    async with world.following() as node:
        world.see(1, "a")
        world.commit(0, 5)
        world.see(1, "x", group_id="lost")
        world.commit(0, 6)
        await world.stored({0: 6})
        world.log.truncate(2)
        await until(lambda: node.describe("lost") is None, "the lost group to be gone")
        await world.stored({0: 5})
        world.see(2, "a", "b")
        await world.caught_up()

    assert [row.generation for row in world.rebalances if row.group_id == "g"] == [1, 2]


async def test_commit_that_a_truncated_log_has_lost_is_not_stored(world: World) -> None:
    async with world.following(NO_CHECKPOINT_MS):
        world.see(1, "a")
        world.commit(0, 5)
        world.commit(1, 6)
        await world.caught_up()
        world.log.truncate(1)
        await world.caught_up()

    assert world.offsets() == {0: 5}


async def test_commit_that_no_checkpoint_has_stored_is_in_history_once_after_an_outage(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "RETRY_S", 0.0)
    async with world.following(NO_CHECKPOINT_MS):
        world.see(1, "a")
        world.commit(0, 5, at_ms=T0_MS)
        world.commit(0, 6, at_ms=T0_MS + 60_000)
        await world.caught_up()
        world.log.failure = "no broker answers"
        await until(lambda: world.mirror.counts.failure is not None, "the failure")
        world.log.failure = None
        await world.caught_up()

    assert [row.offset for row in world.store.history.offset_history] == [5]
    assert world.offsets() == {0: 6}


async def test_groups_whose_records_were_deleted_while_the_mirror_was_away_are_removed(world: World) -> None:
    async with world.following():
        world.see(1, "x", group_id="deleted")
        world.see(1, "a")
        await world.caught_up()
    world.see(2, "a", "b")
    world.see(3, "a")
    world.log.delete_records(before=3)

    async with world.following() as node:
        assert node.describe("deleted") is None
        assert node.describe("g") is not None

    assert [row.generation for row in world.rebalances if row.group_id == "g"] == [1, 3]


async def test_mirror_that_was_away_for_long_drops_what_was_compacted_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.following():
        world.see(1, "a", group_id="gone")
        world.commit(0, 5, "gone")
        await world.stored({0: 5}, "gone")
    world.log.recreate()
    for number in range(5):
        world.see(number, "a")
    world.log.compact()
    monkeypatch.setattr(follower, "DELETIONS_KEPT_MS", 0)

    async with world.following() as node:
        assert node.describe("gone") is None
        assert node.describe("g") is not None

    assert world.offsets("gone") == {}


async def test_group_that_was_deleted_while_the_mirror_was_away_for_long_is_simple_if_it_has_commits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.following():
        world.see(1, "a")
        world.commit(0, 5)
        world.commit(1, 6)
        await world.stored({0: 5, 1: 6})
    world.log.say(T0_MS, OffsetDeleted("g", "orders", 0))
    world.log.say(T0_MS, OffsetDeleted("g", "orders", 1))
    world.log.say(T0_MS, GroupDeleted("g"))
    world.commit(1, 9)
    world.log.compact()
    monkeypatch.setattr(follower, "DELETIONS_KEPT_MS", 0)

    async with world.following() as node:
        await world.stored({1: 9})
        view = node.describe("g")

    assert view is not None
    assert (view.protocol_type, view.members) == (None, ())


async def test_other_work_goes_on_while_a_whole_log_is_applied(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the leases of a node expire when it reads millions of commits for the first time."""
    monkeypatch.setattr(follower, "ENTRIES_PER_TURN", 1)
    sizes = set[int]()

    async def watch() -> None:
        while True:
            sizes.update(shard.offsets.size for shard in node.serving_shards())
            await asyncio.sleep(0)

    for partition in range(6):
        world.commit(partition, 1)
    async with world.following(NO_CHECKPOINT_MS) as node:
        watching = asyncio.create_task(watch())
        world.log.recreate()
        for partition in range(5):
            world.commit(partition, 1)
        await world.caught_up()
        watching.cancel()

    assert {1, 2, 3, 4} < sizes


async def test_commit_is_stored_after_the_decision_about_its_group(world: World) -> None:
    world.store = store = HeldStore(shards=1)
    async with world.following() as node:
        store.go.clear()
        store.is_writing.clear()
        try:
            world.see(1, "a")
            world.commit(0, 5)
            await until(store.is_writing.is_set, "the write of the group to begin")
            await node.loaded_shard("g").store_offsets("g")

            assert world.offsets() == {}
        finally:
            store.go.set()
        await world.stored({0: 5})


async def test_position_is_stored_now_and_then_where_no_group_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.following():
        world.see(1, "a")
        world.commit(0, 5)
        await world.stored({0: 5})
        monkeypatch.setattr(follower, "POSITION_INTERVAL_MS", 0)
        await until(lambda: _position(world).groups_seq == 2, "the position after the commit")


async def test_position_is_as_old_as_what_was_read_up_to_it(world: World) -> None:
    """Else a mirror that was stopped while it caught up may miss deletions that were compacted away since."""
    async with world.following():
        world.see(1, "a")
        await until(lambda: _position(world).groups_seq == 1, "the position")
    before = _position(world)
    world.see(2, "a", "b")
    async with world.following():
        await until(lambda: _position(world).groups_seq == 2, "the position")

    assert _position(world).read_at_ms == before.read_at_ms


def _position(world: World) -> MirrorPosition:
    position = world.store.mirror_position(0)
    assert position is not None
    return position


async def test_record_that_cannot_be_decoded_is_counted(world: World) -> None:
    async with world.following() as node:
        world.log.say_bytes(b"\0\1\0", b"")
        world.see(1, "a")
        await world.caught_up()

        mirror = node.counts().mirror

    assert mirror is not None
    assert (mirror.undecodable, mirror.records) == (1, 2)
    assert len(world.rebalances) == 1


async def test_cluster_that_cannot_be_reached_is_a_reason_not_to_be_ready(world: World) -> None:
    async with world.following() as node:
        assert (await node.readiness()).is_ready
        world.log.failure = "no broker answers"
        await until(lambda: world.mirror.counts.failure is not None, "the failure")
        readiness = await node.readiness()
        world.log.failure = None
        world.see(1, "a")
        await until(lambda: bool(world.rebalances), "the mirror to go on")

    assert (readiness.is_ready, readiness.reasons) == (False, ("no broker answers",))


async def test_node_that_owns_no_shard_is_ready_and_is_not_behind(world: World) -> None:
    """Another mirror has them all, as with one partition, or has taken them over."""
    async with world.following():
        idle = Coordinator(world.store, config("b"), mirror=decide)
        await idle.start()
        idle_mirror = Mirror(idle, world.log.opened, "cluster")
        idle_mirror.counts.lag = {0: 7}
        idle.follow(idle_mirror)
        try:
            await until_readiness(idle, expected=True)
            assert idle_mirror.counts.lag == {}
        finally:
            await idle.stop()


async def test_members_are_refused(world: World) -> None:
    async with world.following() as node:
        with pytest.raises(InvalidRequest, match="mirrored Kafka cluster"):
            await Member(node, "g").join()

        assert node.describe("g") is None


async def test_partition_is_followed_by_the_owner_of_its_shard() -> None:
    world = World()
    world.log, world.store = FakeLog(4), MemoryStore(shards=4)
    group_ids = [f"g{number}" for number in range(8)]
    for group_id in group_ids:
        seen = generation(1, member("a"), group_id=group_id)
        world.log.say(appended_ms(seen), seen, shard_of(group_id, 4))

    async with world.following() as node:
        assert all(node.describe(group_id) is not None for group_id in group_ids)


async def test_group_whose_id_cannot_be_stored_as_it_is_is_skipped() -> None:
    """Under another id it would belong to another shard, and be quarantined at the next start."""
    world = World()
    world.log, world.store = FakeLog(4), MemoryStore(shards=4)
    written, stored = "a\0", "a\ufffd"
    assert shard_of(written, 4) != shard_of(stored, 4)
    world.log.say(T0_MS, generation(1, member("a"), group_id=written), shard_of(written, 4))
    world.log.say(T0_MS, ObservedCommit(written, "orders", 0, 5, -1, "", T0_MS, None), shard_of(written, 4))
    world.log.say(T0_MS, generation(1, member("a"), group_id=stored), shard_of(stored, 4))

    async with world.following() as node:
        assert node.describe(stored) is not None
        assert world.offsets(stored) == {}
        assert world.mirror.counts.undecodable == 2


async def test_what_an_old_partition_has_of_a_group_has_no_effect() -> None:
    """It stays there when `__consumer_offsets` gets more partitions, and Kafka's clients do not see it any more."""
    world = World()
    world.log, world.store = FakeLog(2), MemoryStore(shards=2)
    own = shard_of("g", 2)
    for offset in (1, 2, 3):
        world.log.say(T0_MS, ObservedCommit("g", "orders", 0, offset, -1, "", T0_MS, None), 1 - own)
    world.log.say(T0_MS, ObservedCommit("g", "orders", 0, 7, -1, "", T0_MS, None), own)

    async with world.following():
        await world.stored({0: 7})

    assert world.mirror.counts.undecodable == 0


async def test_partition_is_not_read_again_when_another_one_is() -> None:
    world = World()
    world.log, world.store = FakeLog(2), MemoryStore(shards=2)
    by_shard = {shard_of(group_id, 2): group_id for group_id in (f"g{number}" for number in range(8))}
    seen = {shard: generation(1, member("a"), group_id=group_id) for shard, group_id in by_shard.items()}
    for shard in (0, 1):
        world.log.say(appended_ms(seen[shard]), seen[shard], shard)

    async with world.following():
        world.log.recreate(1)
        await world.caught_up()
        world.log.say(appended_ms(seen[1]), seen[1], 1)
        await world.caught_up()

        assert world.mirror.counts.records == 3
