"""A mirror follows groups of the consumer protocol: their rebalances, members and topics."""

from uuid import UUID

import pytest

from coordinator_core.protocol.consumer_protocol import TopicPartitions, partitions_of
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.rows import OtherGroup
from mirror import mirror
from mirror.group_records import GroupEpoch, GroupType, MemberSubscription, Subscription
from mirror.observed import GroupDeleted, ObservedGroup
from tests.unit.coordinator_core.runtime.nodes import until
from tests.unit.mirror.group_log import ORDERS, GroupLog
from tests.unit.mirror.observations import T0_MS, generation, member
from tests.unit.mirror.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def group() -> GroupLog:
    return GroupLog()


def members_of(node: Coordinator, group_id: str = "g") -> set[str]:
    """Return the ids of a group's members."""
    view = node.describe(group_id)
    return set() if view is None else {each.member.member_id for each in view.members}


def clients_of(node: Coordinator) -> dict[str, tuple[str, str]]:
    """Return the client id and host of each member of the group."""
    view = node.describe("g")
    assert view is not None
    return {each.member.member_id: (each.member.client_id, each.member.client_host) for each in view.members}


def stored_clients(world: World) -> dict[str, tuple[str, str]]:
    """Return the client id and host of each member of the group, as they are stored."""
    [stored] = world.store.load_shards([0])
    return {each.member_id: (each.client_id, each.client_host) for each in stored.members}  # type: ignore[union-attr]


def owned(world: World) -> dict[str, tuple[TopicPartitions, ...] | None]:
    """Return the partitions of each member of the group, as they are stored."""
    [stored] = world.store.load_shards([0])
    return {each.member_id: partitions_of(each.assignment) for each in stored.members}  # type: ignore[union-attr]


async def test_rebalance_has_the_start_of_the_log(world: World, group: GroupLog) -> None:
    async with world.following() as node:
        world.append(T0_MS + 1_000, group.joined("a"))
        world.append(T0_MS + 2_000, group.joined("b"))
        world.append(T0_MS + 3_000, group.left("a"))
        world.append(T0_MS + 3_500, group.assigned())
        world.append(T0_MS + 4_000, group.left("b"))
        await world.caught_up()
        view = node.describe("g")

    assert [
        (row.generation, row.trigger, row.trigger_member_id, row.outcome, row.started_at_ms, row.joined_at_ms)
        for row in world.rebalances
    ] == [
        (1, "member_joined", "a", "completed", T0_MS + 1_000, T0_MS + 1_000),
        (2, "member_joined", "b", "completed", T0_MS + 2_000, T0_MS + 2_000),
        (3, "member_left_or_expired", "a", "completed", T0_MS + 3_000, T0_MS + 3_500),
        (4, "member_left_or_expired", "b", "emptied", T0_MS + 4_000, None),
    ]
    assert not any(row.is_start_inferred for row in world.rebalances)
    assert view is not None
    assert (view.generation, view.members, view.leader_id) == (4, (), None)


async def test_rebalance_of_several_epochs_starts_with_the_first(world: World, group: GroupLog) -> None:
    async with world.following():
        world.append(T0_MS + 1_000, group.joined("a"))
        world.append(T0_MS + 2_000, group.joined("b"))
        world.append(T0_MS + 2_500, group.joined("c"))
        world.append(T0_MS + 3_000, group.left("a"))
        world.append(T0_MS + 4_000, group.left("b"))
        world.append(T0_MS + 5_000, group.assigned())
        await world.caught_up()

    assert [(row.generation, row.started_at_ms) for row in world.rebalances[3:]] == [(5, T0_MS + 3_000)]


async def test_start_is_known_to_a_mirror_that_starts_again_before_the_assignment(
    world: World, group: GroupLog
) -> None:
    async with world.following():
        world.append(T0_MS + 1_000, group.joined("a"))
        world.append(T0_MS + 2_000, group.joined("b"))
        world.append(T0_MS + 3_000, group.left("a"))
        world.commit(1, 7)
        await world.caught_up()
    world.append(T0_MS + 9_000, group.assigned())

    async with world.following() as node:
        assert members_of(node) == {"b"}
        assert not node.quarantined()

    row = world.rebalances[-1]
    assert (row.generation, row.started_at_ms, row.joined_at_ms) == (3, T0_MS + 3_000, T0_MS + 9_000)
    assert (row.is_start_inferred, len(world.rebalances)) == (False, 3)


async def test_first_read_finds_the_group_as_it_is(world: World, group: GroupLog) -> None:
    world.append(T0_MS, group.joined("a"))
    world.append(T0_MS, group.joined("b"))

    async with world.following() as node:
        assert members_of(node) == {"a", "b"}

    assert not world.rebalances


