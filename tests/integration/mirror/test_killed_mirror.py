"""A mirror that is killed again and again while clients work has each row once, and none is missing."""

import asyncio
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # comes without types

from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_log import create_topics
from tests.support.mirror_process import running_mirror
from tests.support.mirrored_history import logged_history, read_log, stored_history
from tests.support.waiting import poll_until

TOPIC = "killed-orders"
PREFIX = "killed-"
GROUPS = ("killed-a", "killed-b", "killed-c")
ROUNDS = 6
KILLS = 5


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
    async with member(kafka, "before-killed"):
        pass


@pytest.mark.slow
def test_rows_are_those_of_the_log(kafka: KafkaBroker, empty_database_url: str, tmp_path: Path) -> None:
    asyncio.run(settled_topic(kafka))
    with running_mirror(kafka.bootstrap, empty_database_url, tmp_path) as (mirror, rows):
        workers = [Thread(target=asyncio.run, args=(work(kafka, group_id),)) for group_id in GROUPS]
        for worker in workers:
            worker.start()
        for _ in range(KILLS):
            seen = mirror.times_reached()
            mirror.kill()
            poll_until(lambda seen=seen: mirror.times_reached() > seen)  # type: ignore[misc]
        for worker in workers:
            worker.join()

        wanted = logged_history(read_log(kafka.bootstrap, {}), PREFIX)
        assert sorted(wanted) == list(GROUPS)
        poll_until(lambda: stored_history(rows, PREFIX) == wanted)
