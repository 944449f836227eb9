"""A Kafka broker for comparison, started as Kafka's own scripts start one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import kafka_wire
from bench.bench_servers import Server
from bench.channel import Channel
from bench.cpu_time import cpu_time_s
from bench.figures import Skipped
from bench.kafka_members import TOPIC
from tests.support.kafka_broker import KafkaUnavailable, running_kafka

READY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.1
IDLE_S: Final = 0.3
IDLE_SHARE: Final = 0.1
"""Share of a core that an idle broker may use."""
JAVA_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As Kafka's own scripts start a broker."""


@contextmanager
def kafka_broker(directory: Path, partitions: int, initial_rebalance_delay_ms: int) -> Iterator[Server]:
    """Run a broker with one topic until the block ends.

    Raises:
        Skipped: there is no Java, or the jars cannot be fetched.
    """
    properties = {"group.initial.rebalance.delay.ms": str(initial_rebalance_delay_ms)}
    try:
        with running_kafka(directory, properties, JAVA_OPTIONS) as broker:
            server = Server(f"kafka://{broker.bootstrap}", broker.child)
            asyncio.run(asyncio.wait_for(_create_topic(server, partitions), READY_TIMEOUT_S))
            yield server
    except KafkaUnavailable as error:
        raise Skipped(str(error)) from error


async def until_idle(server: Server) -> None:
    """Return when a broker has used hardly any processor time for a while, so all its requests wait."""
    used_s = cpu_time_s(server.child.pid)
    while True:
        await asyncio.sleep(IDLE_S)
        before_s, used_s = used_s, cpu_time_s(server.child.pid)
        if used_s - before_s <= IDLE_S * IDLE_SHARE:
            return


async def _create_topic(server: Server, partitions: int) -> None:
    """Create the topic, and return when coordinators are found."""
    channel = await Channel.connected(server.url, kafka_wire.is_complete)
    await channel.ask(kafka_wire.create_topic(TOPIC, partitions, timeout_ms=30_000))
    find = kafka_wire.find_coordinator("any")
    while kafka_wire.read_error(await channel.ask(find)) != kafka_wire.NO_ERROR:  # noqa: ASYNC110 - the broker notifies of nothing
        await asyncio.sleep(POLL_S)
    channel.close()