async def test_group_that_is_being_assigned_is_kept_when_the_whole_log_is_read(world: World, group: GroupLog) -> None:
    async with world.following() as node:
        world.append(T0_MS, group.joined("a"))
        world.append(T0_MS, group.joined("b"))
        await world.caught_up()
        world.log.recreate()
        group.joined("c")
        world.append(T0_MS, group.converted(5, group.members)[:-4])
        await world.caught_up()

        assert members_of(node) == {"a", "b"}


async def test_log_that_was_created_again_while_the_mirror_was_away_is_read_as_a_whole(
    world: World, group: GroupLog
) -> None:
    async with world.following():
        world.append(T0_MS, GroupLog("gone").joined("x"))
        world.append(T0_MS, group.joined("a"))
        await world.caught_up()
    world.log.recreate()
    world.append(T0_MS, group.joined("b"))

    async with world.following() as node:
        assert (members_of(node), members_of(node, "gone")) == ({"b"}, set())


async def test_static_member_that_comes_back_has_no_rebalance(world: World, group: GroupLog) -> None:
    async with world.following() as node:
        world.append(T0_MS + 1_000, group.joined("a", "host-1"))
        world.append(T0_MS + 2_000, group.joined("b"))
        world.append(T0_MS + 3_000, group.returned("a", "a2"))
        await world.caught_up()

        assert members_of(node) == {"a2", "b"}

    assert [row.generation for row in world.rebalances] == [1, 2]
    assert [(row.member_id, row.end_reason) for row in world.store.history.sessions] == [("a", "replaced")]


async def test_member_that_goes_on_from_another_host_has_no_rebalance(world: World, group: GroupLog) -> None:
    async with world.following() as node:
        world.append(T0_MS + 1_000, group.joined("a"))
        world.append(T0_MS + 2_000, group.joined("b"))
        await until(lambda: members_of(node) == {"a", "b"}, "the members")
        world.append(T0_MS + 3_000, group.moved("a", "moved", "/10.0.0.2"))
        await until(lambda: clients_of(node)["a"] == ("moved", "/10.0.0.2"), "the new host")
        await until(lambda: stored_clients(world) == clients_of(node), "the row of the member")
        assert clients_of(node)["b"] == ("client", "/127.0.0.1")
        world.append(T0_MS + 4_000, group.left("a"))
        world.append(T0_MS + 4_000, group.assigned())
        await until(lambda: [row.generation for row in world.rebalances] == [1, 2, 3], "the end of its session")

    assert [(row.member_id, row.client_id, row.client_host) for row in world.store.history.sessions] == [
        ("a", "moved", "/10.0.0.2")
    ]


async def test_member_that_has_moved_while_the_mirror_was_away_is_found_at_the_end(
    world: World, group: GroupLog
) -> None:
    """Compaction may have moved the records of the group there."""
    async with world.following():
        world.append(T0_MS + 1_000, group.joined("a"))
        await world.caught_up()
    world.append(T0_MS + 2_000, group.moved("a", "moved", "/10.0.0.2"))
    world.append(T0_MS + 2_000, [group._reached("a"), *group.assigned()])
    world.log.compact()

    async with world.following() as node:
        assert clients_of(node) == {"a": ("moved", "/10.0.0.2")}

    assert [row.generation for row in world.rebalances] == [1]


async def test_topics_without_more_to_be_seen_are_the_trigger(world: World, group: GroupLog) -> None:
    async with world.following():
        world.append(T0_MS + 1_000, group.joined("a"))
        world.append(T0_MS + 2_000, [*group.raised(), *group.assigned()])
        await world.caught_up()

    assert [(row.trigger, row.trigger_member_id) for row in world.rebalances[1:]] == [("partitions_changed", None)]


async def test_members_that_compaction_has_moved_are_found_at_the_end(world: World, group: GroupLog) -> None:
    async with world.following():
        world.append(T0_MS + 1_000, group.joined("a"))
        world.append(T0_MS + 2_000, group.joined("b"))
        await world.caught_up()
    world.append(T0_MS + 3_000, group.left("a"))
    world.append(T0_MS + 4_000, group.assigned())
    moved = Subscription(None, "client", "/127.0.0.2", 60_000, ("orders",), None, None, None)
    world.append(T0_MS + 5_000, [MemberSubscription(GroupType.CONSUMER, "g", "b", moved)])
    world.log.compact()

    async with world.following() as node:
        assert members_of(node) == {"b"}


# -- the end of a group, and its other protocol ---------------------------------------------------------------


async def test_deleted_group_is_gone(world: World, group: GroupLog) -> None:
    async with world.following() as node:
        world.append(T0_MS, group.joined("a"))
        world.append(T0_MS, group.left("a"))
        await world.caught_up()
        assert node.describe("g") is not None
        world.append(T0_MS, group.deleted())
        await until(lambda: node.describe("g") is None, "the group to be gone")


