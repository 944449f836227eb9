"""A mirror without the log: what polls say of groups and offsets becomes the rows that a log would have led to."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.protocol.states import COMPLETING, EMPTY, PREPARING, STABLE, GroupState
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.views import GroupView
from coordinator_core.state_store.interface import StoreError, StoreUnavailable
from coordinator_core.state_store.rows import OtherGroup
from mirror.decide import decide
from mirror.kafka_log import KafkaUnavailable
from mirror.polled_groups import ListedGroup, Offsets, PolledGroup, PolledOffset, committed_offsets
from mirror.polled_mirror import PolledMirror
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import config, until, until_readiness
from tests.unit.mirror.observations import member

pytestmark = pytest.mark.anyio


class FakeGroups:
    """The groups of a cluster, as its brokers describe them."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self._listed: dict[str, ListedGroup] = {}
        self._described: dict[str, PolledGroup] = {}
        self.committed: dict[str, Offsets] = {}
        self.without_coordinator: set[str] = set()

    def show(self, group_id: str, state: str, *members: str, kind: str = "classic", epoch: int | None = None) -> None:
        """Let the cluster have a group; each member owns the partition of its place."""
        self._listed[group_id] = ListedGroup(group_id, 1, kind, "consumer", state)
        found = tuple(member(member_id, place) for place, member_id in enumerate(members))
        self._described[group_id] = PolledGroup("consumer", "range" if members else "", found, epoch)
        self.committed.setdefault(group_id, {})

    def move(self, group_id: str, client_host: str) -> None:
        """Let all members of a group go on from another host."""
        shown = self._described[group_id]
        moved = tuple(each._replace(client_host=client_host) for each in shown.members)
        self._described[group_id] = shown._replace(members=moved)

    def commit(self, group_id: str, partition: int, offset: int) -> None:
        """Let a group have a committed offset."""
        self.committed.setdefault(group_id, {})[("orders", partition)] = PolledOffset(offset, -1, "")
        self._listed.setdefault(group_id, ListedGroup(group_id, 1, "classic", "", "Empty"))

    def delete(self, group_id: str) -> None:
        """Delete a group."""
        del self._listed[group_id], self.committed[group_id]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["FakeGroups"]:
        """Connect."""
        if self.failure is not None:
            raise KafkaUnavailable(self.failure)
        yield self

    async def listed(self) -> list[ListedGroup]:
        """Return all groups."""
        if self.failure is not None:
            raise KafkaUnavailable(self.failure)
        return list(self._listed.values())

    async def described(self, groups: Sequence[ListedGroup]) -> dict[str, PolledGroup]:
        """Return the groups among these that are in no rebalance."""
        return {each.group_id: self._described[each.group_id] for each in groups}

    async def offsets(self, groups: Iterable[ListedGroup]) -> dict[str, Offsets]:
        """Return the committed offsets of groups."""
        return {each.group_id: dict(self.committed[each.group_id]) for each in groups}

    async def coordinated(self, group_ids: Iterable[str]) -> set[str]:
        """Return those of these groups that have a coordinator."""
        return set(group_ids) - self.without_coordinator


class FailingReads(MemoryStore):
    """A store whose next reads of committed offsets raise `failures`."""

    def __init__(self, shards: int) -> None:
        super().__init__(shards=shards)
        self.failures: list[StoreError] = []

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        """Return the offsets of a group."""
        if self.failures:
            raise self.failures.pop()
        return super().stored_offsets(group_id, partitions)


