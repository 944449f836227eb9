"""The platform of the soak: a cluster, a Postgres, mirrors that share its database, and groups that work."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import psycopg2
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # comes without types
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from muster.local.embedded_postgres import EmbeddedPostgres
from muster.settings import psql_url
from tests.support.kafka_cluster import BROKERS, REPLICATED, KafkaCluster, running_cluster
from tests.support.kafka_log import create_topics
from tests.support.kafka_members import KafkaMembers, kafka_members
from tests.support.mirror_process import PARTITIONS, MirrorProcess, partitions_read
from tests.support.waiting import poll_until
from tests.system.mirror_soak.groups import SESSION_MS, TOPIC, Groups

MIRRORS: Final = 2
TOPIC_PARTITIONS: Final = 6
RECORDS: Final = 2_000
STEP_S: Final = 0.2
PROPERTIES: Final = {
    **REPLICATED,
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
}


@dataclass(slots=True)
class Platform:
    """All that runs; members work as long as somebody waits by `work_for` or `work_until`."""

    cluster: KafkaCluster
    postgres: EmbeddedPostgres
    mirrors: list[MirrorProcess]
    members: KafkaMembers
    groups: Groups

    def work_for(self, seconds: float) -> None:
        """Let members work for a time."""
        ends_s = time.monotonic() + seconds
        self.work_until(lambda: time.monotonic() >= ends_s)

    def work_until(self, condition: Callable[[], object]) -> None:
        """Let members work until a condition holds."""
        while not condition():
            self.groups.step()
            self.restart_mirrors()
            time.sleep(STEP_S)

    def restart_mirrors(self) -> None:
        """Start mirrors that have ended, as one does that starts while Postgres is away."""
        for mirror in self.mirrors:
            mirror.restart()

    @contextmanager
    def database(self) -> Iterator[Connection]:
        """Connect to the mirrors' database; every statement commits by itself."""
        with closing(psycopg2.connect(psql_url(self.postgres.database_url()))) as rows:
            rows.autocommit = True
            yield rows


@contextmanager
def running_platform(directory: Path, kinds: list[str], random: Random) -> Iterator[Platform]:
    """Run a platform whose mirrors have caught up, and whose groups have no members yet.

    Raises:
        KafkaUnavailable: the cluster cannot be had.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(directory, PROPERTIES))
        asyncio.run(_fill(cluster.bootstrap))
        postgres = stack.enter_context(EmbeddedPostgres(directory))
        members = stack.enter_context(kafka_members(directory, cluster.bootstrap))
        before = members.join("aiokafka", "before", TOPIC, client_id="before")
        before.wait_until(lambda member: len(member.owned()) == TOPIC_PARTITIONS)
        before.leave()
        mirrors: list[MirrorProcess] = []
        platform = Platform(cluster, postgres, mirrors, members, Groups(members, kinds, random))
        for number in range(MIRRORS):
            mirror = MirrorProcess(cluster.bootstrap, postgres.database_url(), directory, f"mirror-{number}")
            mirrors.append(mirror)
            stack.callback(mirror.stop)
            poll_until(lambda mirror=mirror: mirror.times_reached() or not mirror.child.is_alive())  # type: ignore[misc]
            assert mirror.child.is_alive(), mirror.log_text()[-2000:]
        with platform.database() as rows:
            poll_until(lambda: partitions_read(rows) == PARTITIONS)
        yield platform


async def _fill(bootstrap: str) -> None:
    """Create the topic, with records for members that commit what they consume."""
    await create_topics(bootstrap, {TOPIC: TOPIC_PARTITIONS}, BROKERS)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            await producer.send(TOPIC, str(number).encode())
