"""Time rebalances of small and large groups; the target is linear growth.

All members but one have rejoined and wait. The time runs from the last member's join until the last sync response. The
ceiling is as many concurrent round trips to a bare route.

Run: python -m bench.rebalance [FILE]
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
import uvloop

from bench.bench_servers import Place, bare_server, durable_place, node, sums
from bench.figures import Figure, Json, middle, run_benchmark
from bench.group_members import join_body
from bench.http_load import post

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
            took_ms[count] = uvloop.run(_rebalances_ms(muster.url, count, size.rounds))
            bare_ms = uvloop.run(_round_trips_ms(bare.url, count, size.rounds))
            what = f"rebalance of {count:,} members"
            figures.append(Figure(what, took_ms[count], "ms", "bare round trips", bare_ms, better="less"))
    for small, large in zip(size.members, size.members[1:], strict=False):
        growth, linear = took_ms[large] / took_ms[small], large / small
        what = f"growth from {small:,} to {large:,} members"
        figures.append(Figure(what, growth, "times", "linear", linear, wanted=WANTED_GROWTH, better="less"))
    return figures


async def _rebalances_ms(url: str, count: int, rounds: int) -> float:
    path = f"/v1/groups/rebalance-{count}-{uuid4().hex[:8]}"
    members = [await _Member.connected(url, path) for _ in range(count)]
    joined = await asyncio.gather(*(member.join() for member in members))
    leader_id = joined[0]["leader"]
    members.sort(key=lambda member: member.member_id != leader_id)
    await _sync_all(members)
    took_ms = [await _rebalance_ms(url, members) for _ in range(rounds)]
    for member in members:
        member.close()
    return middle(took_ms)


async def _rebalance_ms(url: str, members: Sequence["_Member"]) -> float:
    """Let all members join and sync, the leader first; return the time since the last join."""
    leader, *others = members
    waiting = [asyncio.create_task(leader.join())]
    await _until_parked(url, 1)
    waiting += [asyncio.create_task(member.join()) for member in others[:-1]]
    await _until_parked(url, len(others))
    began_s = time.perf_counter()
    joined = await asyncio.gather(*waiting, others[-1].join())
    await _sync_all(members)
    took_s = time.perf_counter() - began_s
    assert len({answer["generation"] for answer in joined}) == 1, "all members are in one generation"
    return took_s * 1_000


async def _until_parked(url: str, count: int) -> None:
    while (await asyncio.to_thread(sums, url))[PARKED] < count:  # noqa: ASYNC110 - only the node knows who is parked
        await asyncio.sleep(POLL_S)


async def _sync_all(members: Sequence["_Member"]) -> None:
    nothing: Json = {"partitions": []}
    everybody: list[Json] = [{"member_id": member.member_id, "assignment": nothing} for member in members]
    leader, *others = members
    await asyncio.gather(leader.sync(everybody), *(member.sync([]) for member in others))


async def _round_trips_ms(url: str, count: int, rounds: int) -> float:
    """Return how long the bare route takes to answer all members twice."""
    members = [await _Member.connected(url, "/asgi") for _ in range(count)]
    took_ms = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        for _ in range(2):
            await asyncio.gather(*(member.ask("/asgi", {}) for member in members))
        took_ms.append((time.perf_counter() - began_s) * 1_000)
    for member in members:
        member.close()
    return middle(took_ms)


class _Member:
    """A member with its own connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self.member_id = ""
        self.generation = -1
        self._path = path
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connected(cls, url: str, path: str) -> Self:
        place = urlsplit(url)
        return cls(*await asyncio.open_connection(place.hostname, place.port), path)

    async def join(self) -> Json:
        answer = await self.ask(f"{self._path}/join", join_body(self.member_id))
        self.member_id, self.generation = answer["member_id"], answer["generation"]
        return answer

    async def sync(self, assignments: list[Json]) -> None:
        body = {"generation": self.generation, "member_id": self.member_id, "assignments": assignments}
        await self.ask(f"{self._path}/sync", body)

    async def ask(self, path: str, body: object) -> Json:
        self._writer.write(post(path, msgspec.json.encode(body)))
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
        answer: Json = msgspec.json.decode(await self._reader.readexactly(length))
        assert head.startswith(b"HTTP/1.1 200"), answer
        return answer

    def close(self) -> None:
        self._writer.close()


def main() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    run_benchmark("rebalance", "Time rebalances of small and large groups.", main)
