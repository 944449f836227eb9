"""Heads of requests that a connection keeps, to know the next request with the same head again.

Agents repeat the heads of their joins, syncs, heartbeats and commits byte for byte, and parsing them takes as long as
all the rest of a heartbeat. A head is kept if all that follows from its bytes was checked
(`RepeatedRequests.repeatable`); what may have changed since, such as tokens and quotas, is checked for each request.

A head decides where its request ends: one that is kept has a Content-Length, and no Transfer-Encoding.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from litestar.types import HTTPScope, Send

from api.http.fast_path import FastPathEndpoint
from api.http.request_context import RequestHead
from api.shared.client_request import KnownClient

KEPT_HEAD_MAX_BYTES: Final = 1_024
"""The largest head that is kept."""
KEPT_HEADS_MAX: Final = 8
"""How many heads a connection keeps: those of joins, syncs, heartbeats and commits, of one or two groups."""
ANSWERED_AT_ONCE: Final = 64
"""So many repeated requests do not wait for more: with a thousand ready sockets, uvloop polls on for long."""
METHOD: Final = b"POST "
HEAD_END: Final = b"\r\n\r\n"


@dataclass(slots=True)
class RepeatableRequest:
    """What the head of a request says."""

    scope: HTTPScope
    head: RequestHead
    group_id: str
    endpoint: FastPathEndpoint
    content_length: int
    client: KnownClient | None = None
    """The client, if the newest request was allowed."""


Finish = Callable[[Coroutine[Any, Any, None] | None], None]
"""Ends a request; a coroutine is what is left to do for its response, by a task."""


class RepeatedRequests(Protocol):
    """The part of the application that answers requests with kept heads."""

    def repeatable(self, scope: HTTPScope) -> RepeatableRequest | None:
        """Return what the head of a request says if the next one with the same head may be answered by it."""
        ...

    def answer_repeated(self, request: RepeatableRequest, body: bytes, send: Send, finish: Finish) -> None:
        """Answer a request now or later; then call `finish`."""
        ...


class RepeatedBatch:
    """The repeated requests of an iteration of the event loop, of all connections, which one callback answers.

    Between two callbacks the event loop gives up the interpreter, and takes it back before another thread has woken up:
    the writer's thread would wait for its turn after each of its calls. During one long callback, threads get their
    turns at the switch interval (DECISIONS.md, 111).
    """

    def __init__(self) -> None:
        self._answers: list[Callable[[], None]] = []

    def add(self, answer: Callable[[], None]) -> None:
        """Answer a request when those that arrive with it are there; `answer` raises nothing."""
        if not self._answers:
            asyncio.get_running_loop().call_soon(self.answer_all)
        self._answers.append(answer)
        if len(self._answers) >= ANSWERED_AT_ONCE:
            self.answer_all()

    def answer_all(self) -> None:
        """Answer the requests that have arrived."""
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()


class KeptHead(NamedTuple):
    """A head that was parsed."""

    head: bytes
    size: int
    """Of the head and the body."""
    request: RepeatableRequest


class KeptHeads:
    """The kept heads of one connection, by their methods and targets."""

    __slots__ = ("_app", "_heads")

    def __init__(self, app: RepeatedRequests | None) -> None:
        """Keep nothing yet; nothing at all, if the application answers no repeated requests."""
        self._app = app
        self._heads: dict[bytes, KeptHead] = {}

    def find(self, start: bytes, data: bytes) -> KeptHead | None:
        """Return the kept head of the request that data is; `start` is its method and target. None: it is parsed."""
        kept = self._heads.get(start)
        return kept if kept is not None and len(data) == kept.size and data.startswith(kept.head) else None

    def keep(self, start: bytes, data: bytes, scope: HTTPScope, *, is_complete: bool) -> None:
        """Keep the head of `data`, if the next one may be answered by it.

        Only a head with nothing before it, and alone or with all of its body behind it: else the scope may be that of
        another request of the data, or of an earlier one. Many clients send a head by itself, but a busy node finds the
        body behind it in the same read.

        Args:
            start: the method and target of the data.
            data: what was parsed; a request begins in it, or it is empty lines.
            scope: of the request that began last.
            is_complete: whether that request has its body.
        """
        size = data.find(HEAD_END, 0, KEPT_HEAD_MAX_BYTES) + len(HEAD_END)
        if self._app is None or size < len(HEAD_END) or not data.startswith(METHOD):
            return
        request = self._app.repeatable(scope)
        if request is None or len(data) != size + (request.content_length if is_complete else 0):
            return
        self._heads.pop(start, None)
        if len(self._heads) >= KEPT_HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        self._heads[start] = KeptHead(data[:size], size + request.content_length, request)

    def answer(self, kept: KeptHead, data: bytes, send: Send, finish: Finish) -> None:
        """Answer a request that `find` has found, now or later; then call `finish`."""
        assert self._app is not None, "there is no kept head without it"
        self._app.answer_repeated(kept.request, data[len(kept.head) :], send, finish)