class World:
    """A cluster's groups, the mirror's database, and the node that polls when a test says so."""

    def __init__(self) -> None:
        self.groups = FakeGroups()
        self.store = MemoryStore(shards=1)
        self.store.mirror_of("cluster")

    @asynccontextmanager
    async def polling(self, offsets_checkpoint_interval_ms: int = 20) -> AsyncIterator[Coordinator]:
        """Run a node for the time of a block, which begins after a poll."""
        node = config(offsets_checkpoint_interval_ms=offsets_checkpoint_interval_ms)
        self.node = Coordinator(self.store, node, mirror=decide)
        await self.node.start()
        self.mirror = PolledMirror(self.node, self.groups.opened, "cluster", 0.001)
        try:
            await until(lambda: bool(self.node.serving_shards()), "the shard")
            await self.poll()
            yield self.node
        finally:
            await self.node.stop()

    async def poll(self) -> None:
        """Poll once."""
        await self.mirror.poll(self.groups)

    def view(self, group_id: str = "g") -> GroupView:
        """Return a group."""
        view = self.node.describe(group_id)
        assert view is not None
        return view

    async def offsets_are(self, offsets: dict[int, int], group_id: str = "g") -> None:
        """Wait until the table has these offsets."""
        await until(
            lambda: {each.partition: each.offset for each in self.store.fetch_offsets(group_id)} == offsets, "offsets"
        )


@pytest.fixture
def world() -> World:
    return World()


async def test_first_poll_finds_groups_without_history(world: World) -> None:
    world.groups.show("g", "Stable", "a", "b")
    world.groups.show("idle", "Empty")
    world.groups.show("early", "PreparingRebalance")
    world.groups.commit("g", 0, 5)
    world.groups.commit("simple", 1, 7)

    async with world.polling() as node:
        assert (world.view().state, len(world.view().members), world.view().leader_id) == (STABLE, 2, None)
        assert world.view("idle").state is EMPTY
        assert world.view("simple").protocol_type is None
        assert node.describe("early") is None
        await world.offsets_are({0: 5})
        await world.offsets_are({1: 7}, "simple")
        assert world.mirror.used_topics() == {"orders"}

    assert not world.store.history.rebalances


