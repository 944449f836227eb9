"""Measure heartbeats while a node expires a million offsets.

The same members send heartbeats in rounds, first alone, then while a proposal is applied; each p99 is the median of
the rounds. MUSTER_BENCH_EXPIRIES (1000000) sets the number of offsets.

Run: python -m bench.expiries [FILE]
"""

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from bench.bench_servers import Place, in_durable_place, node
from bench.closed_loop import Load, median_load
from bench.cpu_time import Pids
from bench.figures import Figure, middle, run_benchmark
from bench.group_members import Member, join_groups
from bench.http_load import post, put_load
from bench.synthetic_history import fill_offsets
from coordinator_core.state_store.runs import FINISHED
from muster.cli.runs import RUNS, read_run
from muster.node_client import NodeClient
from spark_jobs.database import parse_url

WANTED: Final = 2.0
PROPOSAL: Final = """
INSERT INTO maintenance_runs (run_id, kind, as_of, status) VALUES (%(run_id)s, 'offset_retention', now(), 'proposed');
INSERT INTO expiry_candidates (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason)
SELECT %(run_id)s, group_id, shard_id, topic, partition, commit_version, committed_at, 'simple_group'
FROM offsets WHERE committed_at < now() - interval '7 days';
ANALYZE expiry_candidates;
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    offsets: int = 1_000_000
    offsets_a_group: int = 50
    connections: int = 64
    rounds: int = 7
    round_s: float = 2.0


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    run_id = str(uuid4())
    with closing(parse_url(place.database_url).connect()) as connection:
        fill_offsets(connection, size.offsets, size.offsets // size.offsets_a_group, is_due=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(PROPOSAL, {"run_id": run_id})
    with node(place) as muster:
        members = join_groups([muster.url], size.connections)
        pids = place.pids(muster)
        alone = [_beat(muster.url, members, size, pids) for _ in range(size.rounds)]
        operator = NodeClient(muster.url, "bench")
        run = operator.post(f"{RUNS}/{run_id}/apply", {"reason": "a benchmark"})
        began_s = time.perf_counter()
        beside = []
        while run["status"] not in FINISHED:
            beside.append(_beat(muster.url, members, size, pids))
            run = read_run(operator, run_id)
        took_s = time.perf_counter() - began_s
    assert run["counts"].get("expired") == size.offsets, run
    return _figures(size, alone, beside or alone, took_s)


def _beat(url: str, members: Sequence[Member], size: Size, pids: Pids) -> Load:
    return put_load([(url, [post(f"{one.path}/heartbeat", one.body())]) for one in members], size.round_s, pids)


def _figures(size: Size, alone: Sequence[Load], beside: Sequence[Load], took_s: float) -> list[Figure]:
    p99_alone, p99_beside = (middle(load.p99_ms for load in loads) for loads in (alone, beside))
    rate_alone, rate_beside = (median_load(loads) for loads in (alone, beside))
    details = {"highest_p99_ms": max(load.p99_ms for load in beside), "rounds": len(beside)}
    return [
        Figure(
            "p99 of heartbeats while offsets expire",
            p99_beside,
            "ms",
            "alone",
            p99_alone,
            wanted=WANTED,
            better="less",
            details=details,
        ),
        Figure(
            "heartbeats while offsets expire",
            rate_beside.per_s,
            "a second",
            "alone",
            rate_alone.per_s,
            details=rate_beside.details(),
        ),
        Figure(f"{size.offsets:,} offsets expired", size.offsets / took_s, "a second"),
    ]


if __name__ == "__main__":
    offsets = int(os.environ.get("MUSTER_BENCH_EXPIRIES") or Size().offsets)
    main = in_durable_place(measure, Size(offsets))
    run_benchmark("expiries", "Measure heartbeats while a million offsets expire.", main)
