"""Compare a node with a Kafka broker: the same work on both in turn, on the same cores.

Members send heartbeats, commit 1 and 100 partitions a request, and rebalance. Rounds alternate, and the first one of
each is not counted. The first run fetches the broker's jars; without them or without Java, the benchmark is skipped.

Run: python -m bench.kafka [FILE]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar
from uuid import uuid4

import uvloop

from bench import kafka_wire
from bench.bench_servers import Place, Server, durable_place, node
from bench.closed_loop import Load, Sender, send_load
from bench.cpu_time import Pids
from bench.figures import Figure, run_benchmark
from bench.group_members import Member, join_groups
from bench.http_load import is_answered, post
from bench.kafka_broker import kafka_broker, until_idle
from bench.kafka_members import TOPIC, KafkaMember
from bench.kafka_members import join_groups as join_kafka_groups
from bench.kafka_wire import is_exactly
from bench.rebalance import HttpMember, until_parked
from bench.timed_rebalances import GroupMember, Rebalance, form_group, time_rebalance

INITIAL_REBALANCE_DELAY_MS: Final = 500
DIFFERENT_BODIES: Final = 20
"""Different commits that a connection sends in turn."""
NO_REFUSALS: Final = {"request_timeout_ms": 30_000, "max_queued_rows": 200_000}
"""Settings with which a node answers 512 commits of 100 partitions at once, however slow the machine is."""
UNCOUNTED_ROUNDS: Final = 1
"""Rounds in which Java compiles what it runs often."""
NOTES: Final = (
    "Muster: HTTP and JSON; Python, one core for requests; Postgres has an answered commit on disk (fsync).",
    "Kafka: its binary protocol; Java, all cores, 1 GiB of heap; the page cache has an answered commit, no replica.",
    "Kafka waits up to 5 ms for more commits before it stores them (group.coordinator.append.linger.ms).",
    "CPU is processor time a request; for rebalances, a member. Load and servers share the cores.",
)


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    heartbeats: int = 64
    """Connections."""
    commits: tuple[tuple[int, int], ...] = ((1, 64), (1, 512), (100, 64), (100, 512))
    """Partitions a request and connections."""
    members: tuple[int, ...] = (100, 1_000, 3_000)
    rounds: int = 5
    round_s: float = 3.0


T = TypeVar("T")
Work = tuple[list[Sender], list[Sender]]
"""The same requests for Muster and for Kafka."""


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures.

    Raises:
        Skipped: no broker can be started here.
    """
    partitions = max(partitions for partitions, _ in size.commits)
    groups = max(size.heartbeats, *(connections for _, connections in size.commits))
    with (
        kafka_broker(place.directory, partitions, INITIAL_REBALANCE_DELAY_MS) as kafka,
        node(place, group_initial_rebalance_delay_ms=INITIAL_REBALANCE_DELAY_MS, **NO_REFUSALS) as muster,
    ):
        members = join_groups([muster.url], groups)
        kafka_members = uvloop.run(join_kafka_groups(kafka.url, groups))
        work = {f"heartbeats, {size.heartbeats} connections": _heartbeats(members, kafka_members, size.heartbeats)}
        for partitions, connections in size.commits:
            what = f"commits of {partitions} partition{'s' if partitions > 1 else ''}, {connections} connections"
            work[what] = _commits(members, kafka_members, partitions, connections)
        pids = (place.pids(muster), kafka.pids("kafka"))
        figures = [_loads(what, requests, pids, size) for what, requests in work.items()]
        return figures + [uvloop.run(_rebalances(muster, kafka, pids, count, size.rounds)) for count in size.members]


# -- rates -----------------------------------------------------------------------------------------------


def _heartbeats(members: Sequence[Member], kafka_members: Sequence[KafkaMember], connections: int) -> Work:
    response = is_exactly(kafka_wire.heartbeat_response())
    return (
        [Sender(one.url, [post(f"{one.path}/heartbeat", one.body())], is_answered) for one in members[:connections]],
        [Sender(one.url, [kafka_wire.heartbeat(*one.identity)], response) for one in kafka_members[:connections]],
    )


