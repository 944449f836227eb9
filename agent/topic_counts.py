"""How many partitions a topic has: the catalogue knows, or the caller's own function does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from agent.answers import TopicInfo
from agent.errors import RequestError
from agent.group_api import GroupApi
from agent.transport import Lane

log = logging.getLogger("muster.agent")

PartitionsOf = Callable[[str], int]


class TopicCounts:
    """The partition counts that a leader assigns by."""

    def __init__(self, api: GroupApi, partitions_of: PartitionsOf | None, timeout_ms: int) -> None:
        self._api = api
        self._partitions_of = partitions_of
        self._timeout_ms = timeout_ms

    def of(self, lane: Lane, topics: Iterable[str]) -> dict[str, int]:
        """Return the count of every topic: the catalogue's, else that of partitions_of, else 0.

        Raises:
            AgentError: when the catalogue cannot be had; see Lane.call.
        """
        catalogue = self._catalogue(lane)
        return {topic: self._count(topic, catalogue) for topic in sorted(set(topics))}

    def log_starts(self, lane: Lane) -> dict[str, int]:
        """Return the first offset of every topic that the catalogue knows."""
        return {topic: info.log_start_offset for topic, info in self._catalogue(lane).items()}

    def _catalogue(self, lane: Lane) -> dict[str, TopicInfo]:
        try:
            return self._api.topics(lane, timeout_ms=self._timeout_ms)
        except RequestError as error:
            if self._partitions_of is None:
                raise
            log.debug("the catalogue is refused (%s); partitions_of is asked alone", error)
            return {}

    def _count(self, topic: str, catalogue: dict[str, TopicInfo]) -> int:
        if topic in catalogue:
            return catalogue[topic].partitions
        if self._partitions_of is not None:
            return self._partitions_of(topic)
        log.warning("topic %s is in no catalogue, so it has no partitions to assign", topic)
        return 0
