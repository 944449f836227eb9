"""Recorder of `tests/data/offsets_topic`: what real clients do, what they report, and what Kafka writes about it.

    python -m scripts.record_offsets_topic [SCENARIO...]

A broker of its own is started, and stopped at the end. The files are

* `partition-N.jsonl`: the committed records of a partition of `__consumer_offsets`: offset, time, key and value;
* `clients.jsonl`: what the members reported, and what the operator did, in order of time;
* `topics.json`: the ids of the topics.
"""

import asyncio
import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.kafka_broker import (
    SMALL,
    KafkaBroker,
    KafkaUnavailable,
    fetch_jars,
    java_or_unavailable,
    running_kafka,
)
from tests.support.kafka_log import create_topics, read_topic, topic_ids_of
from tests.support.kafka_members import Event, KafkaMember, KafkaMembers, kafka_members
from tests.support.waiting import poll_until

DATA: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "offsets_topic"
TOPICS: Final = {"orders": 4, "refunds": 2}
QUICK_SESSION: Final = {"session_timeout_ms": 2_000, "heartbeat_interval_ms": 300}
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.migration.policy": "bidirectional",
}


class Recording:
    """The broker, its clients, and what the operator has done."""

    def __init__(self, directory: Path, broker: KafkaBroker, members: KafkaMembers) -> None:
        self.directory = directory
        self.bootstrap = broker.bootstrap
        self.members = members
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self.acts: list[Event] = []

    def note(self, event: str, group_id: str, **details: object) -> None:
        """Record what the operator has done."""
        now_ms = time.time_ns() // 1_000_000
        self.acts.append({"at_ms": now_ms, "library": "operator", "group_id": group_id, "event": event, **details})

    def join(self, library: str, group_id: str, number: int, **options: object) -> KafkaMember:
        """Start a member of a library, which subscribes to `orders` unless `topics` is among the options."""
        topics = str(options.pop("topics", "orders"))
        return self.members.join(library, group_id, topics, client_id=f"{group_id}-{number}", **options)

    def wait_until_empty(self, group_id: str) -> None:
        """Return when a group has no members."""

        def is_empty() -> bool:
            described = self.admin.describe_consumer_groups([group_id])[group_id].result()
            return bool(described.state is ConsumerGroupState.EMPTY)

        poll_until(is_empty)


def main() -> None:
    """Record all scenarios, or those that are named."""
    scenarios = {each.__name__: each for each in SCENARIOS}
    if unknown := [name for name in sys.argv[1:] if name not in scenarios]:
        sys.exit(f"There is no scenario {unknown[0]}; there are {', '.join(scenarios)}.")
    chosen = [each for name, each in scenarios.items() if name in (sys.argv[1:] or scenarios)]
    try:
        record(chosen)
    except KafkaUnavailable as missing:
        sys.exit(str(missing))


def record(scenarios: Iterable[Callable[[Recording], None]]) -> None:
    """Record scenarios with a broker of their own."""
    with tempfile.TemporaryDirectory(prefix="muster-offsets-topic-") as name:
        directory = Path(name)
        with (
            running_kafka(directory, PROPERTIES, features=["share.version=1"]) as broker,
            kafka_members(directory, broker.bootstrap) as members,
        ):
            asyncio.run(create_topics(broker.bootstrap, TOPICS))
            recording = Recording(directory, broker, members)
            produce(recording, 8)
            for scenario in scenarios:
                print(f"{scenario.__name__}: {(scenario.__doc__ or '').splitlines()[0]}")
                scenario(recording)
            write(recording)


def write(recording: Recording) -> None:
    """Write the files."""
    DATA.mkdir(parents=True, exist_ok=True)
    records = asyncio.run(read_topic(recording.bootstrap))
    for partition, some in groupby(records, lambda record: record.partition):
        lines = [
            {"offset": each.offset, "at_ms": each.appended_ms, "key": _base64(each.key), "value": _base64(each.value)}
            for each in some
        ]
        _write_lines(DATA / f"partition-{partition}.jsonl", lines)
    events = sorted([*recording.members.events(), *recording.acts], key=lambda event: event["at_ms"])
    _write_lines(DATA / "clients.jsonl", events)
    ids = {name: topic_id.hex for name, topic_id in topic_ids_of(recording.admin, list(TOPICS)).items()}
    (DATA / "topics.json").write_text(json.dumps(ids, indent=2, sort_keys=True) + "\n")


