"""The loop of a mirror without the log: polls groups and offsets where `__consumer_offsets` may not be read.

What a poll says beside what is known goes to a `Follower`, as if it were the next records of a log: their offsets are
counted, and stored with the rows. So a mirror that starts again continues where it was.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import structlog

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.states import EMPTY, GroupState
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.counters import MirrorCounts
from coordinator_core.runtime.shard import Shard
from coordinator_core.state_store.rows import MirrorPosition
from mirror.decide import StatePolled
from mirror.follower import Follower, LogEntry, forget_topics, used_topics
from mirror.inference import REBALANCING
from mirror.kafka_log import KafkaUnavailable
from mirror.mirror import Poll
from mirror.observed import GroupDeleted, Observed, ObservedOtherGroup
from mirror.polled_groups import (
    CONSUMER_TYPE,
    OTHER_TYPES,
    ListedGroup,
    Offsets,
    PolledGroup,
    PolledOffset,
    is_storable_id,
    observed_group,
    observed_offsets,
    storable,
)
from mirror.polling import Reachability

log = structlog.get_logger("muster.mirror")

SHARE_TYPE: Final = "share"
"""The type of groups that have no committed offsets."""


class Groups(Protocol):
    """The groups of a cluster, as `KafkaGroups` reads them."""

    async def listed(self) -> list[ListedGroup]:
        """Return all groups."""
        ...

    async def described(self, groups: Sequence[ListedGroup]) -> dict[str, PolledGroup]:
        """Return the groups among these that are in no rebalance."""
        ...

    async def offsets(self, groups: Iterable[ListedGroup]) -> dict[str, Offsets]:
        """Return the committed offsets of groups."""
        ...

    async def coordinated(self, group_ids: Collection[str]) -> set[str]:
        """Return those of these groups that have a coordinator."""
        ...


@dataclass(frozen=True, slots=True)
class PolledShardGroups:
    """What a poll says of the groups of a shard."""

    at_ms: int
    listed: Mapping[str, ListedGroup]
    described: Mapping[str, PolledGroup]
    offsets: Mapping[str, Offsets]
    coordinated: Collection[str]
    """Of the groups that no broker lists, those that have a coordinator."""


class PolledMirror:
    """Polls the groups of a cluster for the shards of one node."""

    def __init__(
        self,
        coordinator: Coordinator,
        open_groups: Callable[[], AbstractAsyncContextManager[Groups]],
        cluster_id: str,
        interval_s: float,
    ) -> None:
        """Prepare.

        Args:
            coordinator: the node.
            open_groups: connects to the cluster.
            cluster_id: the id of the cluster.
            interval_s: the time from the end of a poll to the next.
        """
        self.cluster_id = cluster_id
        self.counts = MirrorCounts()
        self._reachability = Reachability(self.counts, coordinator.is_served_elsewhere)
        self.polls: list[Poll] = []
        """What runs beside it, if it is there before the mirror runs."""
        self._coordinator = coordinator
        self._open_groups = open_groups
        self._interval_s = interval_s
        self._shards: dict[Shard, PolledShard] = {}
        self._next_offsets: dict[int, int] = {}
        """Of shards that failed, the offset after the last that was used."""
        self._uncoordinated: set[str] = set()
        """Groups that the last poll did not have, as they have no coordinator."""
        self._stale: set[str] = set()
        """Those that the poll before it did not have either: while it moves, a group has none for a moment."""
        self._unstorable: set[str] = set()
        """Groups that the last poll skipped, since Postgres cannot store their ids; without what it cannot store."""

    async def run(self) -> None:
        """Poll, without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reachability.retry(self._poll_groups))
            for poll in self.polls:
                tasks.create_task(poll.run(self.counts))

    def used_topics(self) -> set[str]:
        """Return the topics that the node's groups subscribe to, or have committed offsets in."""
        return used_topics([each.follower for each in self._shards.values()])

    def forget_topics(self, deleted: Collection[str]) -> None:
        """Forget topics that were deleted."""
        forget_topics((each.follower for each in self._shards.values()), deleted)

    async def _poll_groups(self) -> None:
        """Poll until something fails."""
        try:
            async with self._open_groups() as groups:
                while True:
                    await self.poll(groups)
                    served = [shard.shard_id for shard in self._shards]
                    self._reachability.record_success(served, lacking=self._lacking())
                    await asyncio.sleep(self._interval_s)
        except KafkaUnavailable:
            self.counts.polls_failed["groups"] += 1
            raise

    def _lacking(self) -> str | None:
        """Return the reason that groups without a coordinator are."""
        reason = f"some groups ({len(self._stale)}) have no coordinator, and are shown as they were"
        return reason if self._stale else None

    async def poll(self, groups: Groups) -> None:
        """Read the groups of this node's shards once, and apply what is new.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
            CoordinatorError: the database cannot be reached.
        """
        await self._update_shards()
        by_id = {shard.shard_id: shard for shard in self._shards}
        own: dict[Shard, dict[str, ListedGroup]] = {shard: {} for shard in self._shards}
        unstorable = set()
        for each in await groups.listed():
            shard = by_id.get(self._coordinator.shard_id_of(each.group_id))
            if shard is not None and not is_storable_id(each.group_id):
                unstorable.add(storable(each.group_id))
            elif shard is not None:
                own[shard][each.group_id] = each
        self._report_unstorable(unstorable)
        all_own = [each for listed in own.values() for each in listed.values()]
        described = await groups.described([each for each in all_own if self._needs_description(each)])
        offsets = await groups.offsets([each for each in all_own if each.group_type != SHARE_TYPE])
        missing = [
            each.group_id
            for shard, listed in own.items()
            for each in shard.live_groups()
            if each.group_id not in listed
        ]
        coordinated = await groups.coordinated(missing)
        uncoordinated = set(missing).difference(coordinated)
        self._stale, self._uncoordinated = uncoordinated & self._uncoordinated, uncoordinated
        at_ms = self._coordinator.wall_ms()
        for shard, listed in own.items():
            try:
                await self._shards[shard].apply(PolledShardGroups(at_ms, listed, described, offsets, coordinated))
            except CoordinatorError as failure:
                self._reachability.record_shard_failure(shard.shard_id, failure.detail)
                self._next_offsets[shard.shard_id] = self._shards.pop(shard).next_offset
        self.counts.other_groups = Counter(
            (group.protocol_type, group.state)
            for polled in self._shards.values()
            for group in polled.follower.other_groups.values()
        )

    def _report_unstorable(self, group_ids: set[str]) -> None:
        """Log the groups that are skipped, when there are others than in the last poll."""
        if group_ids and group_ids != self._unstorable:
            reason = "NUL in their ids, or too long"
            log.warning("mirrored_groups_skipped", groups=len(group_ids), first=min(group_ids), reason=reason)
        self._unstorable = group_ids

    async def _update_shards(self) -> None:
        served = {shard for shard in self._coordinator.serving_shards() if not shard.is_unloaded}
        for shard in self._shards.keys() - served:
            del self._shards[shard]
        store = self._coordinator.store
        for shard in served - self._shards.keys():
            await shard.store_offsets()  # After a failure it may have commits that the table does not have.
            stored = await self._coordinator.read(partial(store.mirror_position, shard.shard_id))
            next_offset = self._next_offsets.get(shard.shard_id, 0)
            polled = self._shards[shard] = PolledShard(shard, self._coordinator, stored, next_offset)
            topics = await self._coordinator.read(partial(store.committed_topics, shard.shard_id))
            polled.follower.committed_topics.update(topics)

    @staticmethod
    def _needs_description(group: ListedGroup) -> bool:
        """Return whether a group has members and a generation, which its place in a list does not show."""
        if group.group_type in OTHER_TYPES or not group.protocol_type:
            return False
        return group.group_type == CONSUMER_TYPE or group.state == GroupState.STABLE


