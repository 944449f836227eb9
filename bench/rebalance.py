"""Time rebalances of small and large groups; the target is linear growth.

All members but one have rejoined and wait. The time runs from the last member's join until the last sync response. The
ceiling is as many concurrent round trips to a bare route.

Run: python -m bench.rebalance [FILE]
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self
from uuid import uuid4

import msgspec
import uvloop

from bench.bench_servers import Place, bare_server, durable_place, node, sums
from bench.channel import Channel
from bench.cpu_time import Pids
from bench.figures import Figure, Json, middle, run_benchmark
from bench.group_members import join_body
from bench.http_load import HEAD_END, is_answered, post
from bench.timed_rebalances import Rebalance, form_group, median_rebalance, time_rebalance

PARKED = 'muster_parked_requests{request="JoinGroup"}'
POLL_S = 0.05
WINDOW_MS = 500
WANTED_GROWTH = 1.3


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    members: tuple[int, ...] = (10, 100, 1_000, 3_000)
    rounds: int = 3


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    with node(place, group_initial_rebalance_delay_ms=WINDOW_MS) as muster, bare_server(place) as bare:
        took_ms: dict[int, float] = {}
        figures = []
        for count in size.members:
            timed = uvloop.run(_rebalances(muster.url, count, size.rounds, place.pids(muster)))
            took_ms[count] = timed.took_ms
            bare_ms = uvloop.run(_round_trips_ms(bare.url, count, size.rounds))
            what = f"rebalance of {count:,} members"
            beside = ("bare round trips", bare_ms)
            figures.append(Figure(what, timed.took_ms, "ms", *beside, better="less", details=timed.details()))
    for small, large in zip(size.members, size.members[1:], strict=False):
        growth, linear = took_ms[large] / took_ms[small], large / small
        what = f"growth from {small:,} to {large:,} members"
        figures.append(Figure(what, growth, "times", "linear", linear, wanted=WANTED_GROWTH, better="less"))
    return figures


async def _rebalances(url: str, count: int, rounds: int, pids: Pids) -> Rebalance:
    path = f"/v1/groups/rebalance-{count}-{uuid4().hex[:8]}"
    members = await form_group([await HttpMember.connected(url, path) for _ in range(count)])
    timed = [await time_rebalance(members, partial(until_parked, url), pids) for _ in range(rounds)]
    for member in members:
        member.close()
    return median_rebalance(timed)


async def until_parked(url: str, count: int) -> None:
    """Return when that many joins wait at a node."""
    while (await asyncio.to_thread(sums, url))[PARKED] < count:  # noqa: ASYNC110 - only the node knows who is parked
        await asyncio.sleep(POLL_S)


async def _round_trips_ms(url: str, count: int, rounds: int) -> float:
    """Return how long the bare route takes to answer all members twice."""
    members = [await HttpMember.connected(url, "/asgi") for _ in range(count)]
    took_ms = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        for _ in range(2):
            await asyncio.gather(*(member.ask("/asgi", {}) for member in members))
        took_ms.append((time.perf_counter() - began_s) * 1_000)
    for member in members:
        member.close()
    return middle(took_ms)


class HttpMember:
    """A member with its own connection."""

    def __init__(self, channel: Channel, path: str) -> None:
        self.member_id = ""
        self.leader_id = ""
        self.generation = -1
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
        response = await self._channel.ask(post(path, msgspec.json.encode(body)))
        decoded: Json = msgspec.json.decode(response.partition(HEAD_END)[2])
        return decoded

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


def main() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    run_benchmark("rebalance", "Time rebalances of small and large groups.", main)
