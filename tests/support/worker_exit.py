"""How a test process that died has ended: the name of a signal says whether it crashed or was killed."""

import signal
from typing import Any, Final

import pytest

WAIT_S: Final = 10.0
"""How long a process may take to end after its pipe has closed."""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ANN401 - a WorkerController, which has no types
    """Print the exit status of a process of pytest-xdist that has ended before its tests."""
    if error:
        status = node.gateway._io.popen.wait(WAIT_S)
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit code {status}"
        print(f"\n{node.gateway.id} ended {how}")  # noqa: T201 - beside xdist's own line