def produce(recording: Recording, count: int) -> None:
    """Produce records to each partition."""
    producer = Producer({"bootstrap.servers": recording.bootstrap})
    for topic, partitions in TOPICS.items():
        for partition in range(partitions):
            for number in range(count):
                producer.produce(topic, f"record {number}", partition=partition)
    producer.flush()


# -- scenarios -------------------------------------------------------------------------------------------------


def join_leave_crash(recording: Recording) -> None:
    """Two members join, one commits, one is killed and expires, one leaves: with each library."""
    for library in ("kafka-python", "aiokafka", "confluent-kafka"):
        group_id = f"crash-{library}"
        first = recording.join(library, group_id, 1, **QUICK_SESSION)
        first.wait_until(owns(4))
        second = recording.join(library, group_id, 2, **QUICK_SESSION)
        first.wait_until(owns(2))
        second.wait_until(owns(2))
        first.commit(3, "first")
        second.kill()
        recording.note("killed", group_id, client_id=f"{group_id}-2")
        first.wait_until(owns(4))
        first.commit(4, "second")
        first.leave()


def java_consumers(recording: Recording) -> None:
    """Kafka's own consumer commits what it consumes; a second member joins and is killed."""
    group_id = "java-classic"
    arguments = ["--session-timeout", "4000", "--reset-policy", "earliest"]
    first = recording.members.join_java(group_id, "orders", f"{group_id}-1", *arguments)
    first.wait_until(has_committed)
    second = recording.members.join_java(group_id, "orders", f"{group_id}-2", *arguments)
    second.wait_until(owns(2))
    first.wait_until(owns(2))
    second.kill()
    recording.note("killed", group_id, client_id=f"{group_id}-2")
    first.wait_until(owns(4))
    first.leave()


def cooperative(recording: Recording) -> None:
    """Members of a cooperative assignor need two rebalances to give partitions to a new one."""
    group_id = "cooperative"
    options = {"partition_assignment_strategy": "cooperative-sticky", **QUICK_SESSION}
    first = recording.join("confluent-kafka", group_id, 1, **options)
    first.wait_until(owns(4))
    second = recording.join("confluent-kafka", group_id, 2, **options)
    second.wait_until(owns(2))
    first.wait_until(owns(2))
    second.leave()
    first.wait_until(owns(4))
    first.leave()


def static_member(recording: Recording) -> None:
    """A static member ends without leaving, and comes back under a new member id without a rebalance."""
    group_id = "static"
    options = {"group_instance_id": "host-1", "session_timeout_ms": 10_000}
    for _ in range(2):
        member = recording.join("confluent-kafka", group_id, 1, **options)
        member.wait_until(owns(4))
        member.leave()
    recording.note("expires", group_id, client_id=f"{group_id}-1")
    recording.wait_until_empty(group_id)


def transactions(recording: Recording) -> None:
    """A producer commits offsets of a group in one transaction that is committed and one that is aborted."""
    group_id = "transactional"
    member = recording.join("kafka-python", group_id, 1, **QUICK_SESSION)
    member.wait_until(owns(4))
    producer = Producer({"bootstrap.servers": recording.bootstrap, "transactional.id": "a-producer"})
    producer.init_transactions()
    # Of a group of one member, which is not asked for its metadata: the producer is in no generation.
    of_group = _group_metadata(recording, group_id)
    for offset, event in ((1, "committed"), (2, "aborted"), (3, "committed")):
        producer.begin_transaction()
        producer.produce("refunds", f"refund {offset}")
        producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], of_group)
        if event == "committed":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        recording.note(event, group_id, partitions=[["orders", 0]], offset=offset, metadata="")
    member.leave()


def consumer_protocol(recording: Recording) -> None:
    """Members of the consumer protocol join, one with a regular expression; one leaves, one is killed."""
    group_id = "consumer-protocol"
    options = {"group_protocol": "consumer"}
    first = recording.join("confluent-kafka", group_id, 1, **options)
    first.wait_until(owns(4))
    second = recording.join("confluent-kafka", group_id, 2, topics="^(orders|refu.*)$", **options)
    wait_until_shared(6, first, second)
    first.commit(5, "consumer")
    third = recording.join("confluent-kafka", group_id, 3, group_remote_assignor="range", **options)
    wait_until_shared(6, first, second, third)
    third.leave()
    second.kill()
    recording.note("killed", group_id, client_id=f"{group_id}-2")
    first.wait_until(owns(4))
    first.leave()


