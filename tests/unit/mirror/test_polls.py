"""Polls beside the log: states of groups take effect in the order of the log, and a failing poll goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import structlog

from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE, GroupState
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.counters import MirrorCounts
from mirror.group_poll import GroupPoll
from mirror.kafka_groups import KafkaGroups
from mirror.kafka_log import KafkaConnection, KafkaUnavailable
from mirror.log_end_poll import LogEndPoll
from mirror.polling import Reachability, poll_at_intervals
from tests.unit.coordinator_core.runtime.nodes import until
from tests.unit.mirror.fake_log import BATCH
from tests.unit.mirror.observations import T0_MS, generation, member
from tests.unit.mirror.world import World

pytestmark = pytest.mark.anyio

INTERVAL_S = 0.001


class FakeCluster:
    """The groups and topics of a cluster, which may fail."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self.states: dict[str, GroupState] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.deleted: set[str] = set()
        """The topics that do not exist."""
        self.partition_count = 1
        """That of each topic."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["FakeCluster"]:
        """Connect."""
        yield self

    async def rebalancing(self) -> dict[str, GroupState]:
        """Return the groups that are in a rebalance."""
        return self.states

    async def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the numbers of partitions."""
        if self.failure is not None:
            raise KafkaUnavailable(self.failure)
        return {topic: 0 if topic in self.deleted else self.partition_count for topic in topics}

    async def log_ends(self, partitions: Mapping[str, int]) -> AsyncIterator[dict[tuple[str, int], int]]:
        """Yield the log ends."""
        yield {key: end for key, end in self.ends.items() if key[0] in partitions}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


async def test_polled_rebalance_goes_on_in_a_mirror_that_starts_again(world: World, cluster: FakeCluster) -> None:
    async with world.following() as node:
        world.see(1, "a")
        await world.caught_up()
        cluster.states = {"g": PREPARING, "unknown": PREPARING}
        await poll(world, cluster)
        await until(lambda: len(starts(world)) == 2, "the rebalance to be stored")
    started_ms = starts(world)[-1]

    async with world.following() as node:
        assert state(node) is PREPARING
        view = node.describe("g")
        assert view is not None
        assert view.waiting_for == ()
        seen = generation(2, member("a", 0), at_ms=started_ms + 5_000)
        world.log.say(started_ms + 5_002, seen)
        await until(lambda: len(world.rebalances) == 2, "the generation to be stored")
        assert state(node) is STABLE

    rows = [(row.generation, row.outcome, row.started_at_ms) for row in world.rebalances]
    assert rows == [(1, "completed", T0_MS + 1_000), (2, "completed", started_ms)]
    members = [(row.rebalance_id, row.member_id) for row in world.store.history.rebalance_members]
    assert members == [(row.rebalance_id, "a") for row in world.rebalances]


async def test_polled_rebalance_that_has_ended_in_the_log_meanwhile_has_no_effect(
    world: World, cluster: FakeCluster
) -> None:
    async with world.following() as node:
        world.see(1, "a")
        await world.caught_up()
        known = world.mirror.known_groups()
        world.see(2, "a", "b")
        await world.caught_up()
        world.mirror.states_polled({"g": PREPARING}, known)
        await world.caught_up()
        assert state(node) is STABLE


async def test_polled_rebalance_that_has_ended_in_the_log_unread_has_no_effect(
    world: World, cluster: FakeCluster
) -> None:
    async with world.following() as node:
        world.see(1, "a")
        await world.caught_up()
        for offset in range(2 * BATCH):
            world.commit(0, offset)
        world.see(2, "a", "b")
        cluster.states = {"g": PREPARING}
        await poll(world, cluster)
        await until(lambda: len(world.rebalances) == 2, "the generation")
        await world.caught_up()
        assert state(node) is STABLE

    assert starts(world) == [T0_MS + 1_000, T0_MS + 2_000]


async def test_rebalance_is_abandoned_when_a_poll_sees_none(world: World, cluster: FakeCluster) -> None:
    async with world.following() as node:
        await begin_rebalance(world, cluster, node)
        cluster.states = {}
        await poll(world, cluster)
        await until(lambda: state(node) is STABLE, "the end of the rebalance")
        await until(lambda: len(world.rebalances) == 2, "its row")

    assert world.rebalances[1].outcome == "abandoned"


async def test_polled_end_of_a_rebalance_waits_for_what_a_transaction_hides(world: World, cluster: FakeCluster) -> None:
    async with world.following() as node:
        await begin_rebalance(world, cluster, node)
        world.log.begin_transaction()
        world.see(2, "a", "b")
        cluster.states = {}
        await poll(world, cluster)
        await world.caught_up()
        assert state(node) is PREPARING
        world.log.end_transaction()
        await until(lambda: state(node) is STABLE, "the generation")
        await until(lambda: len(world.rebalances) == 2, "its row")

    assert [(row.generation, row.outcome) for row in world.rebalances] == [(1, "completed"), (2, "completed")]


