"""Reader of a Kafka cluster's topics: how many partitions they have, and where their logs end."""

from collections.abc import Iterable, Mapping
from typing import Self

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # comes without types

from mirror.kafka_log import KafkaConnection, KafkaUnavailable, reason_of, stop_consumer
from mirror.topic_ids import NO_ERROR


class KafkaTopics:
    """A connection to a cluster."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._admin = AIOKafkaAdminClient(**connection.options())
        self._consumer = AIOKafkaConsumer(**connection.options(), enable_auto_commit=False)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        try:
            await self._admin.start()
            await self._consumer.start()
        except (KafkaError, OSError) as failure:
            await self.__aexit__()
            raise KafkaUnavailable(reason_of(failure)) from failure
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await stop_consumer(self._consumer)
        await self._admin.close()

    async def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each of these topics that exists.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        wanted = sorted(topics)
        try:
            described = await self._admin.describe_topics(wanted) if wanted else []
        except (KafkaError, OSError) as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure
        return {each["topic"]: len(each["partitions"]) for each in described if each["error_code"] == NO_ERROR}

    async def log_ends(self, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """Return the end of the log of each partition, records of open transactions included.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        wanted = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
        try:
            ends = await self._consumer.end_offsets(wanted) if wanted else {}
        except (KafkaError, OSError) as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure
        return {(partition.topic, partition.partition): end for partition, end in ends.items()}
