"""Compare a node with a Kafka broker: the same work on both in turn, on the same cores.

A node is asked over HTTP, and over its listener for Kafka clients with the same requests as the broker. Members send
heartbeats, commit 1 and 100 partitions a request, and rebalance. At the end two nodes share the groups: a node uses one
core for requests, the broker all. Rounds alternate, and the first one of each is not counted. The first run fetches the
broker's jars; without them or without Java, the benchmark is skipped.

Run: python -m bench.kafka [FILE]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

import uvloop

from bench import kafka_wire
from bench.bench_servers import HOST, Place, Server, free_port, in_durable_place, node, owner_of, until_shared
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
    "Muster: Python, one core for requests; Postgres has an answered commit on disk (fsync).",
    "Over HTTP in JSON, or over the listener for Kafka clients in the binary protocol.",
    "Kafka: its binary protocol; Java, all cores, 1 GiB of heap; the page cache has an answered commit, no replica.",
    "Kafka waits up to 5 ms for more commits before it stores them (group.coordinator.append.linger.ms).",
    "CPU is processor time a request; for rebalances, a member. Load and servers share the cores.",
)


HEARTBEATS_WANTED: Final = 0.8
"""The wanted share of Kafka's rate of heartbeats, over the listener for Kafka clients."""


class Commits(NamedTuple):
    """Commits of a size, and the wanted share of Kafka's rate over the listener for Kafka clients."""

    partitions: int
    connections: int
    wanted: float


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    heartbeats: int = 64
    """Connections."""
    commits: tuple[Commits, ...] = (
        Commits(1, 64, 1.0),
        Commits(1, 512, 0.5),
        Commits(100, 64, 0.5),
        Commits(100, 512, 0.5),
    )
    """Kinds of commits."""
    members: tuple[int, ...] = (100, 1_000, 3_000)
    rounds: int = 5
    round_s: float = 3.0


T = TypeVar("T")


class Work(NamedTuple):
    """The same requests over HTTP (empty: not over HTTP), to the listener for Kafka clients, and to Kafka."""

    http: list[Sender]
    listener: list[Sender]
    kafka: list[Sender]


