"""Processes of the archive that halt after a step, and are killed there."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from muster.local.java import find_java, spark_environment
from tests.support.waiting import poll_until


@contextmanager
def process(
    program: ModuleType, *arguments: str, database_url: str, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of its own group, which is what the kernel and container engines kill."""
    base = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "MUSTER_"))}
    environment = base | spark_environment(find_java(tmp_path / "java"), base) | {"MUSTER_DATABASE_URL": database_url}
    command = [sys.executable, "-m", program.__name__, *arguments]
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield started
    finally:
        kill(started)


def kill(started: subprocess.Popen[bytes]) -> None:
    if started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def wait_until(is_so: Callable[[], bool], started: subprocess.Popen[bytes], log: Path) -> None:
    poll_until(lambda: is_so() or started.poll() is not None)
    assert is_so(), log.read_text(errors="replace")[-3000:]
