"""A mirror of a cluster whose brokers fail one after another has the rows of Kafka's log, each once."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.kafka_broker import KafkaUnavailable
from tests.support.kafka_cluster import BROKERS, KafkaCluster, running_cluster
from tests.support.kafka_log import create_topics
from tests.support.kafka_members import KafkaMember, kafka_members
from tests.support.mirror_process import running_mirror
from tests.support.mirrored_history import logged_history, read_log, stored_history
from tests.support.reported_history import assignments_without_rows, client_ids, commits_not_in_log
from tests.support.waiting import poll_until

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.timeout(1_800)]

TOPIC = "clustered-orders"
PARTITIONS = 4
GROUPS = [f"clustered-{number}" for number in range(2)]
PATIENT = {
    "session_timeout_ms": 60_000,
    "max_poll_interval_ms": 60_000,
    "partition_assignment_strategy": "roundrobin",
}
"""Of the members that stay. A rebalance waits for one that hangs until its next poll is due; by default PATIENCE_S."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Run a cluster that has had a group."""
    directory = tmp_path_factory.mktemp("cluster")
    try:
        with running_cluster(directory) as cluster:
            asyncio.run(create_topics(cluster.bootstrap, {TOPIC: PARTITIONS}, BROKERS))
            with kafka_members(directory, cluster.bootstrap) as members:
                members.join("aiokafka", "before", TOPIC, client_id="before").wait_until(owns(PARTITIONS))
            yield cluster
    except KafkaUnavailable as why:
        pytest.skip(str(why))


def owns(count: int) -> Callable[[KafkaMember], bool]:
    """Return the condition that a member owns so many partitions."""
    return lambda member: len(member.owned()) == count


def test_rows_are_those_of_the_log_while_its_leaders_are_killed(
    cluster: KafkaCluster, empty_database_url: str, tmp_path: Path
) -> None:
    with (
        running_mirror(cluster.bootstrap, empty_database_url, tmp_path) as (_, rows),
        kafka_members(tmp_path, cluster.bootstrap) as members,
    ):
        first = [members.join("confluent-kafka", each, TOPIC, client_id=f"{each}-first", **PATIENT) for each in GROUPS]
        for member in first:
            member.wait_until(owns(PARTITIONS))
        for node_id, broker in enumerate(cluster.brokers, start=1):
            cluster.wait_until_replicated()
            broker.kill()
            joined = [members.join("aiokafka", each, TOPIC, client_id=f"{each}-{node_id}") for each in GROUPS]
            for one, other in zip(first, joined, strict=True):
                other.wait_until(owns(PARTITIONS // 2))
                one.commit(10 * node_id, "first")
                other.commit(10 * node_id + 1, "other")
            poll_until(lambda node_id=node_id: not {-1, node_id} & set(cluster.leaders()))  # type: ignore[misc]
            broker.start()
            for member in joined:
                member.leave()
        for member in first:
            member.wait_until(owns(PARTITIONS))
            member.leave()

        seen = read_log(cluster.bootstrap, {})
        wanted = logged_history(seen, "clustered-")
        assert sorted(wanted) == GROUPS
        poll_until(lambda: stored_history(rows, "clustered-") == wanted)
        assert assignments_without_rows(members.events(), wanted, client_ids(rows)) == []
        assert commits_not_in_log(members.events(), seen) == []
