"""Run each benchmark with tiny sizes and check that it reports figures."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from bench import bloat, commits, groups, heartbeats, rebalance, recovery, scale, tenants
from bench.__main__ import LONG, NAMES
from bench.bench_servers import Place
from bench.figures import Figure, report, table
from tests.support.repository import ROOT
from tests.support.waiting import poll_until

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "benchmarks.md"

MEASURES: dict[str, Callable[[Place], Sequence[Figure]]] = {
    "heartbeats": partial(heartbeats.measure, size=heartbeats.Size(connections=4, rounds=1, round_s=0.2)),
    "commits": partial(commits.measure, size=commits.Size(connections=4, partitions=(1, 3), rounds=1, round_s=0.2)),
    "rebalance": partial(rebalance.measure, size=rebalance.Size(members=(2, 4), rounds=1)),
    # Enough members that their memory is more than what two processes differ by.
    "groups": partial(groups.measure, size=groups.Size(groups=1_000, round_s=0.2)),
    "recovery": partial(recovery.measure, size=recovery.Size(groups=6, offsets=(100,), lease_ttl_ms=1_000)),
    "bloat": partial(
        bloat.measure, size=bloat.Size(connections=4, partitions=3, step_s=0.2, steps=3, snapshot_steps=1)
    ),
    "tenants": partial(
        tenants.measure,
        size=tenants.Size(
            members=2, connections=2, partitions=300, large_body_bytes=100_000, rounds=1, round_s=0.5, starts=1, turns=1
        ),
    ),
    "scale": partial(scale.measure, size=scale.Size(connections=4, rounds=1, round_s=0.2)),
}


@pytest.mark.parametrize("name", MEASURES)
def test_benchmark_reports_figures(name: str, database_url: str, tmp_path: Path) -> None:
    figures = MEASURES[name](Place(database_url, tmp_path))
    assert figures
    assert [figure for figure in figures if figure.value <= 0] == []
    if figures[0].unit == "a second" or name == "recovery":
        assert {"node_cpu_us", "postgres_cpu_us"} <= set(figures[0].details)
    written = json.loads(json.dumps(report(name, figures)))
    assert len(table([written]).splitlines()) == len(figures)


def test_an_unknown_benchmark_is_refused() -> None:
    run = subprocess.run([sys.executable, "-m", "bench", "nothing"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "invalid choice" in run.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_benchmark_removes_its_database(number: signal.Signals, tmp_path: Path) -> None:
    command, environment = [sys.executable, "-m", "bench", "bloat"], {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        poll_until(lambda: any(tmp_path.glob("muster-bench-*/*.log")))
        if number is signal.SIGINT:
            os.killpg(run.pid, number)  # as the terminal does
        else:
            run.send_signal(number)
    poll_until(lambda: not any(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("details", "shown"),
    [
        ({"p50_ms": 1.25, "p99_ms": 1234.5, "rows": 3.0}, "p50 1.25 ms, p99 1,234 ms"),
        ({"rows_a_second": 171_000.0}, "171,000 rows a second"),
        ({"postgres_cpu_us": 18.25, "node_cpu_us": 58.6}, "node CPU 58.6 µs, Postgres CPU 18.2 µs"),
    ],
    ids=["times", "rows", "processor times"],
)
def test_table_shows_details_of_a_figure(details: dict[str, float], shown: str) -> None:
    figure = Figure("x", 5.0, "a second", "y", 10.0, details=details)
    assert table([report("x", [figure])]).endswith(f"0.50 x y (10)  {shown}")


def test_page_lists_every_benchmark() -> None:
    headings = {line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## `")}
    assert headings == {f"`{name}`" for name in (*NAMES, *LONG)}


@pytest.mark.parametrize(
    ("better", "value", "is_as_wanted"), [("more", 6.0, True), ("more", 5.0, False), ("less", 7.0, False)]
)
def test_a_figure_meets_its_target_by_its_ratio(better: str, value: float, is_as_wanted: bool) -> None:
    figure = Figure("x", value, "a second", "y", 10.0, wanted=0.6, better=better)  # type: ignore[arg-type]  # both are kinds of it
    assert figure.is_as_wanted is is_as_wanted
    assert ("MISSED" in table([report("x", [figure])])) is not is_as_wanted