class PolledShard:
    """One shard, and what was polled of its groups."""

    def __init__(self, shard: Shard, coordinator: Coordinator, stored: MirrorPosition | None, next_offset: int) -> None:
        """Continue from the stored position.

        Args:
            shard: the shard, loaded and owned.
            coordinator: its node.
            stored: its position; None: it has no poll yet.
            next_offset: the least offset that this node has not used, so that a commit that failed is not repeated
                under the offset of another one.
        """
        self._shard = shard
        self._coordinator = coordinator
        self._is_first = stored is None
        position = 0
        if stored is not None:
            position = max(stored.groups_seq, stored.offsets_seq) - stored.base
            stored = stored._replace(read_at_ms=coordinator.wall_ms())  # A poll misses no deletions.
        self.next_offset = max(position, next_offset)
        """The offset of the next observation."""
        self.follower = Follower(shard, coordinator, stored, lambda _topic_id: None)
        if not self._is_first:
            self.follower.begin(position, self.next_offset)
        self._offsets: dict[str, Offsets] = {}
        self._missing: set[str] = set()
        """Groups that the last poll did not have, though they have a coordinator: while it moves, a group may be in no
        broker's list."""

    async def apply(self, polled: PolledShardGroups) -> None:
        """Apply what a poll says.

        Raises:
            CoordinatorError: the shard was lost, or the database cannot be reached.
        """
        seen = [each for group_id in polled.listed for each in await self._seen(group_id, polled)]
        seen += await self._deleted(polled.listed, polled.coordinated)
        entries = [LogEntry(self.next_offset + place, polled.at_ms, each) for place, each in enumerate(seen)]
        self.next_offset += len(entries)
        if self._is_first:
            self._is_first = False
            self.follower.begin(0, self.next_offset)
        await self.follower.apply(entries, self.next_offset)
        if self.follower.end is not None:
            await self.follower.reach_end(self.next_offset)
        self._take_states(polled)
        await self.follower.wait_for_records()

    def _group(self, group_id: str) -> Group:
        context = self._shard.groups.get(group_id)
        return Group(group_id) if context is None else context.group

    async def _seen(self, group_id: str, polled: PolledShardGroups) -> list[Observed]:
        """Return what is new of a group and its offsets; nothing of one whose offsets may not be fetched."""
        if group_id not in polled.offsets:
            return []
        group, listed, described = self._group(group_id), polled.listed[group_id], polled.described.get(group_id)
        is_classic, is_simple = listed.group_type not in OTHER_TYPES | {CONSUMER_TYPE}, not listed.protocol_type
        if is_classic and listed.state == EMPTY and (group.exists or not is_simple):  # Commits make a simple group.
            described = PolledGroup(listed.protocol_type, "", ())
        found = None if described is None else observed_group(group, group_id, described, polled.at_ms)
        seen: list[Observed] = [] if found is None else [found]
        known = await self._known_offsets(group_id)
        seen += observed_offsets(group_id, known, polled.offsets[group_id], polled.at_ms)
        self._offsets[group_id] = polled.offsets[group_id]
        return seen

    async def _known_offsets(self, group_id: str) -> Offsets:
        if group_id not in self._offsets:
            stored = await self._coordinator.read(partial(self._coordinator.store.stored_offsets, group_id))
            self._offsets[group_id] = {
                (each.topic, each.partition): PolledOffset(each.offset, each.leader_epoch, each.metadata)
                for each in stored
            }
        return self._offsets[group_id]

    async def _deleted(self, listed: Collection[str], coordinated: Collection[str]) -> list[Observed]:
        """Return the deletions of the groups that neither this poll nor the one before had."""
        missing = {group.group_id for group in self._shard.live_groups() if group.group_id not in listed}
        gone, self._missing = missing & self._missing, missing.intersection(coordinated)
        self._offsets = {each: known for each, known in self._offsets.items() if each in listed or each in missing}
        seen: list[Observed] = []
        for group_id in sorted(gone):
            known = await self._known_offsets(group_id)
            seen += [*observed_offsets(group_id, known, {}, 0), GroupDeleted(group_id)]
            del self._offsets[group_id]
        return seen

    def _take_states(self, polled: PolledShardGroups) -> None:
        """Let groups enter the join and sync phases that the poll saw, and keep share and streams groups."""
        before = dict(self.follower.other_groups)
        self.follower.other_groups.clear()
        for group_id, listed in polled.listed.items():
            if listed.group_type in OTHER_TYPES:
                known = before.get(group_id)
                is_same = known is not None and known.state == listed.state
                since_ms = known.state_since_ms if known is not None and is_same else polled.at_ms
                self.follower.other_groups[group_id] = ObservedOtherGroup(
                    group_id, listed.group_type, listed.state, None, None, since_ms
                )
            elif listed.state in REBALANCING and self._group(group_id).exists and not self._shard.is_unloaded:
                self._shard.perform(group_id, StatePolled(GroupState(listed.state), polled.at_ms))