async def test_poll_that_ends_while_log_ends_are_read_waits_for_its_own(world: World, cluster: FakeCluster) -> None:
    async with world.following() as node:
        await begin_rebalance(world, cluster, node)
        is_asked, may_answer = world.log.hold_ends()
        cluster.states = {"g": COMPLETING}
        await poll(world, cluster)
        await is_asked.wait()
        world.see(2, "a", "b")
        cluster.states = {}
        await poll(world, cluster)
        may_answer.set()
        await until(lambda: state(node) is STABLE, "the generation")
        await until(lambda: len(world.rebalances) >= 2, "its row")

    assert [(row.generation, row.outcome) for row in world.rebalances] == [(1, "completed"), (2, "completed")]


def state(node: Coordinator) -> GroupState:
    """Return the state of the group."""
    view = node.describe("g")
    assert view is not None
    return view.state


def starts(world: World) -> list[int]:
    """Return when the stored rebalances have started."""
    return [row.at_ms for row in world.store.history.transitions if row.to_state is PREPARING]


async def begin_rebalance(world: World, cluster: FakeCluster, node: Coordinator) -> None:
    """Let a poll see that the group, which has a generation, rebalances."""
    world.see(1, "a")
    await world.caught_up()
    cluster.states = {"g": PREPARING}
    await poll(world, cluster)
    await until(lambda: state(node) is PREPARING, "the rebalance")


async def poll(world: World, cluster: FakeCluster) -> None:
    """Poll the states of groups once."""
    await GroupPoll(cluster.opened, world.mirror.known_groups, world.mirror.states_polled, INTERVAL_S).poll(cluster)


async def test_failing_poll_keeps_log_ends_and_goes_on(world: World, cluster: FakeCluster) -> None:
    counts = MirrorCounts()
    cluster.ends = {("orders", 0): 5}
    async with world.following() as node:
        polling = LogEndPoll(node, cluster.opened, lambda: {"orders"}, world.mirror.forget_topics, INTERVAL_S)
        running = asyncio.create_task(polling.run(counts))
        try:
            await until(lambda: known_ends(world) == {0: 5}, "the first log end")
            cluster.failure = "the broker is away"
            await until(lambda: counts.polls_failed["log_ends"] >= 2, "failed polls")
            assert known_ends(world) == {0: 5}
            cluster.ends, cluster.failure = {("orders", 0): 7}, None
            await until(lambda: known_ends(world) == {0: 7}, "the next log end")
        finally:
            running.cancel()

    assert counts.polls_failed["groups"] == 0


async def test_end_of_a_topic_that_was_created_again_replaces_the_old_one(world: World, cluster: FakeCluster) -> None:
    cluster.ends = {("orders", 0): 100}
    async with world.following() as node:
        await LogEndPoll(node, cluster.opened, lambda: {"orders"}, world.mirror.forget_topics, INTERVAL_S).poll(cluster)
        await until(lambda: known_ends(world) == {0: 100}, "the first log end")

    cluster.ends = {("orders", 0): 4}
    async with world.following() as node:
        running = asyncio.create_task(
            LogEndPoll(node, cluster.opened, lambda: {"orders"}, world.mirror.forget_topics, INTERVAL_S).run(
                MirrorCounts()
            )
        )
        try:
            await until(lambda: known_ends(world) == {0: 4}, "the log end of the new topic")
        finally:
            running.cancel()


async def test_ends_of_partitions_that_a_new_topic_does_not_have_are_deleted(
    world: World, cluster: FakeCluster
) -> None:
    cluster.partition_count = 2
    cluster.ends = {("orders", 0): 0, ("orders", 1): 100}
    async with world.following() as node:
        polling = LogEndPoll(node, cluster.opened, lambda: {"orders"}, world.mirror.forget_topics, INTERVAL_S)
        await polling.poll(cluster)
        await until(lambda: known_ends(world) == {0: 0, 1: 100}, "the first log ends")
        cluster.partition_count = 1
        del cluster.ends["orders", 1]
        await polling.poll(cluster)
        assert known_ends(world) == {0: 0, 1: 100}
        await polling.poll(cluster)
        assert known_ends(world) == {0: 0}
        await polling.poll(cluster)

    assert world.store.versions().log_end_deletions == 1


async def test_end_that_is_lower_in_one_poll_only_has_no_effect(world: World, cluster: FakeCluster) -> None:
    async with world.following() as node:
        polling = LogEndPoll(node, cluster.opened, lambda: {"orders"}, world.mirror.forget_topics, INTERVAL_S)
        for end in (100, 4, 100, 4, 101):
            cluster.ends = {("orders", 0): end}
            await polling.poll(cluster)
        await until(lambda: known_ends(world) == {0: 101}, "the log end")

    assert world.store.versions().log_end_deletions == 0


