"""One connection of a client: HTTP as httptools reads it, with deadlines, limits and refusals of our own.

uvicorn limits how long a connection may be idle between two requests, and nothing else. So here

* the head of a request has to arrive within one time, counted from its first byte or from the opening of the
  connection, and the body within another; a client that is late gets 408, and the connection is closed;
* a connection beyond the node's limits is answered once, about the node's health only;
* what a request has beside its body is limited: its head, the sizes of its chunks, and its trailers, which are
  discarded (RFC 9110, 6.5.1);
* a request in absolute form has the host of its target, not of its Host header (RFC 9112, 3.2.2);
* what cannot be read is refused as everything else is, unless the client waits for an earlier answer: it would take the
  refusal for that.

A request that arrives in one piece arms no timer.
"""

import asyncio
from typing import Any, Final, Literal, cast

import httptools
from litestar.types import HTTPScope, Receive, Send
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from api.http.connection_gate import ConnectionGate
from api.http.edge import ABOUT_THE_NODE, WHOLE_ANSWER, Headers
from api.http.hosts import HOST
from api.http.limits import HEAD_MAX_BYTES, HEALTH_HEAD_TIMEOUT_MS, HttpLimits
from api.http.problems import RequestTimedOut, refusal
from api.http.reply import Reply
from coordinator_core.protocol.errors import CoordinatorNotAvailable, InvalidRequest

Phase = Literal["head", "body"]

NOT_HTTP: Final = f"this is not HTTP, or its path or headers are over {HEAD_MAX_BYTES} bytes"
CHUNK_ALLOWANCE_BYTES: Final = 16
"""How much of its own a chunk of a body may have beside its bytes, on top of as much again as twice these."""
FULL: Final = (
    "this node has as many connections as it may have, in all or from this address; ask again, or another node"
)


class _WholeAnswer:
    """Sends an answer of which nothing is missing, head and body in one write, and ends the request.

    uvicorn takes an answer in two calls, and writes twice, which wakes the caller up twice; that costs a heartbeat a
    fifth of its time. What is not the ordinary course is left to it: a connection that ends with this answer, one that
    takes no more for now, a HEAD, or a header that is none.
    """

    def __init__(self) -> None:
        self._defaults: Headers = []
        self._default_lines = b""
        """The server's own headers as bytes: uvicorn makes a new list of them once a second."""

    def __call__(self, send: Send, status: int, headers: Headers, body: bytes) -> bool:
        """Send an answer.

        Args:
            send: the request's own, as uvicorn gave it to the application.
            status: of the answer.
            headers: all of them but the server's own.
            body: the whole of it.

        Returns:
            Whether it was sent; if not, nothing has happened.
        """
        cycle: RequestResponseCycle = send.__self__  # type: ignore[attr-defined]  # uvicorn gives a method of the request
        if cycle.transport.is_closing():
            cycle.disconnected = True  # uvicorn notes it of the newest request of a connection only
        if not cycle.keep_alive or cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        if cycle.default_headers is not self._defaults:
            self._defaults, self._default_lines = cycle.default_headers, _lines(cycle.default_headers)
        lines = _lines(headers)
        if not lines.count(b"\r") == lines.count(b"\n") == len(headers):
            return False
        cycle.transport.write(b"%b%b%b\r\n%b" % (STATUS_LINE[status], self._default_lines, lines, body))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True


send_whole: Final = _WholeAnswer()

# ASGI wants a dictionary for each extension; this one is between the edge and the server alone. It knows no request:
# one that could be reached from its own scope would be garbage that only the collector finds.
EXTENSIONS: Final = cast("dict[str, dict[object, object]]", {WHOLE_ANSWER: send_whole})


