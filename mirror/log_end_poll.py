"""Poll of log ends: reads the partitions of the topics that mirrored groups use, and where their logs end.

The numbers of partitions go to the topic metadata, so that a rebalance after new partitions has its trigger. The log
ends give lag in records and in seconds, as those of trusted reporters do elsewhere. Topics that were deleted, which two
polls in a row did not find, are deleted too: a broker that has just started may not know a topic yet.

A log end that is stored never decreases. One that two polls in a row find lower, or without its partition, is deleted
first: the topic was deleted and created again, or an unclean election has truncated its log. In one poll a broker may
answer that no longer leads.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.counters import MirrorCounts
from mirror.polling import poll_at_intervals


class Topics(Protocol):
    """The topics of a cluster, as `KafkaTopics` reads them."""

    async def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each of these topics; 0: there is no such topic.

        Topics that may not be described, or cannot be now, are left out.
        """
        ...

    def log_ends(self, partitions: Mapping[str, int]) -> AsyncIterator[dict[tuple[str, int], int]]:
        """Yield the ends of the logs of partitions, in parts."""
        ...


class LogEndPoll:
    """Polls the topics of the groups that one node mirrors."""

    def __init__(
        self,
        coordinator: Coordinator,
        open_topics: Callable[[], AbstractAsyncContextManager[Topics]],
        used_topics: Callable[[], set[str]],
        forget_topics: Callable[[Collection[str]], None],
        interval_s: float,
    ) -> None:
        """Prepare.

        Args:
            coordinator: the node.
            open_topics: connects to the cluster.
            used_topics: returns the topics that the node's groups subscribe to or have committed offsets in.
            forget_topics: takes topics that were deleted.
            interval_s: the time from the end of a poll to the next.
        """
        self._coordinator = coordinator
        self._open_topics = open_topics
        self._used_topics = used_topics
        self._forget_topics = forget_topics
        self._interval_s = interval_s
        self._ends: dict[tuple[str, int], int] = {}
        """The ends that this poll has found or read, by topic and partition; a lower one does not replace them."""
        self._lower: set[tuple[str, int]] = set()
        """The partitions whose ends were lower in the last poll, or whose topics have fewer partitions."""
        self._missing: set[str] = set()
        """The topics that the last poll did not find."""

    async def run(self, counts: MirrorCounts) -> None:
        """Poll, without end."""
        await poll_at_intervals("log_ends", counts, self._open_topics, self.poll, self._interval_s)

    async def poll(self, topics: Topics) -> None:
        """Read partitions and log ends once.

        Raises:
            KafkaUnavailable: the cluster cannot be reached.
            CoordinatorError: the database cannot be reached.
        """
        used = self._used_topics()
        counts = await topics.partitions(used | self._coordinator.metadata_cache.topic_metadata.keys())
        await self._forget_deleted({topic for topic, count in counts.items() if count == 0})
        present = {topic: count for topic, count in counts.items() if count > 0}
        store = self._coordinator.store
        await self._coordinator.read(partial(store.observe_topics, present))
        found = {topic: count for topic, count in present.items() if topic in used}
        self._ends = {each: end for each, end in self._ends.items() if each[0] in found}
        new = sorted(found.keys() - {topic for topic, _ in self._ends})
        stored = await self._coordinator.read(partial(store.log_ends, new)) if new else {}
        self._ends.update({partition: end.offset for partition, end in stored.items()})
        lower_before, self._lower = self._lower, {each for each in self._ends if each[1] >= found[each[0]]}
        if absent := self._lower & lower_before:
            await self._coordinator.read(partial(store.forget_log_ends, sorted(absent)))
            self._lower -= absent
            self._ends = {each: end for each, end in self._ends.items() if each not in absent}
        async for ends in topics.log_ends(found):
            lower = {each for each, end in ends.items() if end < self._ends.get(each, 0)}
            if wrong := lower & lower_before:
                await self._coordinator.read(partial(store.forget_log_ends, sorted(wrong)))
            self._lower |= lower - wrong
            current = {each: end for each, end in ends.items() if each not in self._lower}
            self._ends.update(current)
            self._coordinator.observe_log_ends(current)

    async def _forget_deleted(self, missing: set[str]) -> None:
        deleted, self._missing = missing & self._missing, missing
        if deleted:
            self._forget_topics(deleted)
            await self._coordinator.read(partial(self._coordinator.store.forget_topics, sorted(deleted)))