async def test_deleted_topic_is_forgotten_once_two_polls_miss_it(world: World, cluster: FakeCluster) -> None:
    cluster.ends = {("orders", 0): 100, ("bills", 0): 7}
    world.commit(0, 5)
    async with world.following() as node:
        mirror = world.mirror
        polling = LogEndPoll(
            node, cluster.opened, lambda: mirror.used_topics() | {"bills"}, mirror.forget_topics, INTERVAL_S
        )
        await polling.poll(cluster)
        await until(lambda: known_ends(world) == {0: 100}, "the log end")
        cluster.deleted = {"orders"}
        await polling.poll(cluster)
        cluster.deleted = set()
        await polling.poll(cluster)
        assert [row.topic for row in world.store.topics()] == ["bills", "orders"]

        cluster.deleted = {"orders"}
        await polling.poll(cluster)
        await polling.poll(cluster)
        assert [row.topic for row in world.store.topics()] == ["bills"]
        assert known_ends(world) == {}
        assert world.mirror.used_topics() == set()

        cluster.deleted = set()
        world.commit(0, 1)
        await until(lambda: world.mirror.used_topics() == {"orders"}, "a commit in a new topic of this name")
        await polling.poll(cluster)
        assert [row.topic for row in world.store.topics()] == ["bills", "orders"]


async def test_topic_that_is_seen_for_the_first_time_has_got_no_partitions(world: World, cluster: FakeCluster) -> None:
    """A group has its first generation before the mirror asks for the topics of it."""
    async with world.following() as node:
        polling = LogEndPoll(node, cluster.opened, world.mirror.used_topics, world.mirror.forget_topics, INTERVAL_S)
        for number, partitions in ((1, 1), (2, 2), (3, 2), (4, 2)):
            world.see(number, "a")
            await world.caught_up()
            cluster.partition_count = partitions
            await polling.poll(cluster)
            await node.refresh_settings()

    assert [row.trigger for row in world.rebalances] == [
        "member_joined",
        "leader_rejoined",
        "partitions_changed",
        "leader_rejoined",
    ]


async def test_deleted_topic_that_no_group_uses_any_more_is_forgotten(world: World, cluster: FakeCluster) -> None:
    """Kafka deletes the committed offsets with a topic."""
    async with world.following() as node:
        world.store.observe_topics({"orders": 1, "kept": 1})
        await node.refresh_settings()
        cluster.deleted = {"orders"}
        polling = LogEndPoll(node, cluster.opened, world.mirror.used_topics, world.mirror.forget_topics, INTERVAL_S)
        await polling.poll(cluster)
        await polling.poll(cluster)

    assert [row.topic for row in world.store.topics()] == ["kept"]


async def test_certificate_that_cannot_be_read_is_a_failed_poll(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    connection = KafkaConnection(bootstrap_servers="kafka:9093", security_protocol="SSL", ssl_ca_file=missing)
    counts = MirrorCounts()

    async def poll_nothing(_: KafkaGroups) -> None:
        raise AssertionError("there is no connection")

    running = asyncio.create_task(
        poll_at_intervals("groups", counts, partial(KafkaGroups, connection), poll_nothing, INTERVAL_S)
    )
    try:
        await until(lambda: running.done() or counts.polls_failed["groups"] >= 2, "failed polls")
        assert not running.done()
    finally:
        running.cancel()


async def test_unexpected_error_of_a_poll_does_not_end_what_runs_beside_it(cluster: FakeCluster) -> None:
    """Else the mirror reads its whole log again after each poll, and may never come to its end."""
    counts = MirrorCounts()

    async def fail(_: FakeCluster) -> None:
        raise ZeroDivisionError

    with structlog.testing.capture_logs() as events:
        running = asyncio.create_task(poll_at_intervals("groups", counts, cluster.opened, fail, INTERVAL_S))
        await until(lambda: running.done() or counts.polls_failed["groups"] >= 2, "failed polls")
        is_over = running.done()
        running.cancel()

    assert not is_over
    assert [(each["event"], each["exc_info"]) for each in events] == [("mirror_poll_failed", True)]


def known_ends(world: World) -> dict[int, int]:
    """Return the stored log ends of the topic, by partition."""
    return {partition: end.offset for (_, partition), end in world.store.log_ends(["orders"]).items()}


def test_reasons_that_alternate_are_logged_once_in_an_outage() -> None:
    counts = MirrorCounts()
    reachability = Reachability(counts, lambda _: False)

    with structlog.testing.capture_logs() as events:
        for reason in ("first broker", "second broker", "first broker"):
            reachability.record_failure(KafkaUnavailable(reason))
        reachability.record_success([0])
        reachability.record_success([0])
        reachability.record_failure(KafkaUnavailable("first broker"))

    said = [(each["event"], each.get("reason")) for each in events]
    assert said == [
        ("mirrored_cluster_unreachable", "first broker"),
        ("mirrored_cluster_unreachable", "second broker"),
        ("mirrored_cluster_reached", None),
        ("mirrored_cluster_unreachable", "first broker"),
    ]
    assert counts.failure == "first broker"