async def test_changed_members_are_a_rebalance(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    async with world.polling():
        first = world.view().generation
        world.groups.show("g", "Stable", "a", "b")
        await world.poll()
        await world.poll()

    (row,) = world.store.history.rebalances
    assert (row.generation, row.trigger, row.trigger_member_id) == (first + 1, "member_joined", "b")
    assert (row.is_start_inferred, row.is_trigger_inferred) == (True, True)


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
async def test_polled_rebalance_ends_with_the_next_stable_state(world: World, state: GroupState) -> None:
    world.groups.show("g", "Stable", "a")
    async with world.polling():
        world.groups.show("g", state)
        await world.poll()
        assert world.view().state is state
        world.groups.show("g", "Stable", "a")
        await world.poll()
        assert world.view().state is STABLE

    (row,) = world.store.history.rebalances
    assert (row.outcome, row.trigger, row.is_start_inferred) == ("completed", "unknown", False)


async def test_group_without_members_is_empty(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    async with world.polling():
        world.groups.show("g", "Empty")
        await world.poll()
        await world.poll()
        assert world.view().state is EMPTY

    assert [row.outcome for row in world.store.history.rebalances] == ["emptied"]


@pytest.mark.parametrize("state", [STABLE, PREPARING])
async def test_group_that_was_deleted_and_has_commits_again_has_no_members(world: World, state: GroupState) -> None:
    """As while the mirror was away; the group is a simple one now."""
    world.groups.show("g", "Stable", "a")
    async with world.polling():
        world.groups.show("g", state, "a")
        await world.poll()
        world.groups.delete("g")
        world.groups.commit("g", 0, 5)
        await world.poll()
        assert (world.view().state, world.view().members) == (EMPTY, ())


async def test_group_of_the_consumer_protocol_has_its_epochs(world: World) -> None:
    world.groups.show("g", "Stable", "a", kind="consumer", epoch=4)
    async with world.polling():
        assert world.view().generation == 4
        world.groups.show("g", "Reconciling", "a", "b", kind="consumer", epoch=7)
        await world.poll()

    assert [row.generation for row in world.store.history.rebalances] == [7]


async def test_member_that_goes_on_from_another_host_has_no_rebalance(world: World) -> None:
    world.groups.show("g", "Stable", "a", kind="consumer", epoch=4)
    async with world.polling():
        world.groups.move("g", "/10.0.0.2")
        await world.poll()
        assert [each.member.client_host for each in world.view().members] == ["/10.0.0.2"]
        assert world.view().generation == 4

    assert not world.store.history.rebalances


async def test_commits_are_those_that_have_changed(world: World) -> None:
    world.groups.show("g", "Stable", "a", "b")
    world.groups.commit("g", 0, 5)
    world.groups.commit("g", 1, 6)
    async with world.polling():
        await world.offsets_are({0: 5, 1: 6})
        before = {row.partition: row.at_ms for row in world.store.committed_offsets("g")}
        world.groups.commit("g", 1, 9)
        await world.poll()
        await world.offsets_are({0: 5, 1: 9})

    found = {row.partition: row for row in world.store.committed_offsets("g")}
    assert found[0].at_ms == before[0]
    assert found[1].member_id == "b"


@pytest.mark.parametrize(
    ("metadata", "stored"), [(None, ""), ("noted", "noted"), ("noted\0", "noted"), ("a\0b\0", "a\ufffdb")]
)
def test_metadata_of_polled_offsets_can_be_stored(metadata: str | None, stored: str) -> None:
    offset = {"partition": 0, "offset": 5, "leader_epoch": 1, "metadata": metadata, "error_code": 0}

    found = committed_offsets([{"topic": "orders", "partitions": [offset]}])

    assert found == {("orders", 0): PolledOffset(5, 1, stored)}


async def test_removed_offset_is_archived(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    world.groups.commit("g", 0, 5)
    world.groups.commit("g", 1, 6)
    async with world.polling():
        await world.offsets_are({0: 5, 1: 6})
        del world.groups.committed["g"]["orders", 0]
        await world.poll()
        await world.offsets_are({1: 6})

    assert [(row.partition, row.offset) for row in world.store.history.archived] == [(0, 5)]


async def test_commit_that_no_checkpoint_has_stored_is_known_after_a_failure(world: World) -> None:
    """Else an offset that is deleted meanwhile stays, and one that stays is committed again."""
    world.store = store = FailingReads(shards=1)
    store.mirror_of("cluster")
    world.groups.show("g", "Stable", "a", "b")
    async with world.polling(offsets_checkpoint_interval_ms=3_600_000):
        world.groups.commit("g", 0, 5)
        world.groups.commit("g", 1, 6)
        await world.poll()
        before_ms = world.node.wall_ms()
        await until(lambda: world.node.wall_ms() > before_ms, "the next millisecond")
        store.failures.append(StoreUnavailable("away"))
        world.groups.commit("new", 0, 1)
        await world.poll()
        assert store.failures == []
        del world.groups.committed["g"]["orders", 0]
        await world.poll()
        assert world.mirror.used_topics() == {"orders"}
        await world.node.loaded_shard("g").store_offsets()

    assert {row.partition: row.at_ms <= before_ms for row in store.committed_offsets("g")} == {1: True}


async def test_group_is_deleted_when_two_polls_miss_it(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    world.groups.commit("g", 0, 5)
    async with world.polling() as node:
        world.groups.delete("g")
        await world.poll()
        assert world.view().state is STABLE
        await world.poll()
        await until(lambda: node.describe("g") is None, "the deletion")
        await world.offsets_are({})


async def test_group_without_a_coordinator_was_not_deleted(world: World) -> None:
    """No broker lists the groups of a partition of `__consumer_offsets` that has no leader."""
    world.groups.show("g", "Stable", "a")
    async with world.polling() as node:
        world.groups.delete("g")
        world.groups.without_coordinator = {"g"}
        for _ in range(3):
            await world.poll()
        assert world.view().state is STABLE

        world.groups.without_coordinator = set()
        await world.poll()
        assert world.view().state is STABLE
        await world.poll()
        await until(lambda: node.describe("g") is None, "the deletion")


async def test_groups_without_a_coordinator_are_a_reason_until_they_have_one(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    async with world.polling() as node:
        world.groups.delete("g")
        world.groups.without_coordinator = {"g"}
        node.follow(world.mirror)
        await until_readiness(node, expected=False, reason="some groups (1) have no coordinator")
        world.groups.show("g", "Stable", "a")
        await until_readiness(node, expected=True)


async def test_deleted_groups_leave_nothing_in_memory(world: World) -> None:
    """Else the memory of a mirror grows where groups come and go for months."""
    world.groups.show("g", "Stable", "a")
    world.groups.commit("g", 0, 5)
    world.groups.show("words", "Stable", kind="streams")
    world.groups.show("early", "PreparingRebalance")
    async with world.polling():
        for group_id in ("g", "words", "early"):
            world.groups.delete(group_id)
        await world.poll()
        await world.poll()
        (polled,) = world.mirror._shards.values()

        assert (polled._offsets, polled.follower._owners) == ({}, {})


async def test_group_that_was_deleted_while_the_mirror_was_away_is_gone_with_its_offsets(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    world.groups.commit("g", 0, 5)
    async with world.polling():
        await world.offsets_are({0: 5})
    world.groups.delete("g")
    async with world.polling() as node:
        await world.poll()
        await until(lambda: node.describe("g") is None, "the deletion")
        await world.offsets_are({})

    assert [(row.partition, row.offset) for row in world.store.history.archived] == [(0, 5)]


async def test_mirror_that_starts_again_goes_on(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    world.groups.commit("g", 0, 5)
    async with world.polling():
        await world.offsets_are({0: 5})
        world.groups.show("g", "Stable", "b")
        await world.poll()
    before = world.store.committed_offsets("g")
    world.groups.commit("g", 1, 7)

    async with world.polling():
        world.groups.show("g", "Stable", "b", "c")
        await world.poll()
        await world.offsets_are({0: 5, 1: 7})

    assert [row.trigger for row in world.store.history.rebalances] == ["member_left_or_expired", "member_joined"]
    assert world.store.committed_offsets("g")[: len(before)] == before


async def test_share_and_streams_groups_are_kept_by_state(world: World) -> None:
    world.groups.show("jobs", "Stable", kind="share")
    world.groups.show("words", "NotReady", kind="streams")
    async with world.polling() as node:
        assert world.mirror.counts.other_groups == {("share", "Stable"): 1, ("streams", "NotReady"): 1}
        assert node.describe("jobs") is None

    stored = world.store.other_groups()
    assert [(each.group_id, each.state, each.epoch, each.member_count) for each in stored] == [
        ("jobs", "Stable", None, None),
        ("words", "NotReady", None, None),
    ]
    assert all(isinstance(each, OtherGroup) for each in stored)


async def test_cluster_that_is_away_is_a_reason_until_it_is_back(world: World) -> None:
    world.groups.show("g", "Stable", "a")
    async with world.polling() as node:
        world.groups.failure = "the broker is away"
        node.follow(world.mirror)
        await until(lambda: world.mirror.counts.failure == "the broker is away", "the failure")
        assert world.view().state is STABLE
        world.groups.failure = None
        await until(lambda: world.mirror.counts.failure is None, "the next poll")

    assert world.mirror.counts.polls_failed["groups"] >= 1


async def test_group_whose_id_cannot_be_stored_is_skipped_and_logged_once(world: World) -> None:
    """The database would refuse each poll of its shard."""
    world.groups.show("g", "Stable", "m-1")
    world.groups.show("a\0b", "Stable", "m-1")
    world.groups.commit("a\0c", 0, 7)
    with capture_logs() as logs:
        async with world.polling() as node:
            await world.poll()
            assert world.view().state is STABLE
            assert node.describe("a\0b") is None
            world.groups.delete("a\0b")
            await world.poll()
    skipped = [(each["groups"], each["first"]) for each in logs if each["event"] == "mirrored_groups_skipped"]
    assert skipped == [(2, "a\ufffdb"), (1, "a\ufffdc")]
