"""A mirror of a cluster that has partitions without a leader: those of its log, and of a topic."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.hashing import shard_of
from mirror.kafka_log import KafkaConnection
from mirror.kafka_topics import KafkaTopics
from tests.support.kafka_broker import KafkaUnavailable
from tests.support.kafka_cluster import BROKERS, REPLICATED, KafkaCluster, running_cluster
from tests.support.kafka_log import create_topics
from tests.support.mirror_process import PARTITIONS, running_mirror
from tests.support.waiting import poll_until

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.timeout(1_800)]

TOPIC = "partly-orders"
PROPERTIES = {**REPLICATED, "min.insync.replicas": "1", "offsets.topic.replication.factor": "1"}
GROUPS = {shard_of(group_id, PARTITIONS): group_id for group_id in (f"partly-{number}" for number in range(20))}
"""A group for each partition of the log."""


def test_groups_and_log_ends_of_partitions_with_a_leader_are_current(empty_database_url: str, tmp_path: Path) -> None:
    try:
        with running_cluster(tmp_path, PROPERTIES) as cluster:
            follow_through_an_outage(cluster, empty_database_url, tmp_path)
    except KafkaUnavailable as why:
        pytest.skip(str(why))


def follow_through_an_outage(cluster: KafkaCluster, database_url: str, directory: Path) -> None:
    asyncio.run(create_topics(cluster.bootstrap, {TOPIC: BROKERS}))
    for group_id in GROUPS.values():
        commit(cluster, group_id, 1)
    with running_mirror(cluster.bootstrap, database_url, directory) as (mirror, rows):
        poll_until(lambda: offsets(rows) == dict.fromkeys(GROUPS.values(), 1))
        victim = cluster.leaders()[0]
        lost = [partition for partition, leader in enumerate(cluster.leaders()) if leader == victim]
        named = f"({', '.join(map(str, lost))})"
        kept = [group_id for partition, group_id in GROUPS.items() if partition not in lost]
        ends = read_log_ends(cluster.bootstrap)
        cluster.brokers[victim - 1].kill()
        for offset in (2, 3):
            poll_until(lambda offset=offset: mirror.log_text().count(named) == offset - 1)  # type: ignore[misc]
            for group_id in kept:
                commit(cluster, group_id, offset)
            wanted = dict.fromkeys(GROUPS.values(), 1) | dict.fromkeys(kept, offset)
            poll_until(lambda wanted=wanted: offsets(rows) == wanted)  # type: ignore[misc]
            if offset == 2:
                mirror.kill()

        [without_leader] = [number for number, leader in enumerate(cluster.leaders(TOPIC)) if leader == -1]
        assert read_log_ends(cluster.bootstrap) == {number: 0 for number in ends if number != without_leader}

        cluster.brokers[victim - 1].start()
        for group_id in GROUPS.values():
            commit(cluster, group_id, 4)
        poll_until(lambda: offsets(rows) == dict.fromkeys(GROUPS.values(), 4))
        assert "mirrored_cluster_unreachable" not in mirror.log_text()


def commit(cluster: KafkaCluster, group_id: str, offset: int) -> None:
    """Let a group without members commit an offset."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group_id})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def offsets(rows: Connection) -> dict[str, int]:
    """Return the committed offsets of the groups."""
    with rows.cursor() as cursor:
        cursor.execute("SELECT group_id, committed_offset FROM offsets WHERE topic = %s", [TOPIC])
        return dict(cursor.fetchall())


def read_log_ends(bootstrap: str) -> dict[int, int]:
    """Return the log ends of the topic, by partition."""

    async def read() -> dict[int, int]:
        async with KafkaTopics(KafkaConnection(bootstrap_servers=bootstrap)) as topics:
            found = await topics.partitions([TOPIC])
            return {number: end async for ends in topics.log_ends(found) for (_, number), end in ends.items()}

    return asyncio.run(read())
