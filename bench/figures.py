"""Figures of a benchmark: value, ceiling and target, printed as a table and written as JSON."""

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

Json = dict[str, Any]

SHOWN: Final = {
    "p50_ms": "p50 {} ms",
    "p99_ms": "p99 {} ms",
    "rows_a_second": "{} rows a second",
    "node_cpu_us": "node CPU {} µs",
    "postgres_cpu_us": "Postgres CPU {} µs",
    "bare_cpu_us": "bare CPU {} µs",
    "spark_cpu_us": "Spark CPU {} µs",
    "whole_ms": "with Postgres {} ms",
    "idle_ms": "{} ms on an idle node",
    "refused": "{} requests refused",
    "alone_p50_ms": "p50 {} ms alone",
    "alone_p99_ms": "p99 {} ms alone",
    "kafka_p50_ms": "Kafka p50 {} ms",
    "kafka_p99_ms": "Kafka p99 {} ms",
    "kafka_cpu_us": "Kafka CPU {} µs",
}
"""Details printed behind a figure, and their format. `CPU` is processor time a request, or a row."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value and its ceiling."""

    what: str
    value: float
    unit: str
    beside: str = ""
    """Name of the ceiling; empty without one."""
    ceiling: float | None = None
    wanted: float | None = None
    """The target ratio: a minimum, or a maximum if less is better."""
    better: Literal["more", "less"] = "more"
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Return value / ceiling."""
        return self.value / self.ceiling if self.ceiling else None

    @property
    def is_as_wanted(self) -> bool | None:
        """Return whether the ratio meets its target; None without a target."""
        if self.ratio is None or self.wanted is None:
            return None
        return self.ratio >= self.wanted if self.better == "more" else self.ratio <= self.wanted


class Skipped(Exception):
    """The benchmark cannot run on this machine; the message says why."""


def report(name: str, figures: Iterable[Figure], notes: Iterable[str] = ()) -> Json:
    """Return figures and notes on them as JSON, with a description of the machine."""
    return {
        "benchmark": name,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "figures": [{**asdict(each), "ratio": each.ratio, "is_as_wanted": each.is_as_wanted} for each in figures],
        "notes": [*notes],
    }


def run_benchmark(name: str, sentence: str, measure: Callable[[], Sequence[Figure]], notes: Iterable[str] = ()) -> None:
    """Run a benchmark's command line: measure, print, and write the figures if a path is given."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=sentence)
    parser.add_argument("file", type=Path, nargs="?", help="path for the figures as JSON")
    file: Path | None = parser.parse_args().file
    try:
        written = report(name, measure(), notes)
    except Skipped as why:
        written = report(name, [], [f"{name} is skipped: {why}."])
    print(table([written]))
    if file is not None:
        file.write_text(json.dumps(written, indent=2) + "\n")


def table(reports: Iterable[Json]) -> str:
    """Return figures as lines of text, each benchmark's notes below them."""
    return "\n".join(line for one in reports for line in (*map(_line, one["figures"]), *one["notes"]))


def _line(figure: Json) -> str:
    parts = [f"{figure['what']:<56} {_number(figure['value']):>9} {figure['unit']:<12}"]
    if figure["ratio"] is not None:
        sign = "≥" if figure["better"] == "more" else "≤"
        wanted = "" if figure["wanted"] is None else f"  {sign} {figure['wanted']:.2f}"
        miss = "  MISSED" if figure["is_as_wanted"] is False else ""
        parts.append(f"{figure['ratio']:>6.2f} x {figure['beside']} ({_number(figure['ceiling'])}){wanted}{miss}")
    details = figure["details"]
    if shown := [text.format(_number(details[name])) for name, text in SHOWN.items() if name in details]:
        parts.append(f" {', '.join(shown)}")
    return " ".join(parts).rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def middle(values: Iterable[float]) -> float:
    """Return the median, which resists disturbances on a shared machine."""
    return median(values)
