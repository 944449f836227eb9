"""Polling of a cluster: a connection that is opened again after failures, and asked at intervals."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

import structlog

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.runtime.counters import MirrorCounts
from mirror.kafka_log import KafkaUnavailable

log = structlog.get_logger("muster.mirror")

RETRY_S: Final = 1.0
"""How long a mirror waits after a failure."""

_Connection = TypeVar("_Connection")


class Reachability:
    """Whether the cluster is read, for /readyz and the log, which has each reason once in an outage."""

    def __init__(self, counts: MirrorCounts) -> None:
        self._counts = counts
        self._logged: set[str] = set()

    def record_failure(self, reason: str) -> None:
        """Record why the cluster is not read; with several brokers the reasons alternate."""
        if reason not in self._logged:
            log.error("mirrored_cluster_unreachable", reason=reason, retry_in_s=RETRY_S)
        self._logged.add(reason)
        self._counts.failure = reason

    def record_success(self, partitions: Iterable[int]) -> None:
        """Record that the cluster is read, for these shards."""
        if self._counts.failure is not None:
            log.info("mirrored_cluster_reached", partitions=sorted(partitions))
        self._logged.clear()
        self._counts.failure = None


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
        poll: reads once; it may raise KafkaUnavailable and CoordinatorError, the others end the poll.
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
        except (KafkaUnavailable, CoordinatorError) as failure:
            counts.polls_failed[what] += 1
            if not is_failure_logged:
                log.warning("mirror_poll_failed", polled=what, reason=str(failure))
            is_failure_logged = True
        await asyncio.sleep(interval_s)
