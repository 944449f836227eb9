"""Ends of logs with the records of open transactions, which aiokafka's consumer leaves out if it reads committed ones.

Source: `ListOffsetsRequest.json` and `ListOffsetsResponse.json` of Kafka's module clients.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from aiokafka import TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.client import AIOKafkaClient  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # comes without types
from aiokafka.protocol.offset import OffsetRequest  # type: ignore[import-untyped]  # comes without types

from mirror.topic_ids import NO_ERROR

LATEST: Final = -1
"""The time that stands for the end of a log."""
CONSUMER: Final = -1
"""The replica id of a request that is not of a broker."""
READ_UNCOMMITTED: Final = 0


async def ends_of(
    client: AIOKafkaClient, broker: int, topics: Mapping[str, Collection[int]]
) -> dict[tuple[str, int], int]:
    """Return the ends of the logs of partitions that a broker leads; those that it does not lead are left out.

    Raises:
        KafkaError: the broker cannot be reached, or refuses.
        OSError: the broker cannot be reached.
    """
    wanted = [(topic, [(number, LATEST) for number in numbers]) for topic, numbers in topics.items()]
    response = await client.send(broker, OffsetRequest(CONSUMER, READ_UNCOMMITTED, wanted))
    return {
        (each["topic"], one["partition"]): one["offset"]
        for each in response.to_object()["topics"]
        for one in each["partitions"]
        if one["error_code"] == NO_ERROR
    }


async def known_ends(client: AIOKafkaClient, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """Return the ends of the logs of a topic's partitions; those whose leaders do not answer are left out."""
    of_brokers: dict[int, list[int]] = defaultdict(list)
    for number in partitions:
        leader = client.cluster.leader_for_partition(TopicPartition(topic, number))
        if leader is not None and leader >= 0:
            of_brokers[leader].append(number)
    ends: dict[int, int] = {}
    answers = await asyncio.gather(
        *(ends_of(client, broker, {topic: numbers}) for broker, numbers in of_brokers.items()), return_exceptions=True
    )
    for answer in answers:
        if isinstance(answer, dict):
            ends.update({number: end for (_, number), end in answer.items()})
        elif not isinstance(answer, KafkaError | OSError):
            raise answer
    return ends
