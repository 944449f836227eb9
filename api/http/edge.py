"""The edge is what every request passes: it is read, answered by one of two lanes, counted, and noted if it matters.

A refusal anywhere becomes a problem reply here, and so does an error that nobody foresaw, whose story goes into the
log under the request's id and never to the caller.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import structlog
from litestar import Litestar
from litestar.types import HTTPScope, Receive, Send

from api.http.access import identify
from api.http.call import STRANGER, Call, Door
from api.http.connection_gate import ConnectionCounts
from api.http.events import note
from api.http.express import Express
from api.http.forwarding import STOPPING, Forwarder
from api.http.framework import answer_by_framework
from api.http.paths import read_group_path
from api.http.problems import ForeignMark, UnknownServerError, refusal
from api.http.reading import Disconnected, read_body
from api.http.replays import Replays
from api.http.reply import NO_ERROR, Reply
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator

log = structlog.get_logger("muster.http")

ABOUT_THE_NODE: Final = frozenset({b"/healthz", b"/readyz", b"/metrics"})
"""What a node that is stopping still answers: whoever watches it wants to know."""


WHOLE_ANSWER: Final = "muster.whole_answer"
"""The ASGI extension that sends a whole answer in one call; it returns False, and has done nothing, where it cannot."""

E = TypeVar("E", bound=CoordinatorError)
Headers = list[tuple[bytes, bytes]]
SendWhole = Callable[[Send, int, Headers, bytes], bool]


class Edge:
    """The whole front door as an ASGI application."""

    def __init__(self, door: Door, express: Mapping[bytes, Express], litestar: Litestar, forwarder: Forwarder) -> None:
        self._door = door
        self._forwarder = forwarder
        self._express = express
        self._litestar = litestar
        self._replays = Replays()
        self._is_closing = False

    @property
    def connections(self) -> ConnectionCounts:
        """Return where connections are counted, so that a scrape shows them."""
        return self._door.metrics.connections

    def close(self) -> None:
        """From now on, tell every caller to ask again elsewhere; at once whoever waits for another node's answer."""
        self._is_closing = True
        self._forwarder.let_go()

    async def end(self) -> None:
        """Close the connections to other nodes; nobody is asked any more."""
        await self._forwarder.close()

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer one request. Source: the ASGI specification, version 3."""
        began_at_s = time.perf_counter()
        call = Call(self._door, scope)
        try:
            reply = await self._answer(call, receive)
        except Disconnected:
            return
        except asyncio.CancelledError:
            if not self._is_closing:
                raise
            reply = refusal(CoordinatorNotAvailable(STOPPING))  # the server has no more time for this one
        except ForeignMark as error:
            self._door.metrics.marks_refused[error.fault] += 1
            log.warning("forward_mark_refused", fault=error.fault, why=error.detail, client=call.client_host)
            reply = refusal(error)
        except CoordinatorError as error:
            reply = refusal(_without_frames(error))
        except Exception:  # the caller cannot help it, and no other caller must suffer from it
            log.exception("request_failed", request_id=call.request_id.decode(), request=call.request)
            reply = refusal(UnknownServerError("the node's log tells more under this request's id"))
        finally:
            if call.held_bytes:
                call.hold_body(0)
        took_s = time.perf_counter() - began_at_s
        self._door.metrics.count(call.request, reply.code, took_s)
        note(call, reply, took_ms=took_s * 1000)
        headers = _with_body_headers(reply, self._own_headers(call, reply))
        extensions: Mapping[str, Any] = scope.get("extensions") or {}
        send_whole: SendWhole | None = extensions.get(WHOLE_ANSWER)
        if send_whole is None or not send_whole(send, reply.status, headers, reply.body):
            await _send(reply, headers, send)

    async def _answer(self, call: Call, receive: Receive) -> Reply:
        self._door.hosts.check(call.scope, call.headers)
        if self._is_closing and call.scope["raw_path"] not in ABOUT_THE_NODE:
            raise CoordinatorNotAvailable(STOPPING)
        method = call.scope["method"]
        path = read_group_path(method, call.scope["raw_path"])
        if self._door.tokens is not None:
            identify(call, self._door.tokens)
        mark = call.read_mark()
        call.body = await read_body(method, call.headers, receive, self._door.limits.max_body_bytes, call.hold_body)
        if mark is not None:
            mark.check_body(call.body)
        try:
            if path is not None:
                call.group_id = path.group_id
                express = self._express.get(path.action)
                if express is not None and method == "POST":
                    return await express.answer(call, path.group_id)
            return self._replays.find(call) or await self._by_framework(call)
        except NotCoordinator as refused:
            return await self._forwarder.pass_on(call, _without_frames(refused))

    async def _by_framework(self, call: Call) -> Reply:
        reply = await self._door.deadlines.keep(answer_by_framework(self._litestar, call))
        self._replays.keep(call, reply)
        return reply

    def _own_headers(self, call: Call, reply: Reply) -> Headers:
        headers = [(b"x-request-id", call.request_id)]
        if call.change_id is not None and reply.code == NO_ERROR:
            headers.append((b"x-muster-change-id", call.change_id.encode()))
        if call.group_id is not None and call.identity is not STRANGER:
            owner = self._door.coordinator.owner_url(call.group_id)
            if owner is not None:
                headers.append((b"x-muster-coordinator", owner.encode()))
        return headers


def _without_frames(error: E) -> E:
    """Return an error that keeps no frame of those that it came through.

    One of them holds the future that holds the error. Until the garbage collector comes by, which is seldom
    (`muster/node.py`), that would keep the request and all that was read of its body.
    """
    return error.with_traceback(None)


def _with_body_headers(reply: Reply, headers: Headers) -> Headers:
    headers.extend(reply.headers)
    if reply.status != 204:
        headers.append((b"content-type", reply.content_type))
        headers.append((b"content-length", b"%d" % len(reply.body)))
    return headers


async def _send(reply: Reply, headers: Headers, send: Send) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body, "more_body": False})
