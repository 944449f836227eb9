"""Turns of the event loop: when thousands of members join or sync at once, heartbeats of others come in between."""

import asyncio
from collections import deque
from typing import Final

LONG_POLLS_AT_ONCE: Final = 100
"""How many joins and syncs begin in one turn; they take some ten milliseconds."""


class LongPollTurns:
    """Limits how many long polls begin before the event loop reads its sockets again."""

    def __init__(self) -> None:
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Long polls that begin in a later turn, in order."""

    async def wait(self) -> None:
        """Return in this turn of the event loop, or in a later one if too many long polls have begun in it."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._begun < LONG_POLLS_AT_ONCE:
            self._begun += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _next_turn(self) -> None:
        """Let the longest waiting begin; new ones begin at once only if none waits."""
        self._begun = 0
        while self._waiting and self._begun < LONG_POLLS_AT_ONCE:
            turn = self._waiting.popleft()
            if not turn.done():  # A client may have gone meanwhile.
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
