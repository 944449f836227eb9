"""Two nodes on two cores answer more heartbeats than one; the load takes its part of the cores too.

Each member asks the node that serves its group. The ceiling is twice what one node answers. Rounds take turns.

Run: python -m bench.scale [FILE]
"""

import time
from dataclasses import dataclass

from bench.figures import Figure, middle, tell
from bench.http_load import post, put_load
from bench.members import Member, join_groups
from bench.servers import Place, durable_place, node, owner_of, sums

PATIENCE_S = 60.0
POLL_S = 0.05
OWNED = 'muster_num_shards{state="active"}'


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    connections: int = 64
    rounds: int = 5
    round_s: float = 2.0


def measure(place: Place, size: Size) -> list[Figure]:
    """Measure."""
    with node(place) as first:
        members = join_groups([first.url], size.connections)
        alone = middle(_per_s(members, size.round_s) for _ in range(size.rounds))
        with node(place) as second:
            _wait_until_shared(first.url, second.url)
            together = middle(_per_s(members, size.round_s) for _ in range(size.rounds))
    return [Figure("heartbeats of two nodes", together, "a second", "twice one node", 2 * alone)]


def _per_s(members: list[Member], round_s: float) -> float:
    asked = [(owner_of(one.url), [post(f"{one.path}/heartbeat", one.body())]) for one in members]
    return put_load(asked, round_s).per_s


def _wait_until_shared(*urls: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while len({sums(url)[OWNED] for url in urls}) > 1:
        assert time.monotonic() < deadline_s, "the shards were not shared"
        time.sleep(POLL_S)  # Nothing tells of a share but the page.


def main() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    tell("scale", "Compare two nodes with one.", main)
