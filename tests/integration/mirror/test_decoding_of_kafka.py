"""What a real broker writes about a group is decoded as the assignments of its members and what they committed."""

import asyncio
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]  # comes without types
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from coordinator_core.protocol.consumer_protocol import TopicPartitions, partitions_of, topics_of
from mirror.consumer_groups import ConsumerGroups
from mirror.group_records import GroupRecord
from mirror.observed import ObservedCommit, ObservedGroup
from mirror.offsets_topic import decode
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_log import create_topics, read_topic, topic_ids_of
from tests.support.kafka_members import kafka_members
from tests.support.waiting import poll_until

TOPIC = "decoded-orders"
GROUP = "decoded-payments"
Row = tuple[str | None, str, str, str, int]
"""The assignor, the member id, the client id, and one partition."""


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


def test_a_consumer_group_is_as_the_broker_describes_it(kafka: KafkaBroker, tmp_path: Path) -> None:
    asyncio.run(create_topics(kafka.bootstrap, {"described-orders": 4}))
    with kafka_members(tmp_path, kafka.bootstrap) as members:
        for number in (1, 2):
            client = {"client_id": f"described-{number}", "group_protocol": "consumer"}
            members.join("confluent-kafka", "described", "described-orders", **client)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

        def stable_members() -> set[Row]:
            group = admin.describe_consumer_groups(["described"])["described"].result()
            is_stable = group.state is ConsumerGroupState.STABLE and len(group.members) == 2
            return {
                (group.partition_assignor, member.member_id, member.client_id, each.topic, each.partition)
                for member in group.members
                for each in member.assignment.topic_partitions
                if is_stable
            }

        described = poll_until(stable_members)
        topic_ids = topic_ids_of(admin, ["described-orders"])
        groups = ConsumerGroups({topic_id: name for name, topic_id in topic_ids.items()}.get)
        for record in asyncio.run(read_topic(kafka.bootstrap)):
            said = decode(record.key, record.value)
            if isinstance(said, GroupRecord) and said.group_id == "described":
                groups.apply(said, record.appended_ms)

    [group] = groups.current("described")
    assert isinstance(group, ObservedGroup)
    assert groups.state("described") == "Stable"
    assert described == {
        (group.protocol_name, member.member_id, member.client_id, topic, partition)
        for member in group.members
        for topic, partitions in partitions_of(member.assignment) or ()
        for partition in partitions
    }