@pytest.mark.parametrize("padding", range(3))
async def test_group_that_is_converted_goes_on(world: World, group: GroupLog, padding: int) -> None:
    async with world.following() as node:
        for number in range(padding):  # So that a poll ends before, after and between the records of the conversion.
            world.commit(number, 1, "another")
        world.see(1, "a")
        world.commit(0, 5)
        await world.stored({0: 5})
        world.log.say(T0_MS + 5_000, GroupDeleted("g"))
        world.append(T0_MS + 5_000, group.converted(1, {"a": None}))
        world.append(T0_MS + 6_000, group.joined("b"))
        await world.caught_up()
        assert members_of(node) == {"a", "b"}
        world.append(T0_MS + 7_000, group.deleted())
        seen: ObservedGroup = generation(3, member("a", 0))
        world.log.say(T0_MS + 7_000, seen)
        await world.caught_up()
        view = node.describe("g")

    assert view is not None
    assert (view.generation, view.leader_id) == (3, "a")
    assert [row.generation for row in world.rebalances] == [1, 2, 3]
    assert len({row.group_created_at_ms for row in world.rebalances}) == 1
    assert world.offsets() == {0: 5}


async def test_group_that_was_deleted_and_is_created_later_with_the_other_protocol_is_another_one(
    world: World, group: GroupLog
) -> None:
    async with world.following():
        world.see(1, "a")
        world.see(2)
        await world.caught_up()
    world.log.say(T0_MS + 5_000, GroupDeleted("g"))
    world.append(T0_MS + 3_600_000, group.joined("b"))
    async with world.following():
        await until(lambda: len(world.rebalances) == 3, "the generation")

    assert len({row.group_created_at_ms for row in world.rebalances}) == 2


# -- topics ----------------------------------------------------------------------------------------------------


async def test_partitions_of_a_topic_are_left_out_until_its_name_is_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "UNKNOWN_TOPICS_RETRY_S", 0.0)
    late = UUID(int=7)
    async with world.following():
        world.append(T0_MS, GroupLog(topic_id=late).joined("a"))
        await world.caught_up()
        assert owned(world) == {"a": ()}
        world.log.topics[late] = "late"
        await until(lambda: owned(world) == {"a": (TopicPartitions("late", (0,)),)}, "the partitions")


async def test_topics_that_are_known_are_not_asked_for_again(world: World, group: GroupLog) -> None:
    async with world.following():
        world.append(T0_MS, group.joined("a"))
        await world.caught_up()
        del world.log.topics[ORDERS]
        world.append(T0_MS, group.joined("b"))
        await world.caught_up()

    assert owned(world) == {"a": (TopicPartitions("orders", (0,)),), "b": (TopicPartitions("orders", (1,)),)}


async def test_names_of_deleted_topics_are_forgotten(world: World, group: GroupLog) -> None:
    """Topics that come and go all the time would fill the memory."""
    async with world.following():
        world.append(T0_MS, group.joined("a"))
        await world.caught_up()
        del world.log.topics[ORDERS]
        world.mirror.forget_topics({"orders"})
        world.append(T0_MS, group.joined("b"))
        await world.caught_up()

    assert owned(world) == {"a": (), "b": ()}


# -- share groups ----------------------------------------------------------------------------------------------


async def test_share_groups_are_counted_and_stored(world: World) -> None:
    share = GroupType.SHARE
    subscription = Subscription(None, "client", "/127.0.0.1", None, ("orders",), None, None, None)
    async with world.following() as node:
        for group_id in "xy":
            world.append(T0_MS, [GroupEpoch(share, group_id, 1)])
        world.append(T0_MS, [MemberSubscription(share, "x", "a", subscription), GroupEpoch(share, "x", 2)])
        await world.caught_up()
        assert world.mirror.counts.other_groups == {("share", "Stable"): 1, ("share", "Empty"): 1}
        assert node.describe("x") is None
        stored = [
            OtherGroup("x", 0, "share", "Stable", T0_MS, 2, 1),
            OtherGroup("y", 0, "share", "Empty", T0_MS, 1, 0),
        ]
        await until(lambda: world.store.other_groups() == stored, "the rows")
        world.append(T0_MS, [GroupEpoch(share, "y", None)])
        await until(lambda: world.mirror.counts.other_groups == {("share", "Stable"): 1}, "the deletion")
        await until(lambda: world.store.other_groups() == stored[:1], "the deletion of its row")


# -- commits ---------------------------------------------------------------------------------------------------


async def test_commits_that_are_stored_are_not_decoded_again(world: World) -> None:
    async with world.following():
        world.log.say_bytes(b"\0\1 no commit", b"")
        world.commit(0, 5)
        await world.stored({0: 5})
        assert world.mirror.counts.undecodable == 1

    async with world.following():
        assert (world.mirror.counts.undecodable, world.mirror.counts.records) == (0, 2)
