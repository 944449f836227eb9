"""Whatever fails while a log is followed, each row is stored once and none is missing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import pytest

from coordinator_core.state_store.interface import OutcomeUnknown, StoreUnavailable
from coordinator_core.state_store.rows import (
    Batch,
    CheckpointResult,
    PartitionOwnershipRow,
    RebalanceRow,
    ShardCheckpoint,
    WriteResult,
)
from mirror.consumer_groups import SESSION_TIMEOUT_MS
from mirror.group_records import GroupRecord
from mirror.observed import GroupDeleted, Observed, ObservedCommit, ObservedMember, OffsetDeleted
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import until
from tests.unit.mirror.group_log import GroupLog
from tests.unit.mirror.observations import T0_MS, appended_ms, generation, member
from tests.unit.mirror.world import World

pytestmark = pytest.mark.anyio

Row = TypeVar("Row", RebalanceRow, PartitionOwnershipRow)

SEEDS = 15
STEPS = 30
FAILURES = 0.2
"""The share of writes and checkpoints that fail."""


class FailingStore(MemoryStore):
    """A store that fails at random, before or after it has stored."""

    def __init__(self, random: Random | None) -> None:
        super().__init__(shards=1)
        self.random = random

    def write(self, batch: Batch) -> WriteResult:
        self._maybe_fail()
        written = super().write(batch)
        self._maybe_lose_the_answer()
        return written

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        self._maybe_fail()
        result = super().checkpoint(node_id, shards)
        self._maybe_lose_the_answer()
        return result

    def _maybe_fail(self) -> None:
        if self.random is not None and self.random.random() < FAILURES / 2:
            raise StoreUnavailable("nothing was stored")

    def _maybe_lose_the_answer(self) -> None:
        if self.random is not None and self.random.random() < FAILURES / 2:
            raise OutcomeUnknown("the connection was lost during COMMIT")


class Cluster:
    """A cluster whose groups do at random what clients make them do."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._generations: dict[str, int] = {}
        self._members: dict[str, list[ObservedMember]] = {}
        self._offsets: dict[str, dict[int, int]] = {}
        self._modern = GroupLog("k")
        """A group of the consumer protocol."""
        self._is_assigned = True
        self._at_ms = T0_MS
        self._serial = 0

    def step(self) -> Sequence[tuple[int, Observed | GroupRecord]]:
        """Return what the log says next, with the times."""
        self._at_ms += 1_000
        if self._random.randrange(3) == 0:
            return [(self._at_ms, record) for record in self._of_modern_group()]
        group_id = self._random.choice("gh")
        match self._random.randrange(8):
            case 0 | 1:
                return [self._rebalanced(group_id, self._random.randrange(4))]
            case 2 if not self._members.get(group_id):
                return self._deleted(group_id)
            case 3:
                return self._offset_deleted(group_id)
            case _:
                return [
                    self._committed(group_id, self._random.randrange(3)) for _ in range(self._random.randrange(1, 4))
                ]

    def _of_modern_group(self) -> Sequence[Observed | GroupRecord]:
        group, members = self._modern, list(self._modern.members)
        self._serial += 1
        if not self._is_assigned:
            self._is_assigned = True
            return group.assigned()
        match self._random.randrange(6):
            case 0 | 1 if len(members) < 3:
                return group.joined(f"k{self._serial}", self._random.choice([None, f"host-{self._serial}"]))
            case 2 if members:
                self._is_assigned = len(members) == 1
                return group.left(self._random.choice(members))
            case 3 if any(group.members.values()):
                old_id = next(each for each, instance_id in group.members.items() if instance_id is not None)
                return group.returned(old_id, f"k{self._serial}")
            case 4 if members:
                return [*group.raised(), *group.assigned()]
            case 5 if members:
                return self._converted_and_back(members)
            case _:
                return [self._committed("k", 0)[1]]

    def _converted_and_back(self, members: Sequence[str]) -> Sequence[Observed | GroupRecord]:
        """Return what is appended when a group uses the classic protocol for one generation."""
        group = self._modern
        epoch, instances = group.epoch + 1, dict(group.members)
        classic = [
            member(each, 2 - place, instance_id=instances[each], session_ms=SESSION_TIMEOUT_MS)
            for place, each in enumerate(members)
        ]
        seen = generation(epoch, *classic, at_ms=self._at_ms, group_id="k")
        return [*group.deleted(), seen, GroupDeleted("k"), *group.converted(epoch + 1, instances)]

    def _rebalanced(self, group_id: str, size: int) -> tuple[int, Observed]:
        kept = self._random.sample(found, k=min(size, len(found))) if (found := self._members.get(group_id, [])) else []
        names = [each.member_id for each in kept]
        while len(names) < size:
            self._serial += 1
            names.append(f"m{self._serial}")
        members = self._members[group_id] = [member(name, place) for place, name in enumerate(names)]
        self._generations[group_id] = self._generations.get(group_id, 0) + 1
        seen = generation(self._generations[group_id], *members, at_ms=self._at_ms, group_id=group_id)
        return appended_ms(seen), seen

    def _committed(self, group_id: str, partition: int) -> tuple[int, Observed]:
        self._serial += 1
        self._offsets.setdefault(group_id, {})[partition] = self._serial
        commit = ObservedCommit(group_id, "orders", partition, self._serial, -1, "", self._at_ms, None)
        return self._at_ms, commit

    def _offset_deleted(self, group_id: str) -> Sequence[tuple[int, Observed]]:
        offsets = self._offsets.get(group_id, {})
        some = sorted(offsets)[: self._random.randrange(3)]
        return [(self._at_ms, self._without(group_id, partition)) for partition in some]

    def _deleted(self, group_id: str) -> Sequence[tuple[int, Observed]]:
        gone = [
            (self._at_ms, self._without(group_id, partition)) for partition in sorted(self._offsets.get(group_id, {}))
        ]
        self._generations.pop(group_id, None)
        return [*gone, (self._at_ms, GroupDeleted(group_id))]

    def _without(self, group_id: str, partition: int) -> OffsetDeleted:
        del self._offsets[group_id][partition]
        return OffsetDeleted(group_id, "orders", partition)


