"""Measure how the tables grow under a full load of commits, while a snapshot is open and after it.

64 members commit to 100 partitions each without a pause. Vacuum cannot remove what an open snapshot (a dump, a Spark
job) may still read, so the tables grow until it ends. Compared: the size of each table at the end with its size before
the snapshot, and the rate of commits in the last minutes with that in the first ones. The time comes from the
environment: MUSTER_BENCH_MINUTES (60), MUSTER_BENCH_SNAPSHOT_MINUTES (10); the snapshot begins after a third of it.

Run: python -m bench.bloat [FILE]
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import psycopg2

from bench.bench_servers import Place, durable_place, node
from bench.commits import DIFFERENT_BODIES, offsets_body
from bench.figures import Figure, Skipped, middle, run_benchmark
from bench.group_members import join_groups
from bench.http_load import post, put_load
from muster.settings import psql_url

TABLES: Final = ("offset_log", "offsets")
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark; times in steps."""

    connections: int = 64
    partitions: int = 100
    step_s: float = 60.0
    steps: int = 60
    snapshot_steps: int = 10

    def __post_init__(self) -> None:
        """Check that there are steps before, within and after the snapshot."""
        if self.steps < 3 or not 0 < self.snapshot_steps < self.steps - self.steps // 3:
            raise Skipped("two thirds of MUSTER_BENCH_MINUTES have to be longer than MUSTER_BENCH_SNAPSHOT_MINUTES")


class Step(NamedTuple):
    """The rate of commits in one step, and the sizes of the tables at its end."""

    per_s: float
    mib: Mapping[str, float]


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    with node(place) as muster, closing(psycopg2.connect(psql_url(place.database_url))) as connection:
        connection.autocommit = True
        members = join_groups([muster.url], size.connections)
        bodies = [[offsets_body(one, size.partitions, each) for each in range(DIFFERENT_BODIES)] for one in members]
        asked = [
            (one.url, [post(f"{one.path}/offsets", each) for each in some])
            for one, some in zip(members, bodies, strict=True)
        ]

        def steps(count: int) -> list[Step]:
            found = []
            for _ in range(count):
                per_s = put_load(asked, size.step_s).per_s
                found.append(Step(per_s, {table: _mib(connection, table) for table in TABLES}))
                _say(f"{per_s:,.0f} commits a second; " + _sizes(found[-1]))
            return found

        before = steps(size.steps // 3)
        with _snapshot(place):
            _say("a snapshot is open")
            meanwhile = steps(size.snapshot_steps)
        _say("it is closed")
        after = steps(size.steps - len(before) - len(meanwhile))
    return _figures(before, meanwhile, after)


def _figures(before: Sequence[Step], meanwhile: Sequence[Step], after: Sequence[Step]) -> list[Figure]:
    figures = []
    for table in TABLES:
        largest = max(step.mib[table] for step in before)
        for when, steps in (("with a snapshot", meanwhile), ("after it", after)):
            found = max(step.mib[table] for step in steps) if steps is meanwhile else steps[-1].mib[table]
            figures.append(Figure(f"{table} {when}", found, "MiB", "before it", largest, better="less"))
    first, last = (middle(step.per_s for step in steps) for steps in (before, after))
    slowest = middle(step.per_s for step in meanwhile)
    figures.append(Figure("commits of 100 partitions, with a snapshot", slowest, "a second", "before it", first))
    figures.append(Figure("commits of 100 partitions, after it", last, "a second", "before it", first, wanted=0.9))
    return figures


@contextmanager
def _snapshot(place: Place) -> Iterator[None]:
    """Hold a snapshot open, as a dump does."""
    with closing(psycopg2.connect(psql_url(place.database_url))) as connection, connection.cursor() as cursor:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        cursor.execute("SELECT count(*) FROM offsets")
        yield


def _mib(connection: psycopg2.extensions.connection, table: str) -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size(%s)", [table])
        ((size,),) = cursor.fetchall()
    return int(size) / MIB


def _sizes(step: Step) -> str:
    return ", ".join(f"{table} {mib:,.1f} MiB" for table, mib in step.mib.items())


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _all() -> list[Figure]:
    steps, snapshot = (int(os.environ.get(f"MUSTER_BENCH_{name}") or default) for name, default in _MINUTES.items())
    size = Size(steps=steps, snapshot_steps=snapshot)
    with durable_place() as place:
        return measure(place, size)


_MINUTES: Final = {"MINUTES": 60, "SNAPSHOT_MINUTES": 10}


if __name__ == "__main__":
    run_benchmark("bloat", "Measure how tables grow under load, with a snapshot open.", _all)
