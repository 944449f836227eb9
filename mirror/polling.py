"""Connections to a cluster that are opened again after failures: how those are reported, and polls at intervals."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

import structlog

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.runtime.counters import MirrorCounts
from coordinator_core.runtime.database_errors import summary_of
from coordinator_core.runtime.memory import end_if_out_of_memory
from coordinator_core.runtime.readiness import FAILURES_MAX
from mirror.kafka_log import KafkaUnavailable

log = structlog.get_logger("muster.mirror")

RETRY_S: Final = 1.0
"""How long a mirror waits after a failure."""

_Connection = TypeVar("_Connection")


class Reachability:
    """Whether the cluster is mirrored, for /readyz and the log, which has each reason once in an outage."""

    def __init__(self, counts: MirrorCounts, is_served_elsewhere: Callable[[int], bool]) -> None:
        """Start without a failure, other than that nothing was read yet.

        Args:
            counts: where /readyz finds the reason.
            is_served_elsewhere: returns whether another node owns a shard.
        """
        self._counts = counts
        self._is_served_elsewhere = is_served_elsewhere
        self._logged: set[str] = set()
        self._lacking: str | None = None
        self._shard_failures: Counter[int] = Counter()
        """Shard → how often it failed since all was applied to it."""
        self._is_broken = False
        """Whether an unexpected error has ended the loop, and may again at the same place of the log."""

    async def retry(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Follow the cluster, without end; after a failure again."""
        while True:
            try:
                await follow()
            except (KafkaUnavailable, CoordinatorError) as failure:
                self.record_failure(failure)
            except Exception as error:  # any error: `/readyz` reports it, and the loop restarts
                self._is_broken = True
                self._counts.failure = f"the mirror has failed: {summary_of(error)}"
                raise
            await asyncio.sleep(RETRY_S)

    def record_failure(self, failure: KafkaUnavailable | CoordinatorError) -> None:
        """Record why the cluster is not mirrored: it, or the database, is away; several brokers' reasons alternate."""
        reason = str(failure)
        if reason not in self._logged:
            if isinstance(failure, KafkaUnavailable):
                log.error("mirrored_cluster_unreachable", reason=reason, retry_in_s=RETRY_S)
            else:
                log.warning("mirror_interrupted", reason=reason, retry_in_s=RETRY_S)
        self._logged.add(reason)
        self._counts.failure = reason

    def record_shard_failure(self, shard_id: int, reason: str) -> None:
        """Record why what the cluster says could not be applied to a shard, to which it is applied again."""
        log.warning("mirrored_shard_failed", shard=shard_id, reason=reason)
        self._shard_failures[shard_id] += 1

    def record_success(
        self, partitions: Collection[int], behind: Collection[int] = (), lacking: str | None = None
    ) -> None:
        """Record that the cluster is read.

        Args:
            partitions: those that are read, or shards where groups are polled.
            behind: those of them of which not all was read that the cluster had when reading began.
            lacking: what cannot be read now; None: nothing.
        """
        if self._is_broken and behind:
            return
        self._is_broken = False
        for shard_id in set(partitions).difference(behind):
            del self._shard_failures[shard_id]
        failing = sorted(shard_id for shard_id, failures in self._shard_failures.items() if failures >= FAILURES_MAX)
        if refused := [str(shard_id) for shard_id in failing if not self._is_served_elsewhere(shard_id)]:
            numbers = ", ".join(refused)
            lacking = (
                f"groups of some shards ({numbers}) cannot be stored, and are shown as they were: see the node's log"
            )
        self._logged.clear()
        if lacking is not None and lacking != self._lacking:
            log.warning("mirrored_cluster_incomplete", reason=lacking)
        elif lacking is None and self._counts.failure is not None:
            log.info("mirrored_cluster_reached", partitions=sorted(partitions))
        self._counts.failure = self._lacking = lacking


async def poll_at_intervals(
    what: str,
    counts: MirrorCounts,
    connect: Callable[[], AbstractAsyncContextManager[_Connection]],
    poll: Callable[[_Connection], Awaitable[None]],
    interval_s: float,
) -> None:
    """Poll, without end; after a failure connect again.

    Args:
        what: what is polled, as the metric and the log name it; the first of several failures is logged.
        counts: where failures are counted.
        connect: connects to the cluster.
        poll: reads once; the log has the traceback of an error that is not KafkaUnavailable or CoordinatorError.
        interval_s: the time from the end of a poll to the next.
    """
    is_failure_logged = False
    while True:
        try:
            async with connect() as connection:
                while True:
                    await poll(connection)
                    is_failure_logged = False
                    await asyncio.sleep(interval_s)
        except Exception as failure:  # any error: what runs beside it goes on
            end_if_out_of_memory(failure)
            counts.polls_failed[what] += 1
            if not is_failure_logged:
                is_unexpected = not isinstance(failure, KafkaUnavailable | CoordinatorError)
                log.warning("mirror_poll_failed", polled=what, reason=str(failure), exc_info=is_unexpected)
            is_failure_logged = True
        await asyncio.sleep(interval_s)
