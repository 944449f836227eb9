"""Reader of a topic of a Kafka broker from its beginning to its end."""

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # comes without types
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tests.support.waiting import POLL_S, limited

OFFSETS_TOPIC = "__consumer_offsets"


class LogRecord(NamedTuple):
    """One record of a topic."""

    partition: int
    offset: int
    appended_ms: int
    key: bytes | None
    value: bytes | None


async def create_topics(bootstrap: str, partitions: dict[str, int], replicas: int = 1) -> None:
    """Create topics with a number of partitions each."""
    async with admin_client(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, count, replicas) for name, count in partitions.items()])


async def read_topic(bootstrap: str, topic: str = OFFSETS_TOPIC) -> list[LogRecord]:
    """Return the committed records of a topic, partition after partition."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        records: list[LogRecord] = []
        for number in await _partitions(bootstrap, topic):
            records += await _read_partition(consumer, TopicPartition(topic, number))
        return records
    finally:
        await consumer.stop()


def topic_ids_of(admin: AdminClient, topics: Sequence[str]) -> dict[str, UUID]:
    """Return the ids of topics."""
    described = admin.describe_topics(TopicCollection(list(topics)))
    return {topic: _uuid(future.result().topic_id) for topic, future in described.items()}


@asynccontextmanager
async def admin_client(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connect an admin client for the time of a block, to a cluster whose controller has admitted a broker."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        async with limited("a broker is admitted to the cluster"):
            while not (await admin.describe_cluster())["brokers"]:  # noqa: ASYNC110  # there is no notification
                await asyncio.sleep(POLL_S)
        yield admin
    finally:
        await admin.close()


def _uuid(topic_id: Any) -> UUID:  # noqa: ANN401 - its methods come without types
    halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    return UUID(bytes=struct.pack(">qq", *halves))


async def _partitions(bootstrap: str, topic: str) -> list[int]:
    async with admin_client(bootstrap) as admin:
        [description] = await admin.describe_topics([topic])
    return sorted(partition["partition"] for partition in description["partitions"])


async def _read_partition(consumer: AIOKafkaConsumer, partition: TopicPartition) -> list[LogRecord]:
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    end = (await consumer.end_offsets([partition]))[partition]
    records: list[LogRecord] = []
    while await consumer.position(partition) < end:
        found = (await consumer.getmany(partition, timeout_ms=1000)).get(partition, [])
        records += [LogRecord(each.partition, each.offset, each.timestamp, each.key, each.value) for each in found]
    return records
