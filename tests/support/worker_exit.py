"""How a test process that died has ended: the name of a signal says whether it crashed or was killed."""

import signal
import subprocess
from typing import Any, Final

import pytest

WAIT_S: Final = 10.0
"""How long a process may take to end after its pipe has closed."""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ANN401 - a WorkerController, which has no types
    """Print the exit status of a process of pytest-xdist that has ended before its tests."""
    if error:
        print(f"\n{node.gateway.id} {_how_it_ended(node.gateway._io.popen)}")  # noqa: T201 - beside xdist's own line


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        status = process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        return "has closed its pipe and still runs"
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"
