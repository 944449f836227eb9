"""A simulated platform in which some stored groups cannot be read until their rows are repaired.

Beside every other invariant these hold:

* `OnlyUnreadableGroupsAreQuarantined`: no node quarantines a group whose rows could always be read.
* `QuarantinedGroupsAreRefused`: a node that quarantines a group answers with retriable errors only.
* `RepairedGroupsAreServed`: soon after the storm, every row is mended and every group reloaded, none is quarantined.
"""

from collections.abc import Iterable
from dataclasses import replace

from coordinator_core.protocol.errors import CoordinatorNotAvailable, RetryError
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.runtime.quarantine import GroupQuarantined
from coordinator_core.state_store.rows import StoredGroup, UnreadableGroup
from tests.system.simulation.database import WatchedStore, Witness
from tests.system.simulation.node import Answer, Ask, Node, Process
from tests.system.simulation.people import People
from tests.system.simulation.watch import Watch
from tests.system.simulation.weather import Weather
from tests.system.simulation.world import World

SPOILED_EVERY_S = 25.0
MENDED_AFTER_S = (2.0, 30.0)
RELOADED_EVERY_S = 3.0


class SpoiledStore(WatchedStore):
    """A database in which the rows of some groups cannot be loaded; writes mend nothing."""

    def __init__(self, world: World, shards: int, witness: Witness) -> None:
        super().__init__(world, shards, witness)
        self.spoiled: set[str] = set()
        self.ever_spoiled: set[str] = set()

    def spoil(self, group_id: str) -> None:
        """Let a group's row hold a state that there is none of."""
        self.spoiled.add(group_id)
        self.ever_spoiled.add(group_id)

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        """Return every group of these shards, as its rows are read."""
        return [self._as_read(one) for one in super().load_shards(shard_ids)]

    def load_group(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        """Return one group, as its rows are read."""
        found = super().load_group(group_id)
        return None if found is None else self._as_read(found)

    def _as_read(self, one: StoredGroup | UnreadableGroup) -> StoredGroup | UnreadableGroup:
        if one.group_id not in self.spoiled or isinstance(one, UnreadableGroup):
            return one
        return replace(one, group=replace(one.group, state="stable"))


class QuarantineWatch(Watch):
    """Looks at what is said of quarantined groups, and of the others of their shards."""

    def __init__(self, world: World, shards: int) -> None:
        super().__init__(world, shards)
        self.refused = 0
        """Answers that a group is quarantined."""
        self.served_beside = 0
        """Answers of other groups of such a group's shard that were no refusals."""

    def said(self, process: Process, request: Ask, group_id: str, answer: Answer) -> None:
        """Compare an answer with what the node quarantines."""
        super().said(process, request, group_id, answer)
        store = self.stored.store
        assert isinstance(store, SpoiledStore)
        if isinstance(answer, GroupQuarantined):
            self.refused += 1
            if group_id not in store.ever_spoiled:
                self._world.fail(
                    "OnlyUnreadableGroupsAreQuarantined", f"{process.node.name}: {answer.detail}", group_id
                )
            return
        quarantined = process.coordinator.quarantined()
        if group_id in {each.group_id for each in quarantined} and not isinstance(answer, RetryError):
            self._world.fail("QuarantinedGroupsAreRefused", f"{process.node.name} answers {answer}", group_id)
        if not isinstance(answer, Exception):
            self.served_beside += self._shard_of(group_id) in {each.shard_id for each in quarantined}


class Spoilers:
    """Operators who break the row of a group, mend it after a while, and reload the group."""

    def __init__(self, world: World, weather: Weather, store: SpoiledStore, people: People, nodes: list[Node]) -> None:
        self._world = world
        self._weather = weather
        self._store = store
        self._people = people
        self._nodes = nodes
        self._plan()
        world.after(RELOADED_EVERY_S, self._reload)

    def _plan(self) -> None:
        self._world.after(self._world.chance.expovariate(1 / SPOILED_EVERY_S), self._spoil)

    def _spoil(self) -> None:
        if self._weather.is_calm:
            return
        group_id = self._world.chance.choice(self._people.group_ids)
        self._world.strike("group_unreadable", "its row holds another state", group_id)
        self._store.spoil(group_id)
        self._drop_shard(shard_of(group_id, self._store.shard_count()))
        self._world.after(self._world.between(*MENDED_AFTER_S), lambda: self._store.spoiled.discard(group_id))
        self._plan()

    def _drop_shard(self, shard_id: int) -> None:
        """Let the owner load the shard again, as after a write that failed."""
        for process in self._processes():
            shard = process.coordinator._ownership.owned.get(shard_id)
            if shard is not None:
                process.loop.deliver(process.loop.call_soon, shard.fail, CoordinatorNotAvailable("by chance"))

    def _processes(self) -> list[Process]:
        return [node.process for node in self._nodes if node.process is not None and node.process.is_serving]

    def _reload(self) -> None:
        """Reload every quarantined group whose row is mended."""
        for process in self._processes():
            for group in process.coordinator.quarantined():
                if group.group_id not in self._store.spoiled:
                    self._people.reload_group(group.group_id)
        self._world.after(RELOADED_EVERY_S, self._reload)

    def check(self) -> None:
        """Every group is served now."""
        for process in self._processes():
            for group in process.coordinator.quarantined():
                detail = f"{process.node.name} quarantines it: {group.reason}"
                self._world.fail("RepairedGroupsAreServed", detail, group.group_id)
