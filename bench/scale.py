"""Compare the heartbeats a second of two nodes with those of one.

Each member sends to the node that serves its group; the load uses the same cores. The ceiling is twice the rate of one
node, which is measured before.

Run: python -m bench.scale [FILE]
"""

from dataclasses import dataclass

from bench.bench_servers import Place, in_durable_place, node, owner_of, until_shared
from bench.closed_loop import Load, median_load
from bench.cpu_time import Pids
from bench.figures import Figure, run_benchmark
from bench.group_members import Member, join_groups
from bench.http_load import post, put_load


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    connections: int = 64
    rounds: int = 5
    round_s: float = 2.0


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    with node(place) as first:
        members = join_groups([first.url], size.connections)
        alone = _median_load(size, members, place.pids(first))
        with node(place) as second:
            until_shared(first.url, second.url)
            together = _median_load(size, members, place.pids(first, second))
    twice = 2 * alone.per_s
    details = together.details()
    return [Figure("heartbeats of two nodes", together.per_s, "a second", "twice one node", twice, details=details)]


def _median_load(size: Size, members: list[Member], pids: Pids) -> Load:
    asked = [(owner_of(one.url), [post(f"{one.path}/heartbeat", one.body())]) for one in members]
    return median_load(put_load(asked, size.round_s, pids) for _ in range(size.rounds))


if __name__ == "__main__":
    run_benchmark("scale", "Compare two nodes with one.", in_durable_place(measure, Size()))
