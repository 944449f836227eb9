"""Poll of log ends: reads the partitions of the topics that mirrored groups use, and where their logs end.

The numbers of partitions go to the topic metadata, so that a rebalance after new partitions has its trigger. The log
ends give lag in records and in seconds, as those of trusted reporters do elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.counters import MirrorCounts
from mirror.polling import poll_at_intervals


class Topics(Protocol):
    """The topics of a cluster, as `KafkaTopics` reads them."""

    async def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each of these topics that exists."""
        ...

    async def log_ends(self, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """Return the end of the log of each partition."""
        ...


class LogEndPoll:
    """Polls the topics of the groups that one node mirrors."""

    def __init__(
        self,
        coordinator: Coordinator,
        open_topics: Callable[[], AbstractAsyncContextManager[Topics]],
        used_topics: Callable[[], set[str]],
        interval_s: float,
    ) -> None:
        """Prepare.

        Args:
            coordinator: the node.
            open_topics: connects to the cluster.
            used_topics: returns the topics that the node's groups subscribe to or have committed offsets in.
            interval_s: the time from the end of a poll to the next.
        """
        self._coordinator = coordinator
        self._open_topics = open_topics
        self._used_topics = used_topics
        self._interval_s = interval_s

    async def run(self, counts: MirrorCounts) -> None:
        """Poll, without end."""
        await poll_at_intervals("log_ends", counts, self._open_topics, self.poll, self._interval_s)

    async def poll(self, topics: Topics) -> None:
        """Read partitions and log ends once.

        Raises:
            KafkaUnavailable: the cluster cannot be reached.
            CoordinatorError: the database cannot be reached.
        """
        found = await topics.partitions(self._used_topics())
        await self._coordinator.read(partial(self._coordinator.store.observe_topics, found))
        self._coordinator.observe_log_ends(await topics.log_ends(found))
