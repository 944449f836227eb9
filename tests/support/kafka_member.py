"""A member of a Kafka group, of one of four client libraries: commands come on its input, events go to its output.

    python -m tests.support.kafka_member LIBRARY BOOTSTRAP GROUP TOPICS OPTIONS

LIBRARY is kafka-python, aiokafka, confluent-kafka or kafka-clients (Java's, called by Py4J), or an older version of
one, such as kafka-python==2.0.2; TOPICS are separated by commas, or one regular expression that begins with ^; OPTIONS
are the library's own, as JSON. Commands are lines:

    commit OFFSET METADATA    commit this offset of each assigned partition
    read                      ask the coordinator for the committed offset of each assigned partition
    leave                     close the consumer and end

Events are JSON objects, one a line, with the time in milliseconds: what the library reports of assignments and
committed offsets.
"""

import asyncio
import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from tests.support.kafka_broker import SMALL, VERSION, fetch_jars, java_or_unavailable
from tests.support.python_packages import fetch_package
from tests.support.waiting import PATIENCE_S

POLL_S: Final = 0.1
STARTING_TIMEOUTS: Final = {"api_version_auto_timeout_ms", "bootstrap_timeout_ms"}
"""Options of kafka-python's releases: how soon the first look at a cluster is given up."""
OLD_PACKAGES: Final = ("kafka-python==2.0.2", "kafka-python==2.3.0", "aiokafka==0.12.0", "confluent-kafka==2.0.2")
OLD_JAVA_VERSION: Final = "1.1.1"
Options = dict[str, Any]


class Member(Protocol):
    """A consumer of one library."""

    error: type[Exception]
    """What a commit or a read raises that is refused."""

    def poll(self) -> None:
        """Let the library work for a moment."""

    def commit(self, offset: int, metadata: str) -> None:
        """Commit an offset of each assigned partition."""

    def committed(self) -> Mapping[tuple[str, int], int]:
        """Return the committed offset of each assigned partition, as the coordinator knows it."""

    def close(self) -> None:
        """Leave the group, as the library does on close."""


def main() -> None:
    """Run a member until it leaves."""
    library, bootstrap, group_id, topics, options = sys.argv[1:]
    if library in OLD_PACKAGES:
        sys.path.insert(0, str(fetch_package(library)))
    member = MEMBERS[library](bootstrap, group_id, topics.split(","), json.loads(options))
    commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    while True:
        member.poll()
        while not commands.empty():
            match commands.get():
                case ["commit", offset, metadata]:
                    _commit(member, int(offset), metadata)
                case ["read"]:
                    _read(member)
                case _:
                    member.close()
                    report("left")
                    return


def _commit(member: Member, offset: int, metadata: str) -> None:
    try:
        member.commit(offset, metadata)
    except member.error as failure:
        report("commit_failed", offset=offset, reason=str(failure))


def _read(member: Member) -> None:
    try:
        offsets = sorted(member.committed().items())
    except member.error as failure:
        report("read_failed", reason=str(failure))
    else:
        report("read", [each for each, _ in offsets], offsets=[offset for _, offset in offsets])


