"""Reader of a Kafka cluster's topics: how many partitions they have, and where their logs end."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, Self

from aiokafka.client import AIOKafkaClient  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]  # comes without types

from mirror.kafka_log import KafkaConnection, KafkaUnavailable, reason_of
from mirror.partition_ends import ends_of
from mirror.topic_ids import NO_ERROR

UNKNOWN_TOPIC: Final = 3
"""UNKNOWN_TOPIC_OR_PARTITION: there is no such topic."""


class KafkaTopics:
    """A connection to a cluster."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._client = AIOKafkaClient(**connection.options())
        self._leaders: dict[tuple[str, int], int] = {}
        """The broker that has the log of a partition, of those that have one."""

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        try:
            await self._client.bootstrap()
        except (KafkaError, OSError) as failure:
            await self._client.close()
            raise KafkaUnavailable(reason_of(failure)) from failure
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await self._client.close()

    async def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each of these topics, 0 if it does not exist; the request creates none.

        Topics that may not be described, or cannot be now, are left out.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        wanted = sorted(topics)
        if not wanted:
            return {}
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        described = (await self._send(self._client.get_random_node(), request))["topics"]
        found = {each["topic"]: each["partitions"] for each in described if each["error_code"] == NO_ERROR}
        self._leaders = {(topic, one["partition"]): one["leader"] for topic, of in found.items() for one in of}
        deleted = {each["topic"]: 0 for each in described if each["error_code"] == UNKNOWN_TOPIC}
        return deleted | {topic: len(of) for topic, of in found.items()}

    async def log_ends(self, partitions: Mapping[str, int]) -> AsyncIterator[dict[tuple[str, int], int]]:
        """Yield the ends of the logs of partitions that were found, broker after broker as they answer.

        Records of open transactions are included. Partitions that no broker leads now are left out.

        Raises:
            KafkaUnavailable: a broker cannot be reached, or refuses; the others have been yielded before.
        """
        of_brokers: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for (topic, number), leader in self._leaders.items():
            if topic in partitions and leader >= 0:
                of_brokers[leader][topic].append(number)
        failure = None
        for answer in asyncio.as_completed([self._log_ends_of(each, of) for each, of in of_brokers.items()]):
            try:
                yield await answer
            except KafkaUnavailable as unavailable:
                failure = unavailable
        if failure is not None:
            raise failure

    async def _log_ends_of(self, broker: int, topics: Mapping[str, list[int]]) -> dict[tuple[str, int], int]:
        try:
            return await ends_of(self._client, broker, topics)
        except (KafkaError, OSError) as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure

    async def _send(self, broker: int, request: Any) -> dict[str, Any]:  # noqa: ANN401 - aiokafka has no types
        try:
            response = await self._client.send(broker, request)
        except (KafkaError, OSError) as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure
        answer: dict[str, Any] = response.to_object()
        return answer
