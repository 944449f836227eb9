"""A process that gets no memory for its own work ends; for a group's rows, the group is not blamed."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from coordinator_core.runtime.memory import OUT_OF_MEMORY_EXIT_CODE
from coordinator_core.state_store.postgres import loading

SCRIPT = """
import asyncio
from coordinator_core.runtime.background_tasks import log_errors

async def work():
    raise {error}

asyncio.run(log_errors("renewals", work))
"""


@pytest.mark.parametrize("error", ["MemoryError", 'RuntimeError("can\'t start new thread")'])
def test_process_ends_if_a_background_loop_gets_no_memory(error: str) -> None:
    ran = run(SCRIPT.format(error=error))
    assert ran.returncode == OUT_OF_MEMORY_EXIT_CODE
    assert ran.stderr == '{"event": "memory_exhausted", "level": "critical"}\n'


NO_MEMORY_FOR_OUTCOMES = """
import asyncio
from coordinator_core.runtime.clock import SystemThreads

class Loop(asyncio.SelectorEventLoop):
    def call_soon_threadsafe(self, *given, **options):
        raise MemoryError

async def main():
    await SystemThreads(1).write(lambda: None)

asyncio.Runner(loop_factory=Loop).run(main())
"""


def test_process_ends_if_the_outcome_of_a_thread_finds_no_memory() -> None:
    assert run(NO_MEMORY_FOR_OUTCOMES).returncode == OUT_OF_MEMORY_EXIT_CODE


def test_process_goes_on_after_another_error_of_a_background_loop() -> None:
    assert run(SCRIPT.format(error='RuntimeError("another")')).returncode == 0


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_group_is_not_unreadable_for_want_of_memory() -> None:
    class Row(list[object]):
        def __iter__(self) -> Iterator[object]:
            raise MemoryError

    with pytest.raises(MemoryError):
        loading._decoded(Row(), [])