def report(name: str, partitions: Iterable[tuple[str, int]] = (), **details: object) -> None:
    """Write an event."""
    pairs = [list(pair) for pair in sorted(partitions)]
    event = {"at_ms": time.time_ns() // 1_000_000, "event": name, "partitions": pairs, **details}
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _read_commands(commands: queue.SimpleQueue[list[str]]) -> None:
    for line in sys.stdin:
        commands.put(line.split())
    os._exit(1)  # Whatever started the process has ended.


# -- libraries -------------------------------------------------------------------------------------------------


class KafkaPythonMember:
    """A consumer of kafka-python."""

    def __init__(self, bootstrap: str, group_id: str, topics: Sequence[str], options: Options) -> None:
        kafka = import_module("kafka")
        member = self

        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc,name-defined]  # comes without types
            def on_partitions_revoked(self, revoked: Iterable[tuple[str, int]]) -> None:
                report("revoked", revoked)

            def on_partitions_assigned(self, assigned: Iterable[tuple[str, int]]) -> None:
                del assigned  # With cooperative assignors only the new ones.
                member.is_assigned = True

        self.is_assigned = False
        self.error = import_module("kafka.errors").KafkaError
        self._types = kafka
        patience = dict.fromkeys(STARTING_TIMEOUTS & kafka.KafkaConsumer.DEFAULT_CONFIG.keys(), PATIENCE_S * 1_000)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group_id, enable_auto_commit=False, **patience, **options
        )
        self._consumer.subscribe(topics, listener=Listener())
        # Reads the metadata. A leader of kafka-python 3.0.12 that learns of partitions between two generations rejoins,
        # and if its poll ends between the two responses, it forgets the assignment and its heartbeats.
        self._read_topics()

    def _read_topics(self) -> None:
        while True:
            try:
                self._consumer.topics()
            except self.error as failure:  # It may have asked a node that has just stopped, and does not ask another.
                if not failure.retriable:
                    raise
            else:
                return

    def poll(self) -> None:
        try:
            self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        except self.error as failure:  # Version 3.0 asks a node that has just stopped for its coordinator.
            if not failure.retriable:
                raise
        if self.is_assigned:
            self.is_assigned = False
            # Version 2.0.2 has no public name for the generation.
            known = getattr(self._consumer, "group_metadata", self._consumer._coordinator.generation)()
            report("assigned", self._assignment(), member_id=known.member_id, generation=known.generation_id)

    def commit(self, offset: int, metadata: str) -> None:
        fields = (offset, metadata, -1)[: len(self._types.OffsetAndMetadata._fields)]  # Version 2.0.2 has no epoch.
        offsets = self._types.OffsetAndMetadata(*fields)
        partitions = self._assignment()
        self._consumer.commit({self._types.TopicPartition(*each): offsets for each in partitions})
        report("committed", partitions, offset=offset, metadata=metadata)

    def committed(self) -> Mapping[tuple[str, int], int]:
        return {each: self._consumer.committed(self._types.TopicPartition(*each)) for each in self._assignment()}

    def close(self) -> None:
        self._consumer.close()

    def _assignment(self) -> list[tuple[str, int]]:
        return [(each.topic, each.partition) for each in self._consumer.assignment()]


class AioKafkaMember:
    """A consumer of aiokafka, whose event loop runs while it is polled."""

    def __init__(self, bootstrap: str, group_id: str, topics: Sequence[str], options: Options) -> None:
        self._types = aiokafka = import_module("aiokafka")
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc,name-defined]  # comes without types
            async def on_partitions_revoked(self, revoked: Iterable[tuple[str, int]]) -> None:
                report("revoked", revoked)

            async def on_partitions_assigned(self, assigned: Iterable[tuple[str, int]]) -> None:
                # The library has no public name for these two.
                known = member.consumer._coordinator
                report("assigned", assigned, member_id=known.member_id, generation=known.generation)

        self.error = import_module("aiokafka.errors").KafkaError
        self._runner = asyncio.Runner()
        self._runner.run(self._start(bootstrap, group_id, options))
        self.consumer.subscribe(topics, listener=Listener())

    async def _start(self, bootstrap: str, group_id: str, options: Options) -> None:
        files = {name: options.pop(f"ssl_{name}", None) for name in ("cafile", "certfile")}
        if files["cafile"]:
            options["ssl_context"] = import_module("aiokafka.helpers").create_ssl_context(**files)
        self.consumer = self._types.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group_id, enable_auto_commit=False, **options
        )
        await self.consumer.start()

    def poll(self) -> None:
        self._runner.run(self.consumer.getmany(timeout_ms=int(POLL_S * 1000)))

    def commit(self, offset: int, metadata: str) -> None:
        partitions = self.consumer.assignment()
        self._runner.run(self.consumer.commit(dict.fromkeys(partitions, (offset, metadata))))
        report("committed", partitions, offset=offset, metadata=metadata)

    def committed(self) -> Mapping[tuple[str, int], int]:
        return {each: self._runner.run(self.consumer.committed(each)) for each in self.consumer.assignment()}

    def close(self) -> None:
        self._runner.run(self.consumer.stop())


class ConfluentMember:
    """A consumer of confluent-kafka, which has no name for the generation."""

    def __init__(self, bootstrap: str, group_id: str, topics: Sequence[str], options: Options) -> None:
        self._types = confluent_kafka = import_module("confluent_kafka")
        settings = {"bootstrap.servers": bootstrap, "group.id": group_id, "enable.auto.commit": False, **options}
        self.error = confluent_kafka.KafkaException
        self._consumer = confluent_kafka.Consumer(settings)
        self._owned: set[tuple[str, int]] = set()
        self._consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    def poll(self) -> None:
        self._consumer.poll(POLL_S)

    def commit(self, offset: int, metadata: str) -> None:
        offsets = [self._types.TopicPartition(*each, offset, metadata) for each in sorted(self._owned)]
        self._consumer.commit(offsets=offsets, asynchronous=False)
        report("committed", self._owned, offset=offset, metadata=metadata)

    def committed(self) -> Mapping[tuple[str, int], int]:
        partitions = self._consumer.committed([self._types.TopicPartition(*each) for each in self._owned])
        return {(each.topic, each.partition): each.offset for each in partitions}

    def close(self) -> None:
        self._consumer.close()

    def _on_assign(self, _: object, partitions: Iterable[Any]) -> None:
        self._owned |= {(each.topic, each.partition) for each in partitions}
        report("assigned", self._owned, member_id=self._consumer.memberid())

    def _on_revoke(self, _: object, partitions: Iterable[Any]) -> None:
        revoked = {(each.topic, each.partition) for each in partitions}
        self._owned -= revoked
        report("revoked", revoked)


