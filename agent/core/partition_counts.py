"""Partition counts of topics: from the topic metadata, else from the caller's `partitions_of`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from agent.core.connection import Connection
from agent.core.group_api import GroupApi
from agent.core.responses import TopicMetadata
from agent.errors import RequestError
from agent.partitions import whole_number

log = logging.getLogger("muster.agent")

AsyncPartitionsOf = Callable[[str], Awaitable[int | None]]


class PartitionCounts:
    """Looks up the partition counts that a leader passes to the assignor."""

    def __init__(self, api: GroupApi, partitions_of: AsyncPartitionsOf | None, timeout_ms: int) -> None:
        self._api = api
        self._partitions_of = partitions_of
        self._timeout_ms = timeout_ms

    async def of(self, connection: Connection, topics: Iterable[str]) -> dict[str, int]:
        """Return the count of every topic: that of the topic metadata, else of partitions_of, else 0.

        Raises:
            AgentError: the topic metadata cannot be read; see Connection.call.
            ValueError: partitions_of returned neither a whole number nor None.
        """
        topic_metadata = await self._topic_metadata(connection)
        return {topic: await self._count(topic, topic_metadata) for topic in sorted(set(topics))}

    async def log_starts(self, connection: Connection) -> dict[str, int]:
        """Return the log start offset of every topic in the topic metadata."""
        return {topic: info.log_start_offset for topic, info in (await self._topic_metadata(connection)).items()}

    async def _topic_metadata(self, connection: Connection) -> dict[str, TopicMetadata]:
        try:
            return await self._api.topics(connection, timeout_ms=self._timeout_ms)
        except RequestError as error:
            if self._partitions_of is None:
                raise
            log.debug("topic metadata is not readable (%s); using partitions_of only", error)
            return {}

    async def _count(self, topic: str, topic_metadata: dict[str, TopicMetadata]) -> int:
        if topic in topic_metadata:
            return topic_metadata[topic].partitions
        count = None if self._partitions_of is None else await self._partitions_of(topic)
        if count is not None:
            return whole_number(f"the partition count of {topic}", count)
        log.warning("topic %s has no topic metadata, so no partitions are assigned", topic)
        return 0
