"""Time rebalances of small and large groups.

All members but one have rejoined and wait. The time runs from the last member's join until the last sync response,
without the processor time of Postgres. The ceiling is the same requests to a bare server, all at once, which
answers with as many bytes. Growth is compared with linear, and a member of another group sends heartbeats meanwhile.

Run: python -m bench.rebalance [FILE]
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self
from uuid import uuid4

import msgspec
import uvloop

from bench.bench_servers import Place, bare_server, in_durable_place, node, sums
from bench.channel import Channel
from bench.cpu_time import Pids
from bench.figures import Figure, Json, middle, run_benchmark
from bench.group_members import join_body
from bench.heartbeat_probe import HeartbeatProbe, heartbeat_probe
from bench.http_load import HEAD_END, is_answered, post
from bench.timed_rebalances import Rebalance, form_group, time_rebalance

PARKED = 'muster_parked_requests{request="JoinGroup"}'
POLL_S = 0.05
WINDOW_MS = 500
THOUSAND = 1_000
WANTED = 1.5
"""The target from a thousand members on."""
WANTED_GROWTH = 1.3
WANTED_HEARTBEAT_MS = 50


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    members: tuple[int, ...] = (10, 100, 1_000, 3_000)
    rounds: int = 3


class Exchange(NamedTuple):
    """A request that a member has sent, and how many bytes its response had."""

    body: bytes
    response_bytes: int


@dataclass(frozen=True, slots=True)
class Round:
    """One rebalance, and the same requests to the bare server after it."""

    rebalance: Rebalance
    members: int
    bare_ms: float
    heartbeat_ms: float
    """The slowest heartbeat of another group meanwhile."""
    idle_heartbeat_ms: float
    """The slowest one while the bare server works and the node is idle: what the machine alone adds."""

    @property
    def own_ms(self) -> float:
        """The time without the processor time of Postgres, which short rebalances do not have."""
        postgres_us = self.rebalance.details().get("postgres_cpu_us", 0.0)
        return self.rebalance.took_ms - self.members * postgres_us / 1_000


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    figures = []
    took_ms: dict[int, float] = {}
    with (
        node(place, group_initial_rebalance_delay_ms=WINDOW_MS) as muster,
        bare_server(place) as bare,
        heartbeat_probe(muster.url) as probe,
    ):
        for count in size.members:
            rounds = uvloop.run(_rounds(muster.url, bare.url, count, size.rounds, place.pids(muster), probe))
            figures += _figures(count, rounds)
            took_ms[count] = middle([one.rebalance.took_ms for one in rounds])
    for small, large in zip(size.members, size.members[1:], strict=False):
        growth, linear = took_ms[large] / took_ms[small], large / small
        what = f"growth from {small:,} to {large:,} members"
        figures.append(Figure(what, growth, "times", "linear", linear, wanted=WANTED_GROWTH, better="less"))
    return figures


def _figures(count: int, rounds: Sequence[Round]) -> list[Figure]:
    chosen = sorted(rounds, key=lambda one: one.own_ms / one.bare_ms)[len(rounds) // 2]
    what = f"rebalance of {count:,} members"
    beside = ("the same bytes, bare", chosen.bare_ms)
    details = {**chosen.rebalance.details(), "whole_ms": chosen.rebalance.took_ms}
    heartbeat_ms = max(one.heartbeat_ms for one in rounds)
    idle_ms = {"idle_ms": max(one.idle_heartbeat_ms for one in rounds)}
    limit = ("the limit", WANTED_HEARTBEAT_MS)
    wanted = WANTED if count >= THOUSAND else None
    return [
        Figure(what, chosen.own_ms, "ms", *beside, wanted=wanted, better="less", details=details),
        Figure(
            f"slowest heartbeat beside it ({count:,})",
            heartbeat_ms,
            "ms",
            *limit,
            wanted=1.0,
            better="less",
            details=idle_ms,
        ),
    ]


async def _rounds(url: str, bare_url: str, count: int, rounds: int, pids: Pids, probe: HeartbeatProbe) -> list[Round]:
    path = f"/v1/groups/rebalance-{count}-{uuid4().hex[:8]}"
    members = await form_group([await HttpMember.connected(url, path) for _ in range(count)])
    bare = [await HttpMember.connected(bare_url, "") for _ in range(count)]
    found = []
    for _ in range(rounds):
        rebalance = await time_rebalance(members, partial(_until_parked_and_probed, url, probe), pids)
        heartbeat_ms = await asyncio.to_thread(probe.worst_ms)
        bare_ms = await _round_trips_ms(bare, [member.exchanges for member in members])
        found.append(Round(rebalance, count, bare_ms, heartbeat_ms, await asyncio.to_thread(probe.worst_ms)))
    for member in [*members, *bare]:
        member.close()
    return found


async def _until_parked_and_probed(url: str, probe: HeartbeatProbe, count: int) -> None:
    """Return when that many joins wait, and forget the heartbeats before."""
    await until_parked(url, count)
    await asyncio.to_thread(probe.worst_ms)


async def until_parked(url: str, count: int) -> None:
    """Return when that many joins wait at a node."""
    while (await asyncio.to_thread(sums, url))[PARKED] < count:  # noqa: ASYNC110 - only the node knows who is parked
        await asyncio.sleep(POLL_S)


async def _round_trips_ms(bare: "Sequence[HttpMember]", exchanges: Sequence[Sequence[Exchange]]) -> float:
    """Return how long the bare server takes to answer the last join and the last sync of all members."""

    async def exchange(member: HttpMember, of_member: Sequence[Exchange]) -> None:
        for join_or_sync in of_member[-2:]:
            await member.send(f"/bytes/{join_or_sync.response_bytes}", join_or_sync.body)

    began_s = time.perf_counter()
    await asyncio.gather(*map(exchange, bare, exchanges))
    return (time.perf_counter() - began_s) * 1_000


class HttpMember:
    """A member with its own connection."""

    def __init__(self, channel: Channel, path: str) -> None:
        self.member_id = ""
        self.leader_id = ""
        self.generation = -1
        self.exchanges: list[Exchange] = []
        self._channel = channel
        self._path = path

    @classmethod
    async def connected(cls, url: str, path: str) -> Self:
        """Open the connection of a member of the group at a path."""
        return cls(await Channel.connected(url, is_answered), path)

    async def join(self) -> None:
        """Join, and keep the response."""
        response = await self.ask(f"{self._path}/join", join_body(self.member_id))
        self.member_id, self.leader_id = response["member_id"], response["leader"]
        self.generation = response["generation"]

    async def sync(self, member_ids: Sequence[str]) -> None:
        """Sync, with empty assignments for the members."""
        assignments = [{"member_id": each, "assignment": {"partitions": []}} for each in member_ids]
        own = {"generation": self.generation, "member_id": self.member_id}
        await self.ask(f"{self._path}/sync", {**own, "assignments": assignments})

    async def ask(self, path: str, body: object) -> Json:
        """Send one request and return the response's JSON."""
        encoded = msgspec.json.encode(body)
        response = await self.send(path, encoded)
        self.exchanges.append(Exchange(encoded, len(response)))
        decoded: Json = msgspec.json.decode(response)
        return decoded

    async def send(self, path: str, body: bytes) -> bytes:
        """Send one request and return the response's body."""
        response = await self._channel.ask(post(path, body))
        return response.partition(HEAD_END)[2]

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


if __name__ == "__main__":
    run_benchmark("rebalance", "Time rebalances of small and large groups.", in_durable_place(measure, Size()))
