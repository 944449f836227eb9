"""Time each Spark job against a bare read of its rows, on millions of offsets and weeks of history.

Each job runs in its own process with 1 GiB of heap. Targets: `offset_retention` takes at most 1.5 times the read, and
ten times the offsets take at most ten times as long. Sizes come from the environment:
MUSTER_BENCH_OFFSETS (1000000,10000000), MUSTER_BENCH_OFFSETS_A_GROUP (50), MUSTER_BENCH_HISTORY_GROUPS (5000),
MUSTER_BENCH_HISTORY_DAYS (30), MUSTER_BENCH_ROUNDS (3). The full size takes almost an hour; progress goes to
standard error. With MUSTER_SPARK_MASTER=spark://… the jobs run on that cluster, and the heap of its executors is
reported too.

Run: python -m bench.jobs [FILE]
"""

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.bench_servers import Place, in_durable_place
from bench.figures import Figure, run_benchmark
from bench.job_rounds import JobRounds
from bench.synthetic_history import HistorySize, fill_history, fill_offsets
from muster.local.java import find_java, spark_environment
from spark_jobs.database import parse_url
from spark_jobs.submit import JOBS

OF_OFFSETS: Final = ("offset_retention", "group_cleanup")
WANTED: Final = {"offset_retention": 1.5}
HEAP_MB: Final = 1024.0
ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark; `offsets` in increasing order."""

    offsets: tuple[int, ...] = (1_000_000, 10_000_000)
    offsets_a_group: int = 50
    past: HistorySize = field(default_factory=HistorySize)
    rounds: int = 3
    jobs: tuple[str, ...] = tuple(JOBS)


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    figures: list[Figure] = []
    by_size: dict[str, list[JobRounds]] = {}
    filled = 0
    for step, offsets in enumerate(size.offsets):
        _say(f"generating {offsets - filled:,} offsets")
        with closing(parse_url(place.database_url).connect()) as connection:
            fill_offsets(connection, offsets - filled, (offsets - filled) // size.offsets_a_group, seed=step + 1)
        filled = offsets
        for job in (job for job in OF_OFFSETS if job in size.jobs):
            measured = _rounds(place, size, job)
            by_size.setdefault(job, []).append(measured)
            figures += _figures(f"{job}, {offsets:,} offsets", measured, WANTED.get(job))
    figures += [_growth(job, size, measured) for job, measured in by_size.items() if len(measured) > 1]
    return figures + _of_history(place, size)


def _of_history(place: Place, size: Size) -> list[Figure]:
    _say(f"generating {size.past.days} days of history of {size.past.groups:,} groups")
    with closing(parse_url(place.database_url).connect()) as connection:
        fill_history(connection, size.past)
    what = f"{size.past.groups:,} groups, {size.past.days} days"
    jobs = [job for job in size.jobs if job not in OF_OFFSETS]
    return [figure for job in jobs for figure in _figures(f"{job}, {what}", _rounds(place, size, job), None)]


def _rounds(place: Place, size: Size, job: str) -> JobRounds:
    """Run a job in its own process."""
    _say(f"{job}: running, once to warm up and {size.rounds} times for measurement")
    environment = {**os.environ, **spark_environment(find_java(place.directory), os.environ)}
    archive = (place.directory / "archive").as_uri()
    command = [sys.executable, "-m", "bench.job_rounds", place.database_url, archive, str(size.rounds), job]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{job}: {ran.stderr[-4000:]}"
    measured = JobRounds(**json.loads(ran.stdout.splitlines()[-1]))
    _say(f"{job}: {measured.job_s:,.1f} s, a bare read of its {measured.rows:,} rows {measured.read_s:,.1f} s")
    return measured


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _figures(what: str, measured: JobRounds, wanted: float | None) -> list[Figure]:
    details = {
        "rows_read": measured.rows,
        "rows_a_second": measured.rows / measured.job_s,
        "resident_mb": measured.resident_mb,
        "spark_cpu_us": measured.spark_cpu_us,
        "postgres_cpu_us": measured.postgres_cpu_us,
    }
    beside = f"a bare read of {measured.rows:,} rows"
    whole = Figure(f"{what}, against all of them", measured.job_s, "s", "a bare read of all offsets", measured.table_s)
    return [
        *([whole] if measured.table_s else []),
        Figure(what, measured.job_s, "s", beside, measured.read_s, wanted=wanted, better="less", details=details),
        _heap("  its peak heap", measured.heap_mb),
        *([_heap("  an executor's peak heap", measured.executor_heap_mb)] if measured.executor_heap_mb else []),
    ]


def _heap(what: str, heap_mb: float) -> Figure:
    return Figure(what, heap_mb, "MiB", "its limit", HEAP_MB, wanted=1.0, better="less")


def _growth(job: str, size: Size, measured: list[JobRounds]) -> Figure:
    first, last = measured[0].job_s / size.offsets[0], measured[-1].job_s / size.offsets[-1]
    what = f"{job}, a million of {size.offsets[-1]:,} offsets"
    beside = f"a million of {size.offsets[0]:,}"
    return Figure(what, last * 1e6, "s", beside, first * 1e6, wanted=1.0, better="less")


def _size() -> Size:
    """Read the size from the environment."""
    numbers = {name: os.environ.get(f"MUSTER_BENCH_{name}", "") for name in ("OFFSETS", *_NUMBERS)}
    offsets = tuple(int(each) for each in numbers["OFFSETS"].split(",")) if numbers["OFFSETS"] else Size().offsets
    given = {name: int(numbers[name] or default) for name, default in _NUMBERS.items()}
    past = HistorySize(groups=given["HISTORY_GROUPS"], days=given["HISTORY_DAYS"])
    return Size(offsets, given["OFFSETS_A_GROUP"], past, given["ROUNDS"])


_NUMBERS: Final = {"OFFSETS_A_GROUP": 50, "HISTORY_GROUPS": 5_000, "HISTORY_DAYS": 30, "ROUNDS": 3}


if __name__ == "__main__":
    main = in_durable_place(measure, _size())
    run_benchmark("jobs", "Time each Spark job against a bare read of the same rows.", main)
