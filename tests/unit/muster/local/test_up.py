"""Start and supervision of the local platform: ports are checked; a failure such as a full disk is tried again."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.data_dir import DataDir
from muster.errors import UserError
from muster.live_view import Step
from muster.local import up
from muster.local.processes import ChildDeath
from muster.local.up import LocalPlatform, run_up
from muster.settings import load_settings


class Stopped(Exception):
    """The test has seen enough."""


class FakePostgres:
    """A Postgres that has ended, and starts again at the second attempt."""

    child = None

    def __init__(self, log_file: Path) -> None:
        self.log_file = log_file
        self.starts = 0

    def is_alive(self) -> bool:
        return self.starts > 1

    def start(self, _: object) -> None:
        self.starts += 1
        if not self.is_alive():
            raise UserError("The disk of its log is full; make room and start again.")


class FakeChildren:
    """Children whose record finds no space at first."""

    def __init__(self) -> None:
        self.ticks = 0

    def tick(self) -> list[object]:
        self.ticks += 1
        if self.ticks == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "children.json")
        raise Stopped

    def pids(self) -> set[int]:
        return set()


class FakeStop:
    """A stop that is never requested, and waits that take no time."""

    def raise_if_requested(self) -> None:
        pass

    def wait(self, timeout_s: float) -> None:
        pass


class FakeView:
    """A view that keeps the events, and the notes of steps."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.notes: list[str] = []

    def event(self, sentence: str) -> None:
        self.events.append(sentence)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        step = Step(name)
        yield step
        self.notes.append(step.note)


class PausedAirflow:
    """An Airflow in which an operator has paused every DAG."""

    def is_paused(self, dag_id: str) -> bool:
        return True


class NoRuns:
    """A reader of a node without runs."""

    last = SimpleNamespace(runs=())


def test_full_disk_is_reported_and_the_platform_goes_on_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres, view = FakePostgres(tmp_path / "postgres.log"), FakeView()
    monkeypatch.setattr(up, "embedded_postgres", lambda _: postgres)
    parts: list[Any] = [DataDir(tmp_path), None, FakeStop(), FakeChildren(), view]
    platform = LocalPlatform(load_settings(data_dir=tmp_path), [], *parts)

    with pytest.raises(Stopped):
        platform.watch()
    assert view.events == [
        "Postgres ended; it starts again.",
        "The disk of its log is full; make room and start again. It is tried again in 10 s.",
        "Postgres ended; it starts again.",
        "The disk is full (children.json); make room and start again. It is tried again in 10 s.",
    ]


def test_paused_dag_is_not_triggered_at_the_start(tmp_path: Path) -> None:
    """Its run would wait in Airflow's queue, beside those of former starts."""
    view = FakeView()
    parts: list[Any] = [DataDir(tmp_path), None, FakeStop(), FakeChildren(), view]
    platform = LocalPlatform(load_settings(data_dir=tmp_path), [], *parts)
    airflow: Any = PausedAirflow()
    reader: Any = NoRuns()
    platform._run_first_maintenance(airflow, reader)
    platform._run_first_report(airflow)
    assert view.notes == [
        "offset_retention is paused in Airflow",
        "assignment_balance_audit is paused in Airflow",
    ]


class LongRunningAirflow:
    """An Airflow that has run for longer than its runs are kept."""

    def __init__(self) -> None:
        self.removed: list[int] = []

    def remove_old_logs(self, keep_days: int) -> None:
        self.removed.append(keep_days)

    def cleanup(self, keep_days: int) -> str:
        return f"cleanup of {keep_days} days"


class ChildrenThatEnd:
    """Children that end in this order, and a record of those that were started."""

    def __init__(self, *deaths: ChildDeath) -> None:
        self.started: list[object] = []
        self._deaths = list(deaths)

    def start(self, spec: object) -> None:
        self.started.append(spec)

    def tick(self) -> list[ChildDeath]:
        return [self._deaths.pop(0)] if self._deaths else []

    def pids(self) -> set[int]:
        return set()


def test_old_runs_of_airflow_are_removed_once_a_day_and_only_a_failure_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres, view = FakePostgres(tmp_path / "postgres.log"), FakeView()
    postgres.starts = 2
    monkeypatch.setattr(up, "embedded_postgres", lambda _: postgres)
    done, failed = (ChildDeath("airflow-cleanup", code, None, Path("airflow-cleanup.log")) for code in (0, 1))
    children, airflow = ChildrenThatEnd(done, failed), LongRunningAirflow()
    parts: list[Any] = [DataDir(tmp_path), None, FakeStop(), children, view]
    platform = LocalPlatform(load_settings(data_dir=tmp_path, airflow_keep_days=9), [], *parts)
    platform._airflow = airflow  # type: ignore[assignment]  # a fake
    for _ in range(3):
        platform._tick()
    assert (children.started, airflow.removed) == (["cleanup of 9 days"], [9])
    assert view.events == ["airflow-cleanup ended with exit code 1 (airflow-cleanup.log)."]


def refusal(data_dir: Path, *, http_port: int, node_count: int, with_airflow: bool) -> str:
    """Return why a platform is not started in a directory that is in use, which is looked for after its ports."""
    settings = load_settings(data_dir=data_dir, http_port=http_port)
    DataDir(data_dir).create()
    with DataDir(data_dir).locked("up"), pytest.raises(UserError) as refused:
        run_up(settings, node_count=node_count, with_airflow=with_airflow, with_demo=True)
    return refused.value.sentence


def test_two_parts_with_one_port_are_refused_before_anything_starts(tmp_path: Path) -> None:
    sentence = refusal(tmp_path, http_port=8_081, node_count=1, with_airflow=True)
    assert sentence.startswith("Port 8081 is that of --port and of --airflow-port;")
    assert "is using" in refusal(tmp_path, http_port=8_081, node_count=1, with_airflow=False)


def test_kafka_listener_of_the_fleet_is_left_out_if_a_node_has_its_port(tmp_path: Path) -> None:
    assert "is using" in refusal(tmp_path, http_port=9_090, node_count=3, with_airflow=False)