async def followed(seed: int, failures: Random | None) -> dict[str, Any]:
    """Follow the log of a cluster; return all that is stored, without what differs from one load to the next."""
    world = World()
    world.store = store = FailingStore(None)
    store.mirror_of("cluster")
    cluster = Cluster(Random(seed))
    async with world.following() as node:
        store.random = failures
        for _ in range(STEPS):
            for at_ms, seen in cluster.step():
                world.log.say(at_ms, seen)
            await world.caught_up()
        store.random = None
        await world.caught_up()
        await until(lambda: not node.counts().dirty_offsets and not node.counts().queued_rows, "the last checkpoint")
    return {
        "groups": [replace(stored.group, shard_id=0) for stored in store.load_shards([0])],  # type: ignore[union-attr]
        "offsets": {group_id: store.committed_offsets(group_id) for group_id in "ghk"},
        "rebalances": _by_group(world.rebalances),
        "members": sorted(
            (row._replace(rebalance_id="") for row in store.history.rebalance_members),
            key=lambda row: (row.group_id, row.completed_at_ms, row.member_id),
        ),
        "sessions": sorted(store.history.sessions, key=lambda row: (row.group_id, row.ended_at_ms, row.member_id)),
        "transitions": sorted(store.history.transitions, key=lambda row: row.group_id),
        "ownerships": _by_group(store.history.ownerships),
        "archived": sorted(row._replace(change_id="") for row in store.history.archived),
    }


def _by_group(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the order of each group, without the ids that epochs make different."""
    return sorted((replace(row, rebalance_id="") for row in rows), key=lambda row: row.group_id)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_rows_are_those_of_a_run_without_failures(seed: int) -> None:
    assert await followed(seed, Random(seed)) == await followed(seed, None)
