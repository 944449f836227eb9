"""What a mirror reports while it does not follow its cluster, and how often it logs that."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from coordinator_core.protocol.hashing import shard_of
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import MirrorPosition
from mirror import polling
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import RefusingStore, until, until_readiness
from tests.unit.mirror.encoded import LogRecord
from tests.unit.mirror.fake_log import BATCH, FakeLog
from tests.unit.mirror.observations import appended_ms, generation, member
from tests.unit.mirror.world import World

pytestmark = pytest.mark.anyio


class AwayStore(MemoryStore):
    """A store that does not answer while it is away, but for its own checks."""

    def __init__(self) -> None:
        super().__init__(shards=1)
        self.is_away = False
        self.unanswered = 0

    def mirror_position(self, shard_id: int) -> MirrorPosition | None:
        """Return the position of a shard."""
        if self.is_away:
            self.unanswered += 1
            raise StoreUnavailable("connection refused")
        return super().mirror_position(shard_id)


class FallingLog(FakeLog):
    """A log of which a partition has no leader as soon as something of it was read."""

    falls = True

    async def poll(self, timeout_ms: int) -> Mapping[int, Sequence[LogRecord]]:
        """Return some records."""
        found = await super().poll(timeout_ms)
        self.without_leader = set(found) if self.falls and found else self.without_leader
        return found


class BrokenLog(FakeLog):
    """A log that raises an unexpected error from an offset on."""

    def __init__(self) -> None:
        super().__init__()
        self.broken_at: int | None = None
        self.errors = 0
        self.is_ready_after_error: Callable[[], bool] = bool
        self.polls_when_ready = 0
        """How many polls after the first error the mirror began as ready."""

    async def poll(self, timeout_ms: int) -> Mapping[int, Sequence[LogRecord]]:
        """Return some records."""
        self.polls_when_ready += self.errors > 0 and self.is_ready_after_error()
        if self.broken_at is not None and await self.position(0) >= self.broken_at:
            self.errors += 1
            raise ZeroDivisionError
        return await super().poll(timeout_ms)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(polling, "RETRY_S", 0.0)
    return World()


async def test_mirror_is_not_ready_while_an_unexpected_error_ends_its_loop(world: World) -> None:
    async with world.following() as node:
        world.log.error = ZeroDivisionError()
        await until_readiness(node, expected=False, reason="ZeroDivisionError; the log has its text")
        world.log.error = None
        await until_readiness(node, expected=True)
        world.see(1, "a")
        await until(lambda: bool(world.rebalances), "the mirror to go on")


async def test_mirror_whose_loop_fails_at_one_place_again_and_again_is_not_ready_before_it(world: World) -> None:
    """It reads from the beginning each time, so each time much of the log is read without an error."""
    world.log = log = BrokenLog()
    for number in range(3 * BATCH):
        world.commit(0, number)
    async with world.following() as node:
        log.is_ready_after_error = lambda: world.mirror.counts.failure is None
        log.broken_at = 2 * BATCH
        world.log.failure = "no broker answers"
        await until(lambda: world.mirror.counts.failure is not None, "the failure")
        world.log.failure = None
        await until(lambda: log.errors > 1, "some errors")
        assert log.polls_when_ready == 0
        log.broken_at = None
        await until_readiness(node, expected=True)


async def test_database_that_is_away_is_logged_once_in_an_outage(world: World) -> None:
    world.store = store = AwayStore()
    store.mirror_of("cluster")
    with capture_logs() as logs:
        async with world.following() as node:
            world.log.failure = "no broker answers"
            await until(lambda: world.mirror.counts.failure is not None, "the failure")
            store.is_away = True
            world.log.failure = None
            await until(lambda: store.unanswered > 3, "some reads without an answer")
            assert world.mirror.counts.failure == (
                "the query of the database failed: the database cannot be reached, or did not answer in time"
            )
            store.is_away = False
            await until_readiness(node, expected=True)

    events = [each["event"] for each in logs]
    assert [events.count(each) for each in ("mirror_interrupted", "query_failed")] == [1, 1]
    assert events.index("mirror_interrupted") < len(events) - 1 - events[::-1].index("mirrored_cluster_reached")


async def test_shard_that_cannot_be_stored_is_a_reason_until_it_is(world: World) -> None:
    """Its shard is loaded and its log is read again and again, and its other groups are no more current."""
    world.store = store = RefusingStore(shards=1)
    store.mirror_of("cluster")
    async with world.following() as node:
        store.refused = "h"
        world.see(1, "a", group_id="h")
        await until_readiness(node, expected=False, reason="groups of some shards (0) cannot be stored")
        store.refused = None
        await until_readiness(node, expected=True)
        await until(lambda: node.describe("h") is not None, "the group")


async def test_partition_without_a_leader_lets_the_others_be_followed(world: World) -> None:
    world.log, world.store = FakeLog(2), MemoryStore(shards=2)
    world.store.mirror_of("cluster")
    first, second = sorted(("g", "h"), key=lambda group_id: shard_of(group_id, 2))
    with capture_logs() as logs:
        async with world.following() as node:
            for partition, group_id in enumerate((first, second)):
                say_generation(world, 1, group_id, partition)
            await until(lambda: len(world.rebalances) == 2, "both groups")
            world.log.without_leader = {1}
            await until_readiness(node, expected=False, reason="partitions without a leader (1)")
            say_generation(world, 2, first, 0)
            say_generation(world, 2, second, 1)
            await until(lambda: len(world.rebalances) == 3, "the generation of the partition with a leader")
            await world.caught_up()
            assert [group.generation for group in map(node.describe, (first, second)) if group is not None] == [2, 1]
            world.log.without_leader = set()
            await until_readiness(node, expected=True)
            await until(lambda: len(world.rebalances) == 4, "what was appended meanwhile")

    assert [each["event"] for each in logs].count("mirrored_cluster_incomplete") == 1
    assert [each["event"] for each in logs].count("mirrored_cluster_reached") == 2


async def test_mirror_connects_again_while_no_partition_has_a_leader(world: World) -> None:
    """The brokers that it knew may be gone for good."""
    async with world.following() as node:
        world.log.without_leader = {0}
        await until(lambda: world.log.connections > 2, "more connections")
        await until_readiness(node, expected=False, reason="partitions without a leader (0)")
        world.log.without_leader = set()
        world.see(1, "a")
        await until_readiness(node, expected=True)
        await until(lambda: bool(world.rebalances), "the mirror to go on")


async def test_mirror_that_starts_while_a_partition_has_no_leader_reads_it_later(world: World) -> None:
    world.log, world.store = FakeLog(2), MemoryStore(shards=2)
    world.store.mirror_of("cluster")
    first, second = sorted(("g", "h"), key=lambda group_id: shard_of(group_id, 2))
    for partition, group_id in enumerate((first, second)):
        say_generation(world, 1, group_id, partition)
    world.log.without_leader = {1}
    async with world.following() as node:
        assert (node.describe(first) is None, node.describe(second) is None) == (False, True)
        world.log.without_leader = set()
        await until(lambda: node.describe(second) is not None, "the group of the partition that has a leader again")


async def test_log_that_was_truncated_during_its_first_read_is_read_to_its_new_end(world: World) -> None:
    """Else nothing of it is shown until it is as long as it was."""
    world.log, world.store = log, _ = FallingLog(2), MemoryStore(shards=2)
    world.store.mirror_of("cluster")
    [group_id] = [group_id for group_id in ("g", "h") if shard_of(group_id, 2) == 1]
    for number in range(1, 3 * BATCH + 1):
        say_generation(world, number, group_id, 1)
    async with world.following() as node:
        assert node.describe(group_id) is None
        log.truncate(BATCH, 1)
        log.falls, log.without_leader = False, set()
        await until(lambda: node.describe(group_id) is not None, "the group")


def say_generation(world: World, number: int, group_id: str, partition: int) -> None:
    """Let a partition of the log have a generation."""
    seen = generation(number, *(member(f"m{place}", place) for place in range(number)), group_id=group_id)
    world.log.say(appended_ms(seen), seen, partition)