class HttpConnection(HttpToolsProtocol):
    """A connection of a client."""

    def __init__(self, *, gate: ConnectionGate, limits: HttpLimits, **given: Any) -> None:  # noqa: ANN401  # uvicorn's own, passed on
        super().__init__(**given)
        self._gate = gate
        self._limits = limits
        self._awaited: Phase | None = "head"
        """What of a request the client still has to send; None: nothing, it waits for the answer or is idle."""
        self._deadline: asyncio.TimerHandle | None = None
        self._is_for_health = False
        self._is_begun = False
        """Whether anything of a request has arrived."""
        self.has_request = False
        """Whether the head of a request has arrived whole."""
        self._beside_body_bytes = 0
        """How much of a request has arrived that is not whole, beyond what its body accounts for."""

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    # -- what the transport calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, and wait for the first request."""
        super().connection_made(transport)
        self._is_for_health = not self._gate.admit(self, self.client[0] if self.client else "")
        if self._is_for_health:
            self.app = _about_health_only(self.app)
        self._expect("head")

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, and start the time of what is missing."""
        self._beside_body_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._awaited is not None:
            self._expect(self._awaited)
            if self._beside_body_bytes > HEAD_MAX_BYTES:
                self._refuse(refusal(InvalidRequest(NOT_HTTP)))
        elif self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self._idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._met()
        self._gate.release(self)
        super().connection_lost(exc)

    # -- what the parser calls ---------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._awaited, self._is_begun = "head", True
        super().on_message_begin()
        self.scope["extensions"] = EXTENSIONS

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, unless it comes after the body."""
        if self._awaited == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application: the head is whole."""
        self._met()
        self._awaited, self.has_request = "body", True
        if not self.url.startswith(b"/"):
            self._take_host_from_target()
        if self._is_for_health:
            self.headers.append(CLOSE_HEADER)
        super().on_headers_complete()
        if self._is_for_health:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of the body. Source: Go's net/http for what a chunk may have beside it."""
        self._beside_body_bytes = max(0, self._beside_body_bytes - 3 * len(body) - CHUNK_ALLOWANCE_BYTES)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that nothing of the request is missing."""
        self._met()
        self._awaited, self._beside_body_bytes = None, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(refusal(InvalidRequest(NOT_HTTP)))

    # -- deadlines ---------------------------------------------------------------------------------------

    def _expect(self, phase: Phase) -> None:
        """Give the client its time for what it still has to send, unless that time runs already."""
        if self._deadline is None:
            timeout_ms = self._limits.body_timeout_ms
            if phase == "head":
                timeout_ms = HEALTH_HEAD_TIMEOUT_MS if self._is_for_health else self._limits.head_timeout_ms
            self._deadline = self.loop.call_later(timeout_ms / 1000, self._too_late, phase)

    def _met(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self, phase: Phase) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # the node is late, not the client
            self._expect(phase)
            return
        self._gate.timed_out(phase)
        if self._is_begun:
            self._refuse(refusal(RequestTimedOut(f"the {phase} of the request did not arrive in time")))
        else:
            self.transport.close()

    def _idle(self) -> None:
        """Start the time of an idle connection anew: what has arrived since the last answer was no request."""
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    # -- parts -------------------------------------------------------------------------------------------

    def _take_host_from_target(self) -> None:
        target = httptools.parse_url(self.url)
        if target.host:
            authority = b"%b:%d" % (target.host, target.port) if target.port else target.host
            self.headers[:] = [*(each for each in self.headers if each[0] != HOST), (HOST, authority)]

    def _refuse(self, reply: Reply) -> None:
        """Answer the request that arrives with a refusal that is not the application's, and close the connection."""
        if self._is_next_answered():
            headers = [*self.server_state.default_headers, *_whole_headers(reply), CLOSE_HEADER]
            self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[reply.status], _lines(headers), reply.body))
        self.transport.close()

    def _is_next_answered(self) -> bool:
        """Tell whether the client takes the next answer for that of what arrives, request or not."""
        if self.pipeline:
            return False
        if self._awaited == "body":
            return not self.cycle.response_started
        return not self.has_request or self.cycle.response_complete


def _about_health_only(app: Any) -> Any:  # noqa: ANN401  # an ASGI application, as uvicorn has it
    """Return an application that answers about the node's health as the given one does, and refuses all else."""
    reply = refusal(CoordinatorNotAvailable(FULL))

    async def answer(scope: HTTPScope, receive: Receive, send: Send) -> None:
        if scope["raw_path"] in ABOUT_THE_NODE:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": reply.status, "headers": _whole_headers(reply)})
        await send({"type": "http.response.body", "body": reply.body, "more_body": False})

    return answer


def _whole_headers(reply: Reply) -> Headers:
    length = str(len(reply.body)).encode()
    return [*reply.headers, (b"content-type", reply.content_type), (b"content-length", length)]


def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
