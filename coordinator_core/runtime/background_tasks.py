"""Restart background loops after errors, so that one unexpected error does not disable a node."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

import structlog

from coordinator_core.runtime.memory import end_if_out_of_memory

log = structlog.get_logger("muster.runtime")

Work = Callable[[], Coroutine[None, None, None]]

RESTART_DELAY_S: Final = 0.25
"""How long a loop waits before it restarts."""


async def restart_on_error(name: str, loop: Work) -> None:
    """Run a loop without end; restart it after an error."""
    while True:
        await log_errors(name, loop)
        await asyncio.sleep(RESTART_DELAY_S)


async def log_errors(name: str, work: Work) -> None:
    """Do background work; log an unexpected error instead of raising it."""
    try:
        await work()
    except Exception as error:  # any error: there is no caller that could handle it
        end_if_out_of_memory(error)
        log.exception("background_loop_failed", loop=name)


async def cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