class JavaMember:
    """A consumer of Kafka's own library, in a Java process that ends with this one; its thread is that of the calls."""

    ARTIFACT, VERSION = "kafka-tools", VERSION

    def __init__(self, bootstrap: str, group_id: str, topics: Sequence[str], options: Options) -> None:
        py4j = import_module("py4j.java_gateway")
        self.error = import_module("py4j.protocol").Py4JJavaError
        java = java_or_unavailable(Path(tempfile.mkdtemp()))
        (bridge,) = Path(import_module("pyspark").__path__[0]).glob("jars/py4j-*.jar")
        jars = f"{fetch_jars(java, artifact=self.ARTIFACT, version=self.VERSION)}/*"
        port = py4j.launch_gateway(
            jarpath=str(bridge), classpath=jars, java_path=java, javaopts=[*SMALL], die_on_exit=True
        )
        self._java = py4j.JavaGateway(gateway_parameters=py4j.GatewayParameters(port=port)).jvm
        properties = self._java.java.util.Properties()
        own = {"bootstrap.servers": bootstrap, "group.id": group_id, "enable.auto.commit": "false"}
        for name, value in {**own, **options}.items():
            properties.setProperty(name, str(value))
        deserializer = self._java.org.apache.kafka.common.serialization.ByteArrayDeserializer
        consumer = self._java.org.apache.kafka.clients.consumer.KafkaConsumer
        self._consumer = consumer(properties, deserializer(), deserializer())
        names = self._java.java.util.ArrayList()
        for each in topics:
            names.add(each)
        self._consumer.subscribe(names)
        self._known: tuple[set[tuple[str, int]], int] = set(), -1

    def poll(self) -> None:
        self._consumer.poll(self._java.java.time.Duration.ofMillis(int(POLL_S * 1000)))
        group = self._consumer.groupMetadata()
        owned, generation = self._assignment(), group.generationId()
        (before, _), known = self._known, (owned, generation)
        if known != self._known:
            self._known = known
            report("revoked", before - owned)
            report("assigned", owned, member_id=group.memberId(), generation=generation)

    def commit(self, offset: int, metadata: str) -> None:
        client = self._java.org.apache.kafka
        offsets = self._java.java.util.HashMap()
        partitions = self._assignment()
        for each in partitions:
            position = client.clients.consumer.OffsetAndMetadata(offset, metadata)
            offsets.put(client.common.TopicPartition(*each), position)
        self._consumer.commitSync(offsets)
        report("committed", partitions, offset=offset, metadata=metadata)

    def committed(self) -> Mapping[tuple[str, int], int]:
        found = self._consumer.committed(self._consumer.assignment())
        return {(each.topic(), each.partition()): position.offset() for each, position in found.items()}

    def close(self) -> None:
        self._consumer.close()

    def _assignment(self) -> set[tuple[str, int]]:
        return {(each.topic(), each.partition()) for each in self._consumer.assignment()}


class OldJavaMember(JavaMember):
    """The same of a version before the consumer had groupMetadata, poll(Duration) and committed(Set)."""

    ARTIFACT, VERSION = "kafka-clients", OLD_JAVA_VERSION

    def poll(self) -> None:
        self._consumer.poll(int(POLL_S * 1000))
        owned, (before, _) = self._assignment(), self._known
        if owned != before:
            self._known = owned, -1
            report("revoked", before - owned)
            report("assigned", owned)

    def committed(self) -> Mapping[tuple[str, int], int]:
        return {
            (each.topic(), each.partition()): self._consumer.committed(each).offset()
            for each in self._consumer.assignment()
        }


MEMBERS: Final[dict[str, Callable[[str, str, Sequence[str], Options], Member]]] = {
    "kafka-python": KafkaPythonMember,
    "aiokafka": AioKafkaMember,
    "confluent-kafka": ConfluentMember,
    "kafka-clients": JavaMember,
    "kafka-python==2.0.2": KafkaPythonMember,
    "kafka-python==2.3.0": KafkaPythonMember,
    "aiokafka==0.12.0": AioKafkaMember,
    "confluent-kafka==2.0.2": ConfluentMember,
    f"kafka-clients=={OLD_JAVA_VERSION}": OldJavaMember,
}


if __name__ == "__main__":
    main()
