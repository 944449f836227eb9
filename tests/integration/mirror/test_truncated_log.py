"""A mirror follows a log that an unclean election has truncated: what was lost is removed, and what comes is stored."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from tests.support.kafka_broker import KafkaUnavailable
from tests.support.kafka_cluster import REPLICATED, KafkaCluster, running_cluster
from tests.support.kafka_log import OFFSETS_TOPIC, create_topics
from tests.support.kafka_members import KafkaMember, KafkaMembers, kafka_members
from tests.support.mirror_process import running_mirror
from tests.support.mirrored_history import Generation, stored_history
from tests.support.waiting import PATIENCE_S, poll_until

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.timeout(1_800)]

ELECTION_S = 30
"""Limit of one request for an election, which is repeated."""
TOPIC = "truncated-orders"
KEPT, LOST = "truncated-kept", "truncated-lost"
PROPERTIES = {
    **REPLICATED,
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "unclean.leader.election.enable": "true",
}
"""The log has two replicas, of which one may be behind; the third broker is for the quorum of controllers."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    """Run a cluster that has had a group."""
    try:
        with running_cluster(tmp_path, PROPERTIES) as cluster:
            asyncio.run(create_topics(cluster.bootstrap, {TOPIC: 2}, 3))
            with kafka_members(tmp_path, cluster.bootstrap) as members:
                members.join("aiokafka", "before", TOPIC, client_id="before").wait_until(KafkaMember.owned)
            yield cluster
    except KafkaUnavailable as why:
        pytest.skip(str(why))


def test_groups_and_offsets_that_the_log_has_lost_are_removed(
    cluster: KafkaCluster, empty_database_url: str, tmp_path: Path
) -> None:
    with (
        running_mirror(cluster.bootstrap, empty_database_url, tmp_path, partitions=1) as (_, rows),
        kafka_members(tmp_path, cluster.bootstrap) as members,
    ):
        kept = join(members, KEPT)
        kept.commit(1, "kept")
        cluster.wait_until_replicated()
        [partition] = cluster.partitions()
        [behind_id] = set(partition.replicas) - {partition.leader}
        leader, behind = cluster.brokers[partition.leader - 1], cluster.brokers[behind_id - 1]
        behind.kill()
        poll_until(lambda: cluster.partitions()[0].isrs == [partition.leader])
        kept.commit(2, "lost")
        lost = join(members, LOST)
        lost.commit(5, "lost")
        lost.kill()
        poll_until(lambda: offsets(rows) == {KEPT: {2}, LOST: {5}})

        leader.kill()
        behind.start()
        elect(cluster, behind_id)
        leader.start()
        poll_until(lambda: offsets(rows) == {KEPT: {1}})
        kept.commit(3, "found")
        join(members, KEPT)

        poll_until(lambda: offsets(rows) == {KEPT: {3}})
        poll_until(lambda: len(generations(rows)) == 2)
        assert [len(generation.members) for generation in generations(rows)] == [1, 2]
        assert existing(rows) == [KEPT]


def join(members: KafkaMembers, group_id: str) -> KafkaMember:
    """Start a member, and return when it owns partitions."""
    options = {"session_timeout_ms": 300_000, "partition_assignment_strategy": "range"}
    member = members.join("confluent-kafka", group_id, TOPIC, client_id=group_id, **options)
    member.wait_until(KafkaMember.owned)
    return member


def elect(cluster: KafkaCluster, node_id: int) -> None:
    """Request unclean elections of the log's leader until it is this broker."""
    # librdkafka drops the requests of a client that is gone. This request takes no timeout but the client's.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "socket.timeout.ms": 1_000 * ELECTION_S})
    deadline_s = time.monotonic() + PATIENCE_S

    def is_elected() -> bool:
        assert time.monotonic() < deadline_s, "the elections take too long"
        request = admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(OFFSETS_TOPIC, 0)])
        with suppress(KafkaException, TimeoutError):  # The controllers have none yet that could be elected.
            request.result(2 * ELECTION_S)
        return cluster.leaders() == [node_id]

    poll_until(is_elected)


def offsets(rows: Connection) -> dict[str, set[int]]:
    """Return the committed offsets of each group that has some."""
    groups = stored_history(rows, "truncated-").items()
    return {group_id: {each.offset for each in group.offsets.values()} for group_id, group in groups if group.offsets}


def generations(rows: Connection) -> list[Generation]:
    return stored_history(rows, KEPT)[KEPT].generations


def existing(rows: Connection) -> list[str]:
    """Return the groups that exist."""
    with rows.cursor() as cursor:
        cursor.execute("SELECT group_id FROM groups WHERE starts_with(group_id, 'truncated-')")
        return [group_id for (group_id,) in cursor]
