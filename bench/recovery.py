"""When a node is killed, the other serves its groups within the lease and a second, however many offsets there are.

Two nodes share the groups; one is ended by SIGKILL, and every group is asked until it is answered by the other. The
ceiling is the lease's length and a second.

Run: python -m bench.recovery [FILE]
"""

import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass

import psycopg2

from bench.figures import Figure, tell
from bench.members import Member, join_groups
from bench.servers import Place, ask, durable_place, node, start_node, sums
from muster.processes import stop_children
from muster.settings import psql_url

PATIENCE_S = 60.0
POLL_S = 0.02
HALF = 'muster_num_shards{state="active"}'
FILL = """
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)
SELECT 'filled-' || number / 100, number / 100 %% 50, 'orders', number %% 100, number, now()
FROM generate_series(0, %s - 1) AS number
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    groups: int = 100
    offsets: tuple[int, ...] = (10_000, 2_000_000)
    lease_ttl_ms: int = 5_000


def measure(place: Place, size: Size) -> list[Figure]:
    """Measure."""
    return [_figure(place, size, offsets) for offsets in size.offsets]


def _figure(place: Place, size: Size, offsets: int) -> Figure:
    with (
        closing(psycopg2.connect(psql_url(place.database_url))) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("TRUNCATE offsets")
        cursor.execute(FILL, (offsets,))
    took_s = _lose_a_node(place, size)
    ceiling_s = size.lease_ttl_ms / 1_000 + 1
    what = f"serving again after kill -9, {offsets:,} offsets"
    return Figure(what, took_s, "s", "lease + 1 s", ceiling_s, wanted=1.0, better="less")


def _lose_a_node(place: Place, size: Size) -> float:
    """Return how long it takes until every group is answered again, in seconds."""
    with node(place, lease_ttl_ms=size.lease_ttl_ms) as survivor:
        victim = start_node(place, lease_ttl_ms=size.lease_ttl_ms)
        try:
            _wait_until_shared(survivor.url, victim.url)
            members = join_groups([survivor.url], size.groups)
            os.kill(victim.child.pid, signal.SIGKILL)
            began_s = time.monotonic()
            for member in members:
                _wait_until_answered(member)
            return time.monotonic() - began_s
        finally:
            stop_children([victim.child], 0)


def _wait_until_shared(*urls: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not all(sums(url)[HALF] for url in urls):
        assert time.monotonic() < deadline_s, "the shards were not shared"
        time.sleep(POLL_S)  # Nothing tells of a share but the page.


def _wait_until_answered(member: Member) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    body = {"generation": member.generation, "member_id": member.member_id}
    while "session_timeout_ms" not in (answer := ask("POST", f"{member.url}/heartbeat", body)):
        assert time.monotonic() < deadline_s, answer
        time.sleep(POLL_S)  # The lease must run out; whoever asks in between is told to ask again.


def main() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    tell("recovery", "Lose a node, and count the time.", main)
