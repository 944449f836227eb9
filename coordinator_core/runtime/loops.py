"""A node's own loops go on, whatever breaks them: without one of them a node would seem well and do nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

import structlog

log = structlog.get_logger("muster.runtime")

Work = Callable[[], Coroutine[None, None, None]]

REST_S: Final = 0.25
"""How long a loop rests after something broke it."""


async def kept_running(name: str, loop: Work) -> None:
    """Run a loop for ever, from its beginning after an error."""
    while True:
        await told(name, loop)
        await asyncio.sleep(REST_S)


async def told(name: str, work: Work) -> None:
    """Do work that nobody asked for; an error that nobody foresaw goes into the log and no further."""
    try:
        await work()
    except Exception:  # whatever it is, there is no caller to be told
        log.exception("loop_broke", loop=name)