class Groups(NamedTuple):
    """Groups of one member each, by how they are asked; none over HTTP is possible."""

    http: Sequence[Member]
    listener: Sequence[KafkaMember]
    kafka: Sequence[KafkaMember]


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures.

    Raises:
        Skipped: no broker can be started here.
    """
    partitions = max(each.partitions for each in size.commits)
    count = max(size.heartbeats, *(each.connections for each in size.commits))
    ports = free_port(), free_port()
    urls = [f"kafka://{HOST}:{port}" for port in ports]
    settings = {"group_initial_rebalance_delay_ms": INITIAL_REBALANCE_DELAY_MS, **NO_REFUSALS}
    with (
        kafka_broker(place.directory, partitions, INITIAL_REBALANCE_DELAY_MS) as kafka,
        node(place, kafka_port=ports[0], **settings) as muster,
    ):
        groups = Groups(
            join_groups([muster.url], count),
            uvloop.run(join_kafka_groups(lambda _: urls[0], count)),
            uvloop.run(join_kafka_groups(lambda _: kafka.url, count)),
        )
        of_kafka = kafka.pids("kafka")
        pids = (place.pids(muster), of_kafka)
        figures = _rates(groups, pids, size, "Kafka protocol")
        for members in size.members:
            figures += uvloop.run(_rebalances((muster, urls[0], kafka), pids, members, size.rounds))
        with node(place, kafka_port=ports[1], **settings) as second:
            until_shared(muster.url, second.url)
            listeners = {muster.url: urls[0], second.url: urls[1]}

            def listener_of(group_id: str) -> str:
                return listeners[owner_of(f"{muster.url}/v1/groups/{group_id}")]

            shared = Groups((), uvloop.run(join_kafka_groups(listener_of, count)), groups.kafka)
            of_both = place.pids(muster, second)
            return figures + _rates(shared, (of_both, of_kafka), size, "Kafka protocol, two nodes")


def _rates(groups: Groups, pids: tuple[Pids, Pids], size: Size, over: str) -> list[Figure]:
    """Measure heartbeats and commits."""
    figures = _loads("heartbeats", _heartbeats(groups, size.heartbeats), pids, size, HEARTBEATS_WANTED, over)
    for each in size.commits:
        what = f"commits of {each.partitions} partition{'s' if each.partitions > 1 else ''}"
        figures += _loads(what, _commits(groups, each), pids, size, each.wanted, over)
    return figures


# -- rates -----------------------------------------------------------------------------------------------


def _heartbeats(groups: Groups, connections: int) -> Work:
    response = is_exactly(kafka_wire.heartbeat_response())

    def binary(members: Sequence[KafkaMember]) -> list[Sender]:
        return [Sender(one.url, [kafka_wire.heartbeat(*one.identity)], response) for one in members[:connections]]

    return Work(
        [
            Sender(one.url, [post(f"{one.path}/heartbeat", one.body())], is_answered)
            for one in groups.http[:connections]
        ],
        binary(groups.listener),
        binary(groups.kafka),
    )


def _commits(groups: Groups, commits: Commits) -> Work:
    partitions, connections, _ = commits
    response = is_exactly(kafka_wire.offset_commit_response(TOPIC, partitions))
    offsets = [range(number * 1_000, number * 1_000 + partitions) for number in range(DIFFERENT_BODIES)]

    def binary(members: Sequence[KafkaMember]) -> list[Sender]:
        return [
            Sender(one.url, [kafka_wire.offset_commit(*one.identity, TOPIC, each) for each in offsets], response)
            for one in members[:connections]
        ]

    return Work(
        [Sender(one.url, [_commit(one, each) for each in offsets], is_answered) for one in groups.http[:connections]],
        binary(groups.listener),
        binary(groups.kafka),
    )


def _commit(member: Member, offsets: Sequence[int]) -> bytes:
    entries = [
        {"topic": TOPIC, "partition": partition, "offset": offset, "metadata": "m"}
        for partition, offset in enumerate(offsets)
    ]
    return post(f"{member.path}/offsets", member.body(offsets=entries))


def _loads(what: str, work: Work, pids: tuple[Pids, Pids], size: Size, wanted: float, over: str) -> list[Figure]:
    """Measure one kind of requests over HTTP and over the listener; report the rounds with the median ratios."""
    of_muster, of_kafka = pids
    ways = {"HTTP": (work.http, None), over: (work.listener, wanted)}
    rounds: dict[str, list[tuple[Load, Load]]] = {how: [] for how, (senders, _) in ways.items() if senders}
    for _ in range(size.rounds + UNCOUNTED_ROUNDS):
        loads = {how: send_load(ways[how][0], size.round_s, of_muster) for how in rounds}
        kafka_load = send_load(work.kafka, size.round_s, of_kafka)
        for how, load in loads.items():
            rounds[how].append((load, kafka_load))
    what = f"{what}, {len(work.kafka)} connections"

    def figure(how: str, pairs: Sequence[tuple[Load, Load]]) -> Figure:
        (muster, kafka), ratios = _median_round(pairs, lambda load: load.per_s)
        details = {**muster.details(), **kafka.details("kafka_"), **ratios}
        return Figure(
            f"{what}, {how}", muster.per_s, "a second", "Kafka", kafka.per_s, wanted=ways[how][1], details=details
        )

    return [figure(how, pairs) for how, pairs in rounds.items()]


# -- rebalances ------------------------------------------------------------------------------------------


async def _rebalances(
    servers: tuple[Server, str, Server], pids: tuple[Pids, Pids], count: int, rounds: int
) -> list[Figure]:
    """Measure rebalances of one group on each server; report the rounds with the median ratios."""
    muster, listener_url, kafka = servers
    of_muster, of_kafka = pids
    name = f"rebalance-{count}-{uuid4().hex[:8]}"
    http = await form_group([await HttpMember.connected(muster.url, f"/v1/groups/{name}") for _ in range(count)])
    binary, kafka_members = [
        await form_group([await KafkaMember.connected(url, f"{name}-wire") for _ in range(count)])
        for url in (listener_url, kafka.url)
    ]
    are_parked = partial(until_parked, muster.url)
    timed: list[tuple[Rebalance, Rebalance, Rebalance]] = []
    for _ in range(rounds + UNCOUNTED_ROUNDS):
        over_http = await time_rebalance(http, are_parked, of_muster)
        over_listener = await time_rebalance(binary, are_parked, of_muster)
        timed.append(
            (over_http, over_listener, await time_rebalance(kafka_members, lambda _: until_idle(kafka), of_kafka))
        )
    for members in (http, binary, kafka_members):
        _close(members)
    what = f"rebalance of {count:,} members"

    def figure(how: str, pairs: Sequence[tuple[Rebalance, Rebalance]]) -> Figure:
        (at_muster, at_kafka), ratios = _median_round(pairs, lambda rebalance: rebalance.took_ms)
        details = {**at_muster.details(), **at_kafka.details(), **ratios}
        took_ms = at_muster.took_ms
        return Figure(f"{what}, {how}", took_ms, "ms", "Kafka", at_kafka.took_ms, better="less", details=details)

    return [
        figure("HTTP", [(http, kafka) for http, _, kafka in timed]),
        figure("Kafka protocol", [(listener, kafka) for _, listener, kafka in timed]),
    ]


def _close(members: Sequence[GroupMember]) -> None:
    for member in members:
        member.close()


def _median_round(rounds: Sequence[tuple[T, T]], value: Callable[[T], float]) -> tuple[tuple[T, T], dict[str, float]]:
    """Return the counted round with the median ratio, and the range of the ratios as details of a figure."""

    def ratio(each: tuple[T, T]) -> float:
        return value(each[0]) / value(each[1])

    ranked = sorted(rounds[UNCOUNTED_ROUNDS:], key=ratio)
    return ranked[len(ranked) // 2], {"lowest_ratio": ratio(ranked[0]), "highest_ratio": ratio(ranked[-1])}


if __name__ == "__main__":
    run_benchmark("kafka", "Compare a node with a Kafka broker.", in_durable_place(measure, Size()), NOTES)
