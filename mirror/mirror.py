"""The loop of a mirror: follows the partitions of the shards that this node owns, and starts again after failures."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, Protocol

import structlog

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.counters import MirrorCounts
from coordinator_core.runtime.shard import Shard
from mirror.follower import Follower, LogEntry
from mirror.kafka_log import KafkaUnavailable, LogChanged, Record
from mirror.log_end_poll import LogEndPoll
from mirror.observed import Observed
from mirror.offsets_topic import decode
from mirror.record_reader import UndecodableRecord

log = structlog.get_logger("muster.mirror")

POLL_MS: Final = 500
"""How long a poll waits for records; shards that were acquired or lost meanwhile are noticed after it."""
RETRY_S: Final = 1.0
"""How long the loop waits after a failure."""
REPORTED_MAX: Final = 20
"""Undecodable records that are logged; all are counted."""


class Log(Protocol):
    """The log of a cluster, as `KafkaLog` reads it."""

    async def assign(self, next_offsets: Mapping[int, int | None]) -> None:
        """Read these partitions from now on, each from its next offset; None: from the beginning of its log."""
        ...

    async def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return the offset after the last committed record of each partition."""
        ...

    async def poll(self, timeout_ms: int) -> Mapping[int, Sequence[Record]]:
        """Return new records by partition; empty if there are none in time."""
        ...

    async def position(self, partition: int) -> int:
        """Return the offset that is read next, which is beyond records that are not returned."""
        ...

    async def lag(self) -> dict[int, int]:
        """Return how many offsets each partition is behind the end of its log, as far as that is known."""
        ...


OpenLog = Callable[[], AbstractAsyncContextManager[Log, bool | None]]
"""Connects to the cluster."""


class Mirror:
    """Follows the log of a cluster for the shards of one node."""

    def __init__(self, coordinator: Coordinator, open_log: OpenLog, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.counts = MirrorCounts()
        self.poll: LogEndPoll | None = None
        """Reads log ends beside it, if it is set before the mirror runs."""
        self._coordinator = coordinator
        self._open_log = open_log
        self._followers: dict[Shard, Follower] = {}
        self._read: set[Shard] = set()
        """The shards whose logs are being read."""
        self._ends: dict[int, int] = {}
        """Partition that is read as a whole → the end of its log when that began."""

    async def run(self) -> None:
        """Follow the log, and poll log ends if there is a poll, without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            if self.poll is not None:
                tasks.create_task(self.poll.run())

    def used_topics(self) -> set[str]:
        """Return the topics that the node's groups subscribe to, or have committed offsets in."""
        groups = (group for shard in self._followers for group in shard.live_groups())
        subscribed = {topic for group in groups for topic in group.subscribed_topics or ()}
        return subscribed.union(*(follower.committed_topics for follower in self._followers.values()))

    async def _follow(self) -> None:
        """Follow, without end; after a failure connect again."""
        while True:
            try:
                async with self._open_log() as kafka:
                    self._followers.clear()
                    self._read.clear()
                    while True:
                        await self._step(kafka)
            except KafkaUnavailable as failure:
                self._record_failure(str(failure))
            except CoordinatorError as failure:  # The database cannot be reached, as /readyz reports.
                log.warning("mirror_interrupted", reason=failure.detail)
            await asyncio.sleep(RETRY_S)

    async def _step(self, kafka: Log) -> None:
        """Follow the shards that the node owns now, and apply what their logs have."""
        if await self._update_followers():
            await self._assign(kafka)
        if not self._followers:
            await asyncio.sleep(POLL_MS / 1000)
            return
        try:
            found = await kafka.poll(POLL_MS)
        except LogChanged as change:
            self._read_whole_logs(change.partitions)
            await self._assign(kafka)
            return
        await self._together(
            {
                shard: self._apply(follower, found[shard.shard_id])
                for shard, follower in self._followers.items()
                if shard.shard_id in found
            }
        )
        await self._finish_whole_logs(kafka)
        self.counts.lag = await kafka.lag()
        self._record_success()

    # -- shards --------------------------------------------------------------------------------------------

    async def _update_followers(self) -> bool:
        """Follow the shards that the node serves now; return whether they are others than those that are read."""
        served = {shard for shard in self._coordinator.serving_shards() if not shard.is_unloaded}
        for shard in self._followers.keys() - served:
            del self._followers[shard]
        store, new = self._coordinator.store, served - self._followers.keys()
        for shard in new:
            stored = await self._coordinator.read(partial(store.mirror_position, shard.shard_id))
            follower = self._followers[shard] = Follower(shard, self._coordinator, stored)
            follower.committed_topics.update(
                await self._coordinator.read(partial(store.committed_topics, shard.shard_id))
            )
        return bool(new) or self._read != served

    async def _assign(self, kafka: Log) -> None:
        """Read each log from its follower's position."""
        offsets = {shard.shard_id: follower.next_offset for shard, follower in self._followers.items()}
        await kafka.assign(offsets)
        self._read = set(self._followers)
        whole = [shard_id for shard_id, offset in offsets.items() if offset is None]
        self._ends = await kafka.end_offsets(whole)

    def _read_whole_logs(self, partitions: Iterable[int]) -> None:
        for shard, follower in self._followers.items():
            if shard.shard_id in partitions:
                log.warning("mirrored_log_changed", partition=shard.shard_id, next_offset=follower.next_offset)
                follower.read_whole_log()

    async def _finish_whole_logs(self, kafka: Log) -> None:
        finished: dict[Shard, Awaitable[None]] = {}
        for shard, follower in self._followers.items():
            end = self._ends.get(shard.shard_id)
            if end is not None and (position := await kafka.position(shard.shard_id)) >= end:
                del self._ends[shard.shard_id]
                finished[shard] = follower.finish_whole_log(position)
        await self._together(finished)

    # -- records -------------------------------------------------------------------------------------------

    async def _apply(self, follower: Follower, records: Sequence[Record]) -> None:
        entries = [
            LogEntry(record.offset, self._appended_ms(record), seen)
            for record in records
            if (seen := self._decoded(follower, record)) is not None
        ]
        self.counts.records += len(records)
        await follower.apply(entries)

    def _appended_ms(self, record: Record) -> int:
        return record.timestamp if record.timestamp >= 0 else self._coordinator.wall_ms()

    def _decoded(self, follower: Follower, record: Record) -> Observed | None:
        try:
            decoded = decode(record.key, record.value)
            return decoded if isinstance(decoded, Observed) else None
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
                log.warning("mirrored_shard_failed", shard=shard.shard_id, reason=outcome.detail)
                del self._followers[shard]
            elif isinstance(outcome, BaseException):
                raise outcome

    # -- outcome -------------------------------------------------------------------------------------------

    def _record_failure(self, reason: str) -> None:
        if self.counts.failure is None or self.counts.failure != reason:
            log.error("mirrored_cluster_unreachable", reason=reason, retry_in_s=RETRY_S)
        self.counts.failure = reason

    def _record_success(self) -> None:
        if self.counts.failure is not None:
            log.info("mirrored_cluster_reached", partitions=sorted(shard.shard_id for shard in self._followers))
        self.counts.failure = None
