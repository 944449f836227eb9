"""What a real broker writes about a group is decoded as what its members were assigned and have committed."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]  # comes without types

from coordinator_core.protocol.consumer_protocol import TopicPartitions, partitions_of, topics_of
from mirror.observed import ObservedCommit, ObservedGroup
from mirror.offsets_topic import decode
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_log import create_topics, read_topic

TOPIC = "decoded-orders"
GROUP = "decoded-payments"


def test_a_member_and_its_commit_are_decoded(kafka: KafkaBroker) -> None:
    asyncio.run(_consume(kafka.bootstrap))

    seen = [decode(record.key, record.value) for record in asyncio.run(read_topic(kafka.bootstrap))]

    groups = [each for each in seen if isinstance(each, ObservedGroup) and each.group_id == GROUP]
    stable, empty = [group for group in groups if group.generation > 0]
    [member] = stable.members
    assert (stable.protocol_type, stable.generation, stable.protocol_name) == ("consumer", 1, "roundrobin")
    assert stable.leader_id == member.member_id
    assert (member.client_id, member.client_host) == ("decoded-client", "/127.0.0.1")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (6_000, 45_000)
    assert topics_of(member.subscription) == frozenset({TOPIC})
    assert partitions_of(member.assignment) == (TopicPartitions(TOPIC, (0, 1)),)
    assert (empty.generation, empty.members) == (2, ())
    [commit] = [each for each in seen if isinstance(each, ObservedCommit) and each.group_id == GROUP]
    assert (commit.topic, commit.partition, commit.offset, commit.metadata) == (TOPIC, 1, 1, "from a test")


async def _consume(bootstrap: str) -> None:
    """Let a member consume one record, commit, and leave."""
    await create_topics(bootstrap, {TOPIC: 2})
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(TOPIC, b"one", partition=1)
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        client_id="decoded-client",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=45_000,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        await consumer.getone()
        await consumer.commit({TopicPartition(TOPIC, 1): OffsetAndMetadata(1, "from a test")})
