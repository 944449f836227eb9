"""A mirror of a Kafka whose topics are deleted or created again: it changes none of them."""

import asyncio
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_cluster import METADATA_TIMEOUT_S
from tests.support.kafka_log import create_topics
from tests.support.mirror_process import running_mirror
from tests.support.waiting import poll_until

TOPIC = "deleted-orders"
KEPT = "kept-orders"
GROUP = "deleted-payments"


def test_deleted_topic_is_forgotten_and_not_created_and_a_new_one_has_its_own_log_ends(
    kafka: KafkaBroker, empty_database_url: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    asyncio.run(create_topics(kafka.bootstrap, {TOPIC: 1, KEPT: 1}))
    produce(kafka, TOPIC, 100)
    for topic in (TOPIC, KEPT):
        commit(kafka, topic, 50)
    with running_mirror(kafka.bootstrap, empty_database_url, tmp_path) as (_, rows):
        poll_until(lambda: log_ends(rows) == {TOPIC: 100, KEPT: 0})
        admin.delete_topics([TOPIC])[TOPIC].result()
        poll_until(lambda: committed(rows) == {KEPT: 50})
        for end in (1, 2):
            produce(kafka, KEPT, 1)
            poll_until(lambda end=end: log_ends(rows)[KEPT] == end)  # type: ignore[misc]  # a poll came after it
        poll_until(lambda: partition_counts(rows) == {KEPT: 1})
        assert TOPIC not in admin.list_topics(timeout=METADATA_TIMEOUT_S).topics

        asyncio.run(create_topics(kafka.bootstrap, {TOPIC: 1}))
        produce(kafka, TOPIC, 10)
        commit(kafka, TOPIC, 4)
        poll_until(lambda: committed(rows) == {TOPIC: 4, KEPT: 50})
        poll_until(lambda: log_ends(rows) == {TOPIC: 10, KEPT: 2})


def produce(kafka: KafkaBroker, topic: str, records: int) -> None:
    """Add records to a topic of one partition."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for _ in range(records):
        producer.produce(topic, b"one")
    assert producer.flush(METADATA_TIMEOUT_S) == 0


def commit(kafka: KafkaBroker, topic: str, offset: int) -> None:
    """Let a group without members commit an offset."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def log_ends(rows: Connection) -> dict[str, int]:
    return read(rows, "SELECT topic, log_end_offset FROM log_end_offsets WHERE topic = ANY(%s)")


def partition_counts(rows: Connection) -> dict[str, int]:
    return read(rows, "SELECT topic, partitions FROM topics WHERE topic = ANY(%s)")


def committed(rows: Connection) -> dict[str, int]:
    return read(rows, "SELECT topic, committed_offset FROM offsets WHERE topic = ANY(%s)")


def read(rows: Connection, question: str) -> dict[str, int]:
    with rows.cursor() as cursor:
        cursor.execute(question, ([TOPIC, KEPT],))
        return dict(cursor.fetchall())
