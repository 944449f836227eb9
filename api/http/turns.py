"""Turns of the event loop: when thousands of members join or sync at once, heartbeats of others come in between."""

import asyncio
from typing import Final

LONG_POLLS_AT_ONCE: Final = 100
"""How many joins and syncs begin in one turn; they take some ten milliseconds."""


class LongPollTurns:
    """Limits how many long polls begin before the event loop reads its sockets again."""

    def __init__(self) -> None:
        self._begun = 0

    async def wait(self) -> None:
        """Return in this turn of the event loop, or in a later one if too many long polls have begun in it."""
        while self._begun >= LONG_POLLS_AT_ONCE:  # noqa: ASYNC110 - an event would wake all of them at once as well
            await asyncio.sleep(0)
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._begun += 1

    def _next_turn(self) -> None:
        self._begun = 0
