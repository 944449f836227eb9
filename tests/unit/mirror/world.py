"""A cluster's log, and the mirror that follows it on an in-memory store."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.rows import RebalanceRow
from mirror.decide import decide
from mirror.group_records import GroupRecord
from mirror.mirror import Mirror
from mirror.observed import ObservedCommit
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import config, until
from tests.unit.mirror.fake_log import FakeLog
from tests.unit.mirror.group_log import ORDERS
from tests.unit.mirror.observations import T0_MS, appended_ms, generation, member


class World:
    """A cluster's log, the mirror's database, and the node that follows."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.log.topics[ORDERS] = "orders"
        self.store = MemoryStore(shards=1)
        self.store.mirror_of("cluster")

    @asynccontextmanager
    async def following(self, offsets_checkpoint_interval_ms: int = 20) -> AsyncIterator[Coordinator]:
        """Run a mirror for the time of a block, which begins when it has caught up."""
        node = config(offsets_checkpoint_interval_ms=offsets_checkpoint_interval_ms)
        coordinator = Coordinator(self.store, node, mirror=decide)
        await coordinator.start()
        self.mirror = Mirror(coordinator, self.log.opened, "cluster")
        coordinator.follow(self.mirror)
        try:
            await self.caught_up()
            yield coordinator
        finally:
            await coordinator.stop()

    async def caught_up(self) -> None:
        """Wait until everything is read and applied."""
        before = self.log.idle_polls
        await until(lambda: self.log.idle_polls > before + 1, "the mirror to catch up")

    def see(self, number: int, *members: str, group_id: str = "g") -> None:
        """Let the log have a generation; each member owns the partition of its place."""
        found = [member(member_id, place) for place, member_id in enumerate(members)]
        seen = generation(number, *found, group_id=group_id)
        self.log.say(appended_ms(seen), seen)

    def commit(self, partition: int, offset: int, group_id: str = "g", at_ms: int = T0_MS) -> None:
        """Let the log have a commit."""
        self.log.say(at_ms, ObservedCommit(group_id, "orders", partition, offset, -1, "", at_ms, None))

    def append(self, at_ms: int, records: Iterable[GroupRecord]) -> None:
        """Let the log have records of groups of the consumer protocol, all appended at the same time."""
        for record in records:
            self.log.say(at_ms, record)

    @property
    def rebalances(self) -> list[RebalanceRow]:
        """The history of rebalances."""
        return self.store.history.rebalances

    def offsets(self, group_id: str = "g") -> dict[int, int]:
        """Return the offsets in the table, by partition."""
        return {row.partition: row.offset for row in self.store.fetch_offsets(group_id)}

    async def stored(self, offsets: dict[int, int], group_id: str = "g") -> None:
        """Wait until a checkpoint has stored these offsets."""
        await until(lambda: self.offsets(group_id) == offsets, "a checkpoint")
