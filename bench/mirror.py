"""Measure how fast a mirror catches up with a Kafka cluster that it has not read yet, and the memory that it needs.

A broker gets groups that have committed offsets. The ceiling reads and decodes the same log, in one process, and stores
nothing. Where a mirror polls, the ceiling makes the requests of one poll, and stores nothing.

Run: python -m bench.mirror [FILE]
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from bench import kafka_wire
from bench.bench_servers import Place, Server, durable_place, start_mirror, sums
from bench.channel import Channel
from bench.cpu_time import CpuMeter
from bench.figures import Figure, run_benchmark
from bench.kafka_broker import kafka_broker
from bench.kafka_members import TOPIC
from mirror.kafka_groups import KafkaGroups
from mirror.kafka_log import KafkaConnection, KafkaLog, describe_cluster
from mirror.offsets_topic import decode
from muster.local.processes import stop_children

CHANNELS: Final = 16
WAIT_TIMEOUT_S: Final = 1_200.0
POLL_S: Final = 0.1
PEAK_MEMORY: Final = "VmHWM:"
STOP_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    groups: int = 10_000
    partitions: int = 100
    """Committed offsets of each group."""


POLLED: Final = Size(groups=5_000, partitions=10)


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures.

    Raises:
        Skipped: no broker can be started here.
    """
    with kafka_broker(place.directory, size.partitions, initial_rebalance_delay_ms=0) as kafka:
        uvloop.run(_commit_all(kafka.url, size))
        bootstrap = kafka.url.removeprefix("kafka://")
        records, read_s = uvloop.run(_read_all(bootstrap))
        with _mirror(place, bootstrap) as (server, began_s):
            meter = CpuMeter(place.pids(server))
            _wait_until_stored(server.url, size.groups * size.partitions)
            took_s = time.monotonic() - began_s
            details = meter.details(records)
            memory_mb = _peak_memory_mb(server.child.pid)
    what = f"{size.groups:,} groups with {size.groups * size.partitions:,} offsets"
    rate = Figure(
        f"catching up with {what}", records / took_s, "records/s", "reading alone", records / read_s, details=details
    )
    return [rate, Figure(f"seconds for {what}", took_s, "s"), Figure(f"memory of a mirror of {what}", memory_mb, "MB")]


def measure_polls(place: Place, size: Size) -> list[Figure]:
    """Return the figures of a mirror that polls.

    Raises:
        Skipped: no broker can be started here.
    """
    with kafka_broker(place.directory, size.partitions, initial_rebalance_delay_ms=0) as kafka:
        uvloop.run(_commit_all(kafka.url, size))
        bootstrap = kafka.url.removeprefix("kafka://")
        polled_s = uvloop.run(_poll_all(bootstrap))
        with _mirror(place, bootstrap, "poll") as (server, began_s):
            meter = CpuMeter(place.pids(server))
            _wait_until_stored(server.url, size.groups * size.partitions)
            took_s = time.monotonic() - began_s
            details = meter.details(size.groups)
            memory_mb = _peak_memory_mb(server.child.pid)
    what = f"{size.groups:,} groups with {size.groups * size.partitions:,} offsets"
    first = f"first poll of {what}"
    bare = size.groups / polled_s
    rate = Figure(first, size.groups / took_s, "groups/s", "requests alone", bare, details=details)
    return [rate, Figure(f"memory of a mirror that polls {what}", memory_mb, "MB")]


async def _poll_all(bootstrap: str) -> float:
    """Return the seconds that the requests of one poll take."""
    async with KafkaGroups(KafkaConnection(bootstrap_servers=bootstrap)) as groups:
        began_s = time.monotonic()
        listed = await groups.listed()
        await groups.described([each for each in listed if each.protocol_type])
        await groups.offsets(listed)
        return time.monotonic() - began_s


async def _commit_all(url: str, size: Size) -> None:
    """Let each group commit an offset of each partition, without members."""
    groups = iter(range(size.groups))
    committed = kafka_wire.offset_commit_response(TOPIC, size.partitions)

    async def commit_some() -> None:
        channel = await Channel.connected(url, kafka_wire.is_complete)
        for number in groups:
            commit = kafka_wire.offset_commit(f"group-{number}", -1, "", TOPIC, range(size.partitions))
            while await channel.ask(commit) != committed:  # noqa: ASYNC110 - the broker notifies of nothing
                await asyncio.sleep(POLL_S)  # It is loading the coordinator of the group.
        channel.close()

    await asyncio.gather(*(commit_some() for _ in range(CHANNELS)))


async def _read_all(bootstrap: str) -> tuple[int, float]:
    """Return how many records the log has, and the seconds to read and decode them."""
    connection = KafkaConnection(bootstrap_servers=bootstrap)
    partitions = range((await describe_cluster(connection)).partitions or 0)
    records = 0
    async with KafkaLog(connection) as log:
        bounds = await log.bounds(partitions)
        began_s = time.monotonic()
        log.assign({number: each.start for number, each in bounds.items()})
        while any([await log.position(number) < each.end for number, each in bounds.items()]):
            for found in (await log.poll(timeout_ms=1_000)).values():
                records += len(found)
                for record in found:
                    decode(record.key, record.value)
        return records, time.monotonic() - began_s


@contextmanager
def _mirror(place: Place, bootstrap: str, source: str = "topic") -> Iterator[tuple[Server, float]]:
    """Run a mirror; yield it with the time of its start."""
    began_s = time.monotonic()
    server = start_mirror(place, bootstrap, source)
    try:
        yield server, began_s
    finally:
        stop_children([server.child], STOP_S)


def _wait_until_stored(url: str, offsets: int) -> None:
    deadline_s = time.monotonic() + WAIT_TIMEOUT_S
    while True:
        found = sums(url)
        if found["muster_offsets_checkpointed_total"] >= offsets and not found["muster_dirty_offsets"]:
            return
        assert time.monotonic() < deadline_s, "the mirror did not catch up"
        time.sleep(POLL_S)  # Only the metrics show how far a mirror is.


def _peak_memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1_024 for line in lines if line.startswith(PEAK_MEMORY))


def main() -> list[Figure]:
    with durable_place() as place:
        figures = measure(place, Size())
    with durable_place() as place:
        return [*figures, *measure_polls(place, POLLED)]


if __name__ == "__main__":
    run_benchmark("mirror", "Measure how fast a mirror catches up with a Kafka cluster.", main)
