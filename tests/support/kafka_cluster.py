"""A Kafka cluster of several brokers, of which one may be away: topics of Kafka's own have three replicas."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import PartitionMetadata

from tests.support.kafka_broker import QUICK, SMALL, KafkaBroker
from tests.support.kafka_log import OFFSETS_TOPIC
from tests.support.ports import free_ports
from tests.support.waiting import poll_until

BROKERS: Final = 3
METADATA_TIMEOUT_S: Final = 120.0
HEAP: Final = ("-Xmx384m",)
REPLICATED: Final = {
    **QUICK,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "log.cleaner.dedupe.buffer.size": "16777216",
}
"""Properties for tests: others take over from a broker that was killed after some seconds."""


class KafkaCluster:
    """Brokers, each with its data in a directory; one of them may be killed and started again."""

    def __init__(self, directory: Path, properties: Mapping[str, str] = REPLICATED) -> None:
        """Prepare the data of all brokers; they are not started.

        Raises:
            KafkaUnavailable: they cannot be had.
        """
        ports = free_ports(3 * BROKERS)  # at once: they have to differ
        self.brokers: Final = [
            KafkaBroker(
                _made(directory / f"broker-{node_id}"),
                properties,
                (*SMALL, *HEAP),
                node_id=node_id,
                ports=[*ports[2 * node_id - 2 : 2 * node_id], *ports[2 * BROKERS :]],
            )
            for node_id in range(1, BROKERS + 1)
        ]
        self.bootstrap: Final = ",".join(broker.bootstrap for broker in self.brokers)

    def start(self) -> None:
        """Start all brokers, and return when they accept connections."""
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_until_started()

    def stop(self) -> None:
        """Stop the brokers that run."""
        for broker in self.brokers:
            broker.stop()

    def leaders(self, topic: str = OFFSETS_TOPIC) -> list[int]:
        """Return the node ids of the leaders of a topic's partitions, in order; -1: there is none now."""
        return [each.leader for each in self.partitions(topic)]

    def partitions(self, topic: str = OFFSETS_TOPIC) -> list[PartitionMetadata]:
        """Return the partitions of a topic in order, with their leader, replicas and those in sync."""
        partitions = self.admin().list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic].partitions
        return [partitions[number] for number in sorted(partitions)]

    def admin(self) -> AdminClient:
        """Return a client of this moment's brokers."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def wait_until_replicated(self) -> None:
        """Return when every replica of each partition is in sync, so that any broker may fail."""
        admin = self.admin()

        def is_replicated() -> bool:
            topics = admin.list_topics(timeout=METADATA_TIMEOUT_S).topics.values()
            return all(len(each.isrs) == len(each.replicas) for topic in topics for each in topic.partitions.values())

        poll_until(is_replicated)


@contextmanager
def running_cluster(directory: Path, properties: Mapping[str, str] = REPLICATED) -> Iterator[KafkaCluster]:
    """Run a cluster until the block ends.

    Raises:
        KafkaUnavailable: it cannot be had.
    """
    cluster = KafkaCluster(directory, properties)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