def _commits(
    members: Sequence[Member], kafka_members: Sequence[KafkaMember], partitions: int, connections: int
) -> Work:
    response = is_exactly(kafka_wire.offset_commit_response(TOPIC, partitions))
    offsets = [range(number * 1_000, number * 1_000 + partitions) for number in range(DIFFERENT_BODIES)]
    return (
        [Sender(one.url, [_commit(one, each) for each in offsets], is_answered) for one in members[:connections]],
        [
            Sender(one.url, [kafka_wire.offset_commit(*one.identity, TOPIC, each) for each in offsets], response)
            for one in kafka_members[:connections]
        ],
    )


def _commit(member: Member, offsets: Sequence[int]) -> bytes:
    entries = [
        {"topic": TOPIC, "partition": partition, "offset": offset, "metadata": "m"}
        for partition, offset in enumerate(offsets)
    ]
    return post(f"{member.path}/offsets", member.body(offsets=entries))


def _loads(what: str, work: Work, pids: tuple[Pids, Pids], size: Size) -> Figure:
    """Measure one kind of requests; report the round with the median ratio."""
    rounds: list[tuple[Load, Load]] = []
    for _ in range(size.rounds + UNCOUNTED_ROUNDS):
        muster, kafka = (send_load(senders, size.round_s, own) for senders, own in zip(work, pids, strict=True))
        rounds.append((muster, kafka))
    (muster, kafka), ratios = _median_round(rounds, lambda load: load.per_s)
    details = {**muster.details(), **kafka.details("kafka_"), **ratios}
    return Figure(what, muster.per_s, "a second", "Kafka", kafka.per_s, details=details)


# -- rebalances ------------------------------------------------------------------------------------------


async def _rebalances(muster: Server, kafka: Server, pids: tuple[Pids, Pids], count: int, rounds: int) -> Figure:
    """Measure rebalances of one group on each server; report the round with the median ratio."""
    name = f"rebalance-{count}-{uuid4().hex[:8]}"
    members = await form_group([await HttpMember.connected(muster.url, f"/v1/groups/{name}") for _ in range(count)])
    kafka_members = await form_group([await KafkaMember.connected(kafka.url, name) for _ in range(count)])
    timed: list[tuple[Rebalance, Rebalance]] = []
    for _ in range(rounds + UNCOUNTED_ROUNDS):
        at_muster = await time_rebalance(members, partial(until_parked, muster.url), pids[0])
        at_kafka = await time_rebalance(kafka_members, lambda _: until_idle(kafka), pids[1])
        timed.append((at_muster, at_kafka))
    _close(members)
    _close(kafka_members)
    (at_muster, at_kafka), ratios = _median_round(timed, lambda rebalance: rebalance.took_ms)
    details = {**at_muster.details(), **at_kafka.details(), **ratios}
    what = f"rebalance of {count:,} members"
    return Figure(what, at_muster.took_ms, "ms", "Kafka", at_kafka.took_ms, better="less", details=details)


def _close(members: Sequence[GroupMember]) -> None:
    for member in members:
        member.close()


def _median_round(rounds: Sequence[tuple[T, T]], value: Callable[[T], float]) -> tuple[tuple[T, T], dict[str, float]]:
    """Return the counted round with the median ratio, and the range of the ratios as details of a figure."""

    def ratio(each: tuple[T, T]) -> float:
        return value(each[0]) / value(each[1])

    ranked = sorted(rounds[UNCOUNTED_ROUNDS:], key=ratio)
    return ranked[len(ranked) // 2], {"lowest_ratio": ratio(ranked[0]), "highest_ratio": ratio(ranked[-1])}


def main() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    run_benchmark("kafka", "Compare a node with a Kafka broker.", main, NOTES)
