"""A mirror that is killed again and again while clients work has each row once, and none is missing."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread

import psycopg2
import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # comes without types
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from mirror.observed import ObservedCommit, ObservedGroup
from mirror.offsets_topic import decode
from muster.local.processes import Child, ChildSpec, stop_children
from muster.settings import psql_url
from tests.integration.http.ports import free_port
from tests.integration.mirror.positions import partitions_read
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_log import create_topics, read_topic
from tests.support.waiting import poll_until

TOPIC = "killed-orders"
GROUPS = ("killed-a", "killed-b", "killed-c")
ROUNDS = 6
KILLS = 5
QUICK = {"MUSTER_LEASE_TTL_MS": "1000", "MUSTER_OFFSETS_CHECKPOINT_INTERVAL_MS": "200"}


class KilledMirror:
    """A `muster mirror` process that is killed and started again."""

    def __init__(self, kafka: KafkaBroker, database_url: str, directory: Path) -> None:
        self._directory = directory
        argv = (sys.executable, "-m", "muster", "mirror", f"--bootstrap={kafka.bootstrap}", f"--port={free_port()}")
        own = {"MUSTER_DATABASE_URL": psql_url(database_url), "MUSTER_DATA_DIR": str(directory), **QUICK}
        self._spec = ChildSpec("mirror", argv, os.environ | own, directory / "mirror.log")
        self.child = Child(self._spec)

    def log_text(self) -> str:
        """Return what it has logged."""
        return self._spec.log_file.read_text() if self._spec.log_file.exists() else ""

    def kill(self) -> None:
        """Kill it when it follows the cluster, and start it again."""
        seen = self.log_text().count("mirrored_cluster_reached")
        os.kill(self.child.pid, signal.SIGKILL)
        poll_until(lambda: self.child.exit_code() is not None)
        self.child = Child(self._spec)
        poll_until(lambda: self.log_text().count("mirrored_cluster_reached") > seen)


@contextmanager
def running_mirror(kafka: KafkaBroker, database_url: str, directory: Path) -> Iterator[KilledMirror]:
    mirror = KilledMirror(kafka, database_url, directory)
    try:
        poll_until(lambda: "mirrored_cluster_reached" in mirror.log_text())
        with closing(psycopg2.connect(psql_url(database_url))) as rows:
            rows.autocommit = True
            poll_until(lambda: partitions_read(rows) == 4)
        yield mirror
    finally:
        stop_children([mirror.child], 10)


async def work(kafka: KafkaBroker, group_id: str) -> None:
    """Let a group gain and lose members, and commit in each generation."""
    for number in range(ROUNDS):
        async with member(kafka, group_id) as first:
            await commit(first, number)
            async with member(kafka, group_id) as second:
                await commit(second, number)


def member(kafka: KafkaBroker, group_id: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=kafka.bootstrap,
        group_id=group_id,
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
    )


async def commit(consumer: AIOKafkaConsumer, number: int) -> None:
    while not consumer.assignment():  # noqa: ASYNC110 - the client notifies of nothing
        await asyncio.sleep(0.02)
    with suppress(KafkaError):  # A rebalance meanwhile refuses it, and so it is not in the log.
        await consumer.commit(dict.fromkeys(consumer.assignment(), number + 1))


async def settled_topic(kafka: KafkaBroker) -> None:
    """Create the topic, and the first group of the cluster."""
    await create_topics(kafka.bootstrap, {TOPIC: 4})
    async with member(kafka, "killed-first"):
        pass


def expected(kafka: KafkaBroker) -> tuple[dict[str, list[tuple[int, int]]], dict[tuple[str, int], int]]:
    """Return what Kafka's own log says: (generation, members) in order by group, and the last commits."""
    generations: dict[str, list[tuple[int, int]]] = {group_id: [] for group_id in GROUPS}
    commits: dict[tuple[str, int], int] = {}
    for record in asyncio.run(read_topic(kafka.bootstrap)):
        match decode(record.key, record.value):
            case ObservedGroup() as seen if seen.group_id in generations and seen.generation > 0:
                generations[seen.group_id].append((seen.generation, len(seen.members)))
            case ObservedCommit() as seen if seen.group_id in generations:
                commits[seen.group_id, seen.partition] = seen.offset
    return generations, commits


def stored(rows: PsycopgConnection) -> tuple[dict[str, list[tuple[int, int]]], dict[tuple[str, int], int]]:
    """Return the same from the tables."""
    with rows.cursor() as cursor:
        generations: dict[str, list[tuple[int, int]]] = {group_id: [] for group_id in GROUPS}
        cursor.execute(
            "SELECT group_id, generation, member_count_after FROM rebalances WHERE group_id = ANY (%s)"
            " ORDER BY completed_at, generation",
            (list(GROUPS),),
        )
        for group_id, generation, members in cursor:
            generations[group_id].append((generation, members))
        cursor.execute(
            "SELECT group_id, partition, committed_offset FROM offsets WHERE group_id = ANY (%s)", (list(GROUPS),)
        )
        return generations, {(group_id, partition): offset for group_id, partition, offset in cursor}


@pytest.mark.slow
def test_rows_are_those_of_the_log(kafka: KafkaBroker, empty_database_url: str, tmp_path: Path) -> None:
    asyncio.run(settled_topic(kafka))
    with running_mirror(kafka, empty_database_url, tmp_path) as mirror:
        workers = [Thread(target=asyncio.run, args=(work(kafka, group_id),)) for group_id in GROUPS]
        for worker in workers:
            worker.start()
        for _ in range(KILLS):
            mirror.kill()
        for worker in workers:
            worker.join()
        wanted = expected(kafka)

        with closing(psycopg2.connect(psql_url(empty_database_url))) as rows:
            rows.autocommit = True
            poll_until(lambda: stored(rows) == wanted)
