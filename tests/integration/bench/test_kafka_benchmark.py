"""Run the comparison with Kafka with tiny sizes, and check that it is skipped where no broker can be had."""

import json
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from bench import kafka, kafka_broker, mirror
from bench.bench_servers import Place
from bench.figures import Figure, Skipped, report, run_benchmark, table
from muster.errors import UserError


@pytest.mark.slow
@pytest.mark.jvm
def test_kafka_benchmark_reports_figures(database_url: str, tmp_path: Path) -> None:
    commits = (kafka.Commits(1, 4, wanted=1.0), kafka.Commits(3, 2, wanted=1.0))
    size = kafka.Size(heartbeats=4, commits=commits, members=(2, 4), rounds=1, round_s=0.2)
    try:
        figures = kafka.measure(Place(database_url, tmp_path), size)
    except Skipped as why:
        pytest.skip(str(why))
    assert [figure.what for figure in figures] == [
        f"{what}, {how}"
        for what in (
            "heartbeats, 4 connections",
            "commits of 1 partition, 4 connections",
            "commits of 3 partitions, 2 connections",
            "rebalance of 2 members",
            "rebalance of 4 members",
        )
        for how in ("HTTP", "Kafka protocol")
    ] + [
        f"{what}, Kafka protocol, two nodes"
        for what in (
            "heartbeats, 4 connections",
            "commits of 1 partition, 4 connections",
            "commits of 3 partitions, 2 connections",
        )
    ]
    assert all(figure.value > 0 and figure.ceiling for figure in figures)
    assert {"node_cpu_us", "postgres_cpu_us", "kafka_cpu_us"} <= set(figures[0].details)


@pytest.mark.slow
@pytest.mark.jvm
def test_mirror_benchmark_reports_figures(database_url: str, tmp_path: Path) -> None:
    try:
        figures = mirror.measure(Place(database_url, tmp_path), mirror.Size(groups=6, partitions=2))
    except Skipped as why:
        pytest.skip(str(why))
    assert [figure.unit for figure in figures] == ["records/s", "s", "MB"]
    assert all(figure.value > 0 for figure in figures)


@pytest.mark.slow
@pytest.mark.jvm
def test_polling_benchmark_reports_figures(database_url: str, tmp_path: Path) -> None:
    try:
        figures = mirror.measure_polls(Place(database_url, tmp_path), mirror.Size(groups=6, partitions=2))
    except Skipped as why:
        pytest.skip(str(why))
    assert [figure.unit for figure in figures] == ["groups/s", "MB"]
    assert all(figure.value > 0 for figure in figures)


def test_a_skipped_benchmark_prints_one_sentence_and_writes_no_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure() -> NoReturn:
        raise Skipped("there is no broker")

    file = tmp_path / "kafka.json"
    monkeypatch.setattr(sys, "argv", ["bench.kafka", str(file)])
    run_benchmark("kafka", "Compare.", measure, notes=["A note on figures."])
    assert capsys.readouterr().out == "kafka is skipped: there is no broker.\n"
    written = json.loads(file.read_text())
    assert written["figures"] == []
    assert table([written]) == "kafka is skipped: there is no broker."


def test_a_missing_java_skips_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_java(_: Path) -> NoReturn:
        raise UserError("there is no Java")

    monkeypatch.setattr("tests.support.kafka_broker.find_java", find_java)
    with (
        pytest.raises(Skipped, match="Kafka needs Java 17 or newer, and there is none"),
        kafka_broker.kafka_broker(tmp_path, partitions=1, initial_rebalance_delay_ms=0),
    ):
        pass


def test_notes_stand_below_the_figures() -> None:
    written = report("x", [Figure("a figure", 1.0, "ms")], ["A note."])
    assert table([written]).splitlines()[1:] == ["A note."]
