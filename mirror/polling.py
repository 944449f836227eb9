"""Polling of a cluster: a connection that is opened again after failures, and asked at intervals."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import structlog

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.runtime.counters import MirrorCounts
from mirror.kafka_log import KafkaUnavailable

log = structlog.get_logger("muster.mirror")

_Connection = TypeVar("_Connection")


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
