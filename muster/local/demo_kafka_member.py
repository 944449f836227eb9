"""A demonstration consumer that is a Kafka client: a member of its group through the node's Kafka listener.

It reads the generated records of `demo_member`, which no broker has: its library gives it partitions, and commits where
it is. It ends when its parent does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from contextlib import suppress

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # likewise

from agent import TopicPartition
from muster.local.demo_member import (
    COMMIT_EVERY_S,
    SESSION_TIMEOUT_MS,
    end_offset,
    set_parent_death_signal,
)

FETCH_MAX_WAIT_MS = 10_000
"""How long a fetch waits at a node: there are no records."""


def main(arguments: list[str] | None = None) -> int:
    """Run the member until SIGTERM or SIGINT; return its exit status."""
    options = _parsed(arguments)
    if set_parent_death_signal():
        asyncio.run(_consume(options))
    return 0


async def _consume(options: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopping.set)
    token = os.environ.get("MUSTER_TOKEN")
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "demo"}
    consumer = AIOKafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        enable_auto_commit=False,
        auto_offset_reset="latest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
        **({**sasl, "sasl_plain_password": token} if token else {}),
    )
    async with consumer:
        while not stopping.is_set():
            await _commit(consumer)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), COMMIT_EVERY_S)
    print("left the group", flush=True)


async def _commit(consumer: AIOKafkaConsumer) -> None:
    """Poll, else the library leaves the group after five minutes, and commit the end of each assigned partition."""
    try:
        await consumer.getmany()
        now_s = time.time()
        ends = {each: end_offset(TopicPartition(each.topic, each.partition), now_s) for each in consumer.assignment()}
        if ends:
            await consumer.commit(ends)
    except KafkaError as problem:
        print(f"not committed: {problem!r}", flush=True)


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m muster.local.demo_kafka_member", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="Kafka listeners of nodes, host:port, separated by commas")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--client-id", required=True, help="-pid<number> is added to it")
    options = parser.parse_args(arguments)
    options.client_id = f"{options.client_id}-pid{os.getpid()}"
    return options


if __name__ == "__main__":
    sys.exit(main())
