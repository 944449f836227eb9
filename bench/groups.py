"""Measure listing, describing and loading 10,000 groups of three members, and their memory.

The ceilings: a bare route for pages and descriptions, 4 KiB for a member's memory, and reading the rows for loading.

Run: python -m bench.groups [FILE]
"""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from bench.bench_servers import Place, Server, ask, bare_server, in_durable_place, node, sums
from bench.closed_loop import Load
from bench.cpu_time import Pids
from bench.figures import Figure, run_benchmark
from bench.http_load import get, put_load
from bench.stable_groups import store_groups
from muster.settings import psql_url

MEMBER_BYTES = 4_096
CONNECTIONS = 8
DIFFERENT_GROUPS = 100
"""Different groups that a connection requests in turn."""
LOADED = "muster_shard_load_time_seconds_sum"


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    groups: int = 10_000
    members: int = 3
    round_s: float = 2.0


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    with node(place) as empty:
        before_bytes = _resident_bytes(empty)
    store_groups(place.database_url, size.groups, size.members)
    read_s = _read_all_s(place)
    with node(place) as muster, bare_server(place) as bare:
        member_bytes = (_resident_bytes(muster) - before_bytes) / (size.groups * size.members)
        load_s = sums(muster.url)[LOADED]
        listed = ask("GET", f"{muster.url}/v1/groups?limit=1000")["groups"]
        assert len(listed) == min(1_000, size.groups), f"{len(listed)} groups are listed"
        paths = {
            "pages of 100 groups": ["/v1/groups"],
            "groups described": [f"/v1/groups/many-{number % size.groups}" for number in range(DIFFERENT_GROUPS)],
        }
        bare_per_s = _load(bare, ["/asgi"], size.round_s, {}).per_s
        loads = {what: _load(muster, some, size.round_s, place.pids(muster)) for what, some in paths.items()}
        figures = [
            Figure(what, load.per_s, "a second", "a bare app", bare_per_s, details=load.details())
            for what, load in loads.items()
        ]
    return [
        *figures,
        Figure("memory of a member", member_bytes, "bytes", "4 KiB", MEMBER_BYTES, wanted=1.0, better="less"),
        Figure("loading of all groups", load_s * 1_000, "ms", "reading the rows", read_s * 1_000, better="less"),
    ]


def _load(server: Server, paths: list[str], round_s: float, pids: Pids) -> Load:
    requests = [get(path) for path in paths]
    return put_load([(server.url, requests)] * CONNECTIONS, round_s, pids)


def _resident_bytes(server: Server) -> int:
    status = Path(f"/proc/{server.child.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1_024


def _read_all_s(place: Place) -> float:
    with closing(psycopg2.connect(psql_url(place.database_url))) as connection, connection.cursor() as cursor:
        began_s = time.perf_counter()
        for table in ("groups", "members"):
            cursor.execute(f"SELECT * FROM {table} ORDER BY group_id")  # noqa: S608 - one of two names
            cursor.fetchall()
        return time.perf_counter() - began_s


if __name__ == "__main__":
    run_benchmark("groups", "Measure listing, describing and loading many groups.", in_durable_place(measure, Size()))
