"""What the platform's tests share: children that are gone after the test, whatever it did."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.child_registry import ChildRegistry
from muster.processes import ChildProcesses, ChildSpec
from tests.waiting import poll_until

MakeSpec = Callable[..., ChildSpec]


@pytest.fixture
def registry(tmp_path: Path) -> ChildRegistry:
    return ChildRegistry(tmp_path / "children.json")


@pytest.fixture
def children(registry: ChildRegistry) -> Iterator[ChildProcesses]:
    processes = ChildProcesses(registry)
    yield processes
    processes.stop(timeout_s=0)


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    """Make the spec of a child that runs a few lines of Python."""

    def make(script: str, name: str = "child", **options: object) -> ChildSpec:
        return ChildSpec(
            name=name,
            argv=(sys.executable, "-c", script),
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            log_file=tmp_path / f"{name}.log",
            **options,  # type: ignore[arg-type]  # what a test leaves out has a default
        )

    return make


@pytest.fixture
def said(tmp_path: Path) -> Callable[[str], str]:
    """Wait until a child's log holds a whole line, and return the first one."""

    def read(name: str = "child") -> str:
        log = tmp_path / f"{name}.log"
        poll_until(lambda: log.exists() and "\n" in log.read_text())
        return log.read_text().splitlines()[0]

    return read
