"""The requests of one shard that wait for their responses (Kafka's purgatory), as futures by token."""

import asyncio
from collections.abc import Sequence
from typing import Final

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.requests import Token
from coordinator_core.protocol.responses import Answer, Reply
from coordinator_core.runtime.counters import Counters

REPLIES_AT_ONCE: Final = 25
"""Sending so many responses takes some milliseconds; heartbeats of other groups come between two lots."""


def completed_future(answer: Answer, loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Future[Answer]:
    """Return a future that has completed with an answer; finding the `loop` that runs takes a system call."""
    future = (loop or asyncio.get_running_loop()).create_future()
    future.set_result(answer)
    return future


class WaitingRequests:
    """The futures of the requests; `counters.waiting_requests` counts them."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.loop: Final = asyncio.get_running_loop()
        self._futures: dict[Token, asyncio.Future[Answer]] = {}

    def wait(self, token: Token) -> asyncio.Future[Answer]:
        """Return the future of a request, which `reply` completes."""
        future = self._futures[token] = self.loop.create_future()
        self._counters.waiting_requests += 1
        return future

    def reply(self, replies: Sequence[Reply]) -> None:
        """Complete the futures of some requests, and of the others after the event loop has read its sockets."""
        futures = self._futures
        for reply in replies[:REPLIES_AT_ONCE]:
            future, answer = futures.pop(reply.token, None), reply.answer
            if future is None:
                continue
            self._counters.waiting_requests -= 1
            if future.done():  # The caller has cancelled it.
                continue
            if isinstance(answer, CoordinatorError):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if len(replies) > REPLIES_AT_ONCE:
            self.loop.call_soon(self.reply, replies[REPLIES_AT_ONCE:])

    def fail_all(self, error: CoordinatorError) -> None:
        """Complete every future with an error."""
        for future in self._futures.values():
            if not future.done():
                future.set_exception(error)
        self._counters.waiting_requests -= len(self._futures)
        self._futures.clear()
