"""Measure how long a failover takes after a node is killed, with few and many offsets.

Two nodes share the groups; one gets SIGKILL, and every group is requested until the other node answers. The ceiling is
the lease's duration plus one second.

Run: python -m bench.recovery [FILE]
"""

import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass

import psycopg2

from bench.bench_servers import Place, ask, in_durable_place, node, start_node, until_shared
from bench.cpu_time import CpuMeter
from bench.figures import Figure, run_benchmark
from bench.group_members import Member, join_groups
from muster.local.processes import stop_children
from muster.settings import psql_url

WAIT_TIMEOUT_S = 60.0
POLL_S = 0.02
FILL = """
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)
SELECT 'filled-' || number / 100, number / 100 %% 50, 'orders', number %% 100, number, now()
FROM generate_series(0, %s - 1) AS number
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    groups: int = 100
    offsets: tuple[int, ...] = (10_000, 2_000_000)
    lease_ttl_ms: int = 5_000


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    return [_figure(place, size, offsets) for offsets in size.offsets]


def _figure(place: Place, size: Size, offsets: int) -> Figure:
    with (
        closing(psycopg2.connect(psql_url(place.database_url))) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("TRUNCATE offsets")
        cursor.execute(FILL, (offsets,))
    took_s, used = _lose_a_node(place, size)
    ceiling_s = size.lease_ttl_ms / 1_000 + 1
    what = f"serving again after kill -9, {offsets:,} offsets"
    return Figure(what, took_s, "s", "lease + 1 s", ceiling_s, wanted=1.0, better="less", details=used)


def _lose_a_node(place: Place, size: Size) -> tuple[float, dict[str, float]]:
    """Return the seconds until every group is served again, and the processor time for each group."""
    with node(place, lease_ttl_ms=size.lease_ttl_ms) as survivor:
        victim = start_node(place, lease_ttl_ms=size.lease_ttl_ms)
        try:
            until_shared(survivor.url, victim.url)
            members = join_groups([survivor.url], size.groups)
            meter = CpuMeter(place.pids(survivor))
            os.kill(victim.child.pid, signal.SIGKILL)
            began_s = time.monotonic()
            for member in members:
                _wait_until_answered(member)
            return time.monotonic() - began_s, meter.details(size.groups)
        finally:
            stop_children([victim.child], 0)


def _wait_until_answered(member: Member) -> None:
    deadline_s = time.monotonic() + WAIT_TIMEOUT_S
    body = {"generation": member.generation, "member_id": member.member_id}
    while "session_timeout_ms" not in (answer := ask("POST", f"{member.url}/heartbeat", body)):
        assert time.monotonic() < deadline_s, answer
        time.sleep(POLL_S)  # Requests are refused until the lease expires.


if __name__ == "__main__":
    run_benchmark("recovery", "Measure the failover after a killed node.", in_durable_place(measure, Size()))
