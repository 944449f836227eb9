"""Offsets that producers commit in transactions are in the rows when the transaction is committed, and only then."""

import asyncio
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from mirror.kafka_log import KafkaConnection, KafkaLog, Lag
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_log import create_topics
from tests.support.kafka_members import KafkaMember, kafka_members
from tests.support.mirror_process import PARTITIONS, running_mirror
from tests.support.mirrored_history import GroupHistory, stored_history
from tests.support.waiting import limited, poll_until

TOPIC = "transactional-orders"
GROUP = "transactional-payments"


def test_offsets_of_transactions_are_stored_if_they_are_committed(
    kafka: KafkaBroker, empty_database_url: str, tmp_path: Path
) -> None:
    asyncio.run(create_topics(kafka.bootstrap, {TOPIC: 2}))
    with kafka_members(tmp_path, kafka.bootstrap) as members:
        members.join("aiokafka", f"before-{GROUP}", TOPIC, client_id="before").wait_until(KafkaMember.owned)
        with running_mirror(kafka.bootstrap, empty_database_url, tmp_path) as (_, rows):
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": GROUP})
            producer.init_transactions()
            of_group = group_metadata(kafka)
            for offset, partition in ((1, 0), (2, 0), (3, 1)):
                producer.begin_transaction()
                producer.send_offsets_to_transaction([TopicPartition(TOPIC, partition, offset)], of_group)
                producer.abort_transaction() if offset == 2 else producer.commit_transaction()

            def offsets() -> dict[int, int]:
                found = stored_history(rows, GROUP).get(GROUP, GroupHistory()).offsets
                return {partition: commit.offset for (_, partition), commit in found.items()}

            # The aborted one is before the last one in the log.
            poll_until(lambda: 1 in offsets())
            assert offsets() == {0: 1, 1: 3}


def test_what_an_open_transaction_hides_counts_as_lag(kafka: KafkaBroker, tmp_path: Path) -> None:
    asyncio.run(create_topics(kafka.bootstrap, {"hiding-orders": 1}))
    with kafka_members(tmp_path, kafka.bootstrap) as members:
        members.join("aiokafka", f"before-{GROUP}", "hiding-orders", client_id="before").wait_until(KafkaMember.owned)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"hiding-{GROUP}"})
    producer.init_transactions()

    async def lags() -> tuple[list[Lag], list[Lag]]:
        async with KafkaLog(KafkaConnection(bootstrap_servers=kafka.bootstrap)) as log:
            bounds = await log.bounds(range(PARTITIONS))
            log.assign({number: each.end for number, each in bounds.items()})
            producer.begin_transaction()
            producer.send_offsets_to_transaction([TopicPartition("hiding-orders", 0, 1)], group_metadata(kafka))
            hidden = await until_lag(log, 1)
            producer.commit_transaction()
            return hidden, await until_lag(log, 0)

    hidden, read = asyncio.run(lags())

    assert Lag(1, 0) in hidden
    assert read == [Lag(0, 0)] * PARTITIONS


async def until_lag(log: KafkaLog, offsets: int) -> list[Lag]:
    """Read until so many offsets of the log are left in all."""
    async with limited(f"{offsets} offsets are left"):
        while True:
            await log.poll(100)
            lags = list((await log.lag()).values())
            if len(lags) == PARTITIONS and sum(each.offsets for each in lags) == offsets:
                return lags


def group_metadata(kafka: KafkaBroker) -> Any:  # noqa: ANN401 - comes without a name
    """Return what a producer has to know of the group, which has no members."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": GROUP})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()
