"""The loop of a mirror: follows the partitions of the shards that this node owns, and starts again after failures."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, Protocol
from uuid import UUID

import structlog

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.states import GroupState
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.counters import MirrorCounts
from coordinator_core.runtime.shard import Shard
from mirror.decide import StatePolled
from mirror.follower import Follower, LogEntry, forget_topics, used_topics
from mirror.group_records import GroupRecord, TargetAssignment
from mirror.inference import REBALANCING
from mirror.kafka_log import TOPIC, Bounds, KafkaUnavailable, Lag, LogChanged, Record
from mirror.observed import Observed
from mirror.offsets_topic import UnknownRecord, decode, is_offset_commit
from mirror.polling import Reachability
from mirror.record_reader import REPLACEMENT, UndecodableRecord

log = structlog.get_logger("muster.mirror")

POLL_MS: Final = 500
"""How long a poll waits for records; shards that were acquired or lost meanwhile are noticed after it."""
UNKNOWN_TOPICS_RETRY_S: Final = 5.0
"""How long the names of topics that were not found are not asked for again."""
REPORTED_MAX: Final = 20
"""Undecodable records that are logged; all are counted."""


class Log(Protocol):
    """The log of a cluster, as `KafkaLog` reads it."""

    def assign(self, next_offsets: Mapping[int, int]) -> None:
        """Read these partitions from now on, each from its next offset."""
        ...

    def offline(self, partitions: Collection[int]) -> set[int]:
        """Return those of these partitions that have no leader."""
        ...

    async def bounds(self, partitions: Collection[int]) -> Mapping[int, Bounds]:
        """Return where the logs of partitions begin and end."""
        ...

    async def ends(self, partitions: Collection[int]) -> Mapping[int, int]:
        """Return where the logs of partitions end, with what open transactions hide, as far as that is known."""
        ...

    async def topic_names(self, topic_ids: Collection[UUID]) -> Mapping[UUID, str]:
        """Return the names of topics, as far as they are found."""
        ...

    async def poll(self, timeout_ms: int) -> Mapping[int, Sequence[Record]]:
        """Return new records by partition; empty if there are none in time."""
        ...

    async def position(self, partition: int) -> int:
        """Return the offset that is read next, which is beyond records that are not returned."""
        ...

    async def lag(self) -> dict[int, Lag]:
        """Return how far each partition is behind the end of its log, as far as that is known."""
        ...


class Poll(Protocol):
    """What polls the cluster beside the log."""

    async def run(self, counts: MirrorCounts) -> None:
        """Poll, without end; count failures."""
        ...


OpenLog = Callable[[], AbstractAsyncContextManager[Log, bool | None]]
"""Connects to the cluster."""


class Mirror:
    """Follows the log of a cluster for the shards of one node."""

    def __init__(self, coordinator: Coordinator, open_log: OpenLog, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.counts = MirrorCounts()
        self._reachability = Reachability(self.counts, coordinator.is_served_elsewhere)
        self.polls: list[Poll] = []
        """What runs beside it, if it is there before the mirror runs."""
        self._coordinator = coordinator
        self._open_log = open_log
        self._followers: dict[Shard, Follower] = {}
        self._read: set[Shard] = set()
        """The shards whose logs are being read."""
        self._topic_names: dict[UUID, str] = {}
        self._unnamed: set[UUID] = set()
        """Topics whose names were asked for and not found."""
        self._retry_at_s = 0.0
        """When their names are asked for again, by the time of the event loop."""
        self._polled: dict[Shard, dict[Group, GroupState | None]] = {}
        """The states that the last poll showed, of groups for which they are new; None: no rebalance."""
        self._polled_at_ms = 0
        self._polled_ends: Mapping[int, int] | None = None
        """Where the logs of their partitions ended after the poll; None: that was not read yet."""

    async def run(self) -> None:
        """Follow the log, and poll beside it, without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reachability.retry(self._follow))
            for poll in self.polls:
                tasks.create_task(poll.run(self.counts))

    def used_topics(self) -> set[str]:
        """Return the topics that the node's groups subscribe to, or have committed offsets in."""
        return used_topics(self._followers.values())

    def forget_topics(self, deleted: Collection[str]) -> None:
        """Forget topics that were deleted."""
        forget_topics(self._followers.values(), deleted)
        for topic_id in [each for each, name in self._topic_names.items() if name in deleted]:
            del self._topic_names[topic_id]

    def known_groups(self) -> dict[str, Group]:
        """Return the node's groups by their ids, as they are now."""
        return {group.group_id: group for shard in self._followers for group in shard.live_groups()}

    def states_polled(self, states: Mapping[str, GroupState], known: Mapping[str, Group]) -> None:
        """Take the states of a poll; groups enter them when the log is applied as far as it goes now.

        Args:
            states: the groups that are in a rebalance.
            known: the groups as they were when the poll began. Of one that has changed the poll may be outdated.
        """
        self._polled_at_ms = self._coordinator.wall_ms()
        self._polled = {
            shard: {
                group: states.get(group.group_id)
                for group in shard.live_groups()
                if known.get(group.group_id) is group
                and (group.group_id in states or group.state in REBALANCING)
                and group.state is not states.get(group.group_id)
            }
            for shard in self._followers
        }
        self._polled_ends = None

    async def _follow(self) -> None:
        """Follow until something fails."""
        async with self._open_log() as kafka:
            self._followers.clear()
            self._read.clear()
            while True:
                await self._step(kafka)

    async def _step(self, kafka: Log) -> None:
        """Follow the shards that the node owns now, and apply what their logs have."""
        has_new = await self._update_followers()
        offline = kafka.offline([shard.shard_id for shard in self._followers])
        readable, lacking = {shard for shard in self._followers if shard.shard_id not in offline}, _lacking(offline)
        if lacking is not None and not readable:
            raise KafkaUnavailable(lacking)  # The brokers that the client knows may be gone for good.
        if has_new or self._read != readable:
            await self._assign(kafka, readable)
        if not readable:
            await self._wait_for_records({})
            self._reachability.record_success([])
            await asyncio.sleep(POLL_MS / 1000)
            return
        try:
            found = await kafka.poll(POLL_MS)
        except LogChanged as change:
            self._read_whole_logs(change.partitions)
            await self._assign(kafka, readable)
            return
        read = {
            shard: self._entries(follower, found[shard.shard_id])
            for shard, follower in self._followers.items()
            if shard.shard_id in found
        }
        await self._learn_topic_names(kafka, read.values())
        await self._together(
            {
                shard: self._followers[shard].apply(entries, found[shard.shard_id][-1].offset + 1)
                for shard, entries in read.items()
            }
        )
        await self._reach_ends(kafka)
        await self._wait_for_records(await kafka.lag())
        await self._enter_polled_states(kafka)
        ends = {shard.shard_id: self._followers[shard].end for shard in readable & self._followers.keys()}
        behind = {partition for partition, end in ends.items() if end is not None}
        self._reachability.record_success(ends.keys(), behind, lacking)

    # -- shards --------------------------------------------------------------------------------------------

    async def _update_followers(self) -> bool:
        """Follow the shards that the node serves now; return whether there are new ones."""
        served = {shard for shard in self._coordinator.serving_shards() if not shard.is_unloaded}
        for shard in self._followers.keys() - served:
            del self._followers[shard]
        store, new = self._coordinator.store, served - self._followers.keys()
        for shard in new:
            await shard.store_offsets()  # After a failure it may have commits that the table does not have.
            stored = await self._coordinator.read(partial(store.mirror_position, shard.shard_id))
            follower = Follower(shard, self._coordinator, stored, self._topic_names.get)
            self._followers[shard] = follower
            follower.committed_topics.update(
                await self._coordinator.read(partial(store.committed_topics, shard.shard_id))
            )
        return bool(new)

    async def _assign(self, kafka: Log, shards: Collection[Shard]) -> None:
        """Read the logs of these shards on from where their followers are, a new follower's from the beginning."""
        followers = {shard.shard_id: self._followers[shard] for shard in shards}
        reading = {
            number: each for number, each in followers.items() if each.next_offset is None or each.end is not None
        }
        for partition, (start, end) in (await kafka.bounds(reading)).items():
            follower = reading[partition]
            if follower.next_offset is None:
                follower.begin(start, end)
            elif follower.end is not None:
                follower.end = min(follower.end, end)  # The log may have been truncated meanwhile.
        kafka.assign({partition: each.next_offset or 0 for partition, each in followers.items()})
        self._read = set(shards)

    def _read_whole_logs(self, partitions: Iterable[int]) -> None:
        for shard, follower in self._followers.items():
            if shard.shard_id in partitions:
                log.warning("mirrored_log_changed", partition=shard.shard_id, next_offset=follower.next_offset)
                follower.read_whole_log()

    async def _reach_ends(self, kafka: Log) -> None:
        """Let followers that have read to the end that their logs had go on from there."""
        reached: dict[Shard, Awaitable[None]] = {}
        for shard in self._read & self._followers.keys():
            follower = self._followers[shard]
            if follower.end is not None and await kafka.position(shard.shard_id) >= follower.end:
                reached[shard] = follower.reach_end(follower.end)
        await self._together(reached)

    async def _wait_for_records(self, lag: Mapping[int, Lag]) -> None:
        self.counts.lag = {partition: behind.offsets for partition, behind in lag.items()}
        self.counts.other_groups = Counter(
            (group.protocol_type, group.state)
            for follower in self._followers.values()
            for group in follower.other_groups.values()
        )
        await self._together(
            {
                shard: follower.wait_for_records()
                for shard, follower in self._followers.items()
                if follower.end is None and shard.shard_id in lag and lag[shard.shard_id].readable == 0
            }
        )

    async def _enter_polled_states(self, kafka: Log) -> None:
        """Let groups enter the states of the last poll, once the log is applied to where it ended after the poll.

        What an open transaction hides may be the end of a rebalance, so the states wait for it. A poll that ends while
        the ends are read has its own.
        """
        polled, ends = self._polled, self._polled_ends
        if ends is None:
            wanted = [shard.shard_id for shard, states in polled.items() if states and shard in self._followers]
            ends = await kafka.ends(wanted)
            if polled is not self._polled:
                return
            self._polled_ends = ends
        for shard, follower in self._followers.items():
            end = ends.get(shard.shard_id) if shard in self._read else None
            if end is None or follower.end is not None or await kafka.position(shard.shard_id) < end:
                continue
            for group, state in polled.pop(shard, {}).items():
                context = shard.groups.get(group.group_id)
                if context is not None and context.group is group and not shard.is_unloaded:
                    shard.perform(group.group_id, StatePolled(state, self._polled_at_ms))

    # -- records -------------------------------------------------------------------------------------------

    def _entries(self, follower: Follower, records: Sequence[Record]) -> list[LogEntry]:
        """Decode records; skip commits that are stored already."""
        self.counts.records += len(records)
        commits_from = follower.commits_from
        return [
            LogEntry(record.offset, self._appended_ms(record), seen)
            for record in records
            if (record.offset >= commits_from or record.value is None or not is_offset_commit(record.key))
            and (seen := self._decoded(follower, record)) is not None
        ]

    async def _learn_topic_names(self, kafka: Log, read: Iterable[Sequence[LogEntry]]) -> None:
        """Ask for the names of topics that occur for the first time, and again for those that were not found."""
        found = {
            topic_id
            for entries in read
            for entry in entries
            if isinstance(entry.seen, TargetAssignment)
            for topic_id, _ in entry.seen.partitions or ()
        }
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._retry_at_s:
            self._retry_at_s = now_s + UNKNOWN_TOPICS_RETRY_S
            self._unnamed.clear()
            found = found.union(*(ids for each in self._followers.values() for ids in each.unknown_topics.values()))
        wanted = found - self._topic_names.keys() - self._unnamed
        if wanted:
            self._topic_names.update(await kafka.topic_names(wanted))
            self._unnamed |= wanted - self._topic_names.keys()

    def _appended_ms(self, record: Record) -> int:
        return record.timestamp if record.timestamp >= 0 else self._coordinator.wall_ms()

    def _decoded(self, follower: Follower, record: Record) -> Observed | GroupRecord | None:
        try:
            decoded = decode(record.key, record.value)
            if decoded is None or isinstance(decoded, UnknownRecord):
                return None
            if self._coordinator.shard_id_of(decoded.group_id) == follower.shard.shard_id:
                return decoded
            if REPLACEMENT in decoded.group_id:
                raise UndecodableRecord("the group's id cannot be stored as it is")
            return None
        except UndecodableRecord as failure:
            self.counts.undecodable += 1
            if self.counts.undecodable <= REPORTED_MAX:
                partition = follower.shard.shard_id
                log.warning(
                    "mirrored_record_undecodable", partition=partition, offset=record.offset, reason=str(failure)
                )
            return None

    async def _together(self, calls: Mapping[Shard, Awaitable[None]]) -> None:
        """Wait for calls of several shards; one that fails is followed from its stored position again."""
        outcomes = await asyncio.gather(*calls.values(), return_exceptions=True)
        for shard, outcome in zip(calls, outcomes, strict=True):
            if isinstance(outcome, CoordinatorError):
                self._reachability.record_shard_failure(shard.shard_id, outcome.detail)
                del self._followers[shard]
            elif isinstance(outcome, BaseException):
                raise outcome


def _lacking(offline: Collection[int]) -> str | None:
    """Return the reason that partitions of the log without a leader are."""
    numbers = ", ".join(map(str, sorted(offline)))
    reason = f"{TOPIC} has partitions without a leader ({numbers}), whose groups are shown as they were"
    return reason if offline else None