def consumer_protocol_of_java(recording: Recording) -> None:
    """Java's members of the consumer protocol prefer an assignor; a static one comes back under a new id."""
    group_id = "consumer-protocol-java"
    arguments = ["--group-protocol", "consumer", "--group-remote-assignor", "range", "--reset-policy", "earliest"]
    first = recording.members.join_java(group_id, "orders", f"{group_id}-1", *arguments)
    first.wait_until(has_committed)
    static = [*arguments, "--group-instance-id", "host-2"]
    for _ in range(2):
        second = recording.members.join_java(group_id, "orders", f"{group_id}-2", *static)
        second.wait_until(owns(2))
        first.wait_until(owns(2))
        second.leave()
    recording.note("expires", group_id, client_id=f"{group_id}-2")
    first.wait_until(owns(4))
    first.leave()


def conversion(recording: Recording) -> None:
    """A group of the classic protocol is converted when a member of the consumer protocol joins, and back."""
    group_id = "converted"
    classic = recording.join("confluent-kafka", group_id, 1, partition_assignment_strategy="range")
    classic.wait_until(owns(4))
    recording.note("converted", group_id, to="consumer")
    consumer = recording.join("confluent-kafka", group_id, 2, group_protocol="consumer")
    consumer.wait_until(owns(2))
    classic.wait_until(owns(2))
    recording.note("converted", group_id, to="classic")
    consumer.leave()
    classic.wait_until(owns(4))
    classic.leave()
    # Empty, it is converted without being asked: it begins again.
    again = recording.join("confluent-kafka", group_id, 3, group_protocol="consumer")
    again.wait_until(owns(4))
    again.leave()


def simple_commits(recording: Recording) -> None:
    """Offsets are committed for a group that never had a member."""
    group_id = "simple"
    offsets = [TopicPartition("orders", partition, 7, "by hand") for partition in range(2)]
    recording.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id, offsets)])[group_id].result()
    partitions = [["orders", 0], ["orders", 1]]
    recording.note("committed", group_id, partitions=partitions, offset=7, metadata="by hand")


def share_group(recording: Recording) -> None:
    """A share group has a member, which leaves."""
    group_id = "share"
    tool = _java_tool(recording, "org.apache.kafka.tools.consumer.ConsoleShareConsumer")
    arguments = ["--bootstrap-server", recording.bootstrap, "--topic", "orders", "--group", group_id]
    subprocess.run([*tool, *arguments, "--timeout-ms", "4000"], check=True, capture_output=True, timeout=120)
    recording.note("left", group_id, partitions=[])


def deletions(recording: Recording) -> None:
    """An operator deletes an offset, then groups."""
    tool = _java_tool(recording, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand")
    group_id = "simple"
    arguments = ["--bootstrap-server", recording.bootstrap, "--group", group_id, "--topic", "orders:1"]
    subprocess.run([*tool, *arguments, "--delete-offsets"], check=True, capture_output=True, timeout=120)
    recording.note("offsets_deleted", group_id, partitions=[["orders", 1]])
    for group_id in ("simple", "cooperative", "consumer-protocol"):
        recording.wait_until_empty(group_id)
        recording.admin.delete_consumer_groups([group_id])[group_id].result()
        recording.note("group_deleted", group_id)


SCENARIOS: Final[tuple[Callable[[Recording], None], ...]] = (
    join_leave_crash,
    java_consumers,
    cooperative,
    static_member,
    transactions,
    consumer_protocol,
    consumer_protocol_of_java,
    conversion,
    simple_commits,
    share_group,
    deletions,
)


# -- helpers ---------------------------------------------------------------------------------------------------


def owns(count: int) -> Callable[[KafkaMember], bool]:
    """Return the condition that a member owns so many partitions."""
    return lambda member: len(member.owned()) == count


def wait_until_shared(count: int, *members: KafkaMember) -> None:
    """Return when members own so many partitions together, and each at least one."""
    poll_until(lambda: all(each.owned() for each in members) and sum(len(each.owned()) for each in members) == count)


def has_committed(member: KafkaMember) -> bool:
    """Return whether a member has committed an offset."""
    return any(event["event"] == "committed" for event in member.events())


def _group_metadata(recording: Recording, group_id: str) -> Any:  # noqa: ANN401 - comes without a name
    from confluent_kafka import Consumer  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": recording.bootstrap, "group.id": group_id})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def _java_tool(recording: Recording, name: str) -> list[str]:
    java = java_or_unavailable(recording.directory)
    return [java, *SMALL, "-cp", f"{fetch_jars(java, artifact='kafka-tools')}/*", name]


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _write_lines(file: Path, lines: Iterable[Event]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
