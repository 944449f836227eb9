"""One client connection: uvicorn's httptools protocol with deadlines, limits and problem responses.

uvicorn limits only how long a connection may be idle between two requests. This protocol adds:

* the head of a request must arrive within one timeout, counted from its first byte or from the opening of the
  connection, and the body within another; a late client gets 408, and the connection is closed;
* a connection beyond the limits of the node serves one request, for the node's health;
* the bytes of a request beside its body are limited: its head, chunk sizes, and trailers, which are discarded
  (RFC 9110, 6.5.1);
* the chunks of a body that arrive together are passed on together: uvicorn copies the body once for each;
* a request in absolute form has the host of its target, not of its Host header (RFC 9112, 3.2.2);
* the header Upgrade is ignored (RFC 9110, 7.8): httptools takes the body of such a request for the other protocol, and
  part of it for the next request;
* a malformed request gets a problem response, unless the client still waits for an earlier response: it would take the
  refusal for that;
* few joins and syncs are parsed in one turn of the event loop, since thousands may arrive together, and heartbeats
  behind them;
* behind a request that waits for an earlier one of its connection, no more than a part of a read is parsed, and nothing
  is read: uvicorn reads on with each response, and would keep thousands of requests in memory for each that it answers;
* a member's request that arrives in one piece, with the same head as an earlier one, is not parsed again, and is
  answered by a callback when the coordinator has its response (decision 110).

A request that arrives in one piece arms no timer.
"""

import asyncio
import sys
from collections.abc import Coroutine, Sized
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Literal, cast

import httptools
import structlog
from litestar.types import HTTPScope, Receive, Send
from uvicorn.protocols.http.flow_control import CLOSE_HEADER, HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from api.http.asgi import IS_CONNECTED_EXTENSION, PROBE_PATHS, SINGLE_WRITE_EXTENSION, Headers
from api.http.authorization import CERTIFICATE_EXTENSION
from api.http.hosts import HOST
from api.http.kept_heads import KeptHead, KeptHeads, RepeatedBatch, RepeatedRequests
from api.http.limits import HEAD_MAX_BYTES, HEALTH_HEAD_TIMEOUT_MS, HttpLimits
from api.http.problems import RequestTimedOut, problem_response
from api.http.response import HttpResponse
from api.shared.connection_gate import ConnectionGate
from api.shared.deadlines import TIMER_SLACK_S
from api.shared.tls import NO_CERTIFICATE, client_certificate
from api.shared.turns import LongPollTurns
from api.shared.write_batch import BatchedTransport, WriteBatch
from coordinator_core.protocol.errors import CoordinatorNotAvailable, InvalidRequest
from coordinator_core.runtime.memory import NO_MEMORY

log = structlog.get_logger("muster.http")

Phase = Literal["head", "body"]

NOT_HTTP: Final = (
    f"this is not HTTP, or its path is not percent-encoded, or its path or headers are over {HEAD_MAX_BYTES} bytes"
)
CONNECT: Final = b"CONNECT"
UPGRADE: Final = b"upgrade"
CHUNK_ALLOWANCE_BYTES: Final = 16
"""Framing bytes allowed per chunk of a body, in addition to twice the size of the chunk."""
LARGE_READ_BYTES: Final = 65_536
"""After a read of so many bytes, other connections are read first."""
PARSED_AT_ONCE_BYTES: Final = 8_192
"""How much of a read is parsed before it is known whether a request has to wait for an earlier one."""
LONG_POLL_ENDINGS: Final = frozenset({b"/join", b"/sync"})
"""How the paths of joins and syncs end."""
_PATH_PLACE: Final = len(b"POST ")
_ENDING_CHARS: Final = len(b"/join")
TOO_MANY_CONNECTIONS: Final = (
    "the connection limit of this node or of this address is reached; retry, or use another node"
)


class _SingleWriteSender:
    """Sends a complete response, head and body, in one write, and ends the request.

    uvicorn takes a response in two calls and writes twice, which wakes the client twice and costs a fifth of the time
    of a heartbeat. It still handles the rest: the last response of a connection, a full write buffer, HEAD, and
    invalid headers.
    """

    def __init__(self) -> None:
        self._defaults: Headers = []
        self._default_lines = b""
        """The server's own headers as bytes: uvicorn makes a new list of them once a second."""

    def __call__(self, send: Send, status: int, headers: Headers, body: bytes) -> bool:
        """Send a response.

        Args:
            send: the ASGI callable that uvicorn passed for this request.
            status: the HTTP status.
            headers: all headers but those that the server adds.
            body: the whole body.

        Returns:
            Whether it was sent; if not, nothing was written.
        """
        cycle: RequestResponseCycle = send.__self__  # type: ignore[attr-defined]  # uvicorn gives a method of the request
        if cycle.transport.is_closing():
            cycle.disconnected = True  # uvicorn notes it of the newest request of a connection only
        if not cycle.keep_alive or cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        if cycle.default_headers is not self._defaults:
            self._defaults, self._default_lines = cycle.default_headers, _encode_headers(cycle.default_headers)
        lines = _encode_headers(headers)
        if not lines.count(b"\r") == lines.count(b"\n") == len(headers):
            return False
        cycle.transport.write(b"%b%b%b\r\n%b" % (STATUS_LINE[status], self._default_lines, lines, body))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True


send_in_one_write: Final = _SingleWriteSender()


def is_connected(send: Send) -> bool:
    """Return whether the client has not closed its connection, as far as the server has read.

    Args:
        send: the ASGI callable that uvicorn passed for this request.
    """
    cycle: RequestResponseCycle = send.__self__  # type: ignore[attr-defined]  # uvicorn gives a method of the request
    return not cycle.transport.is_closing()


# ASGI specifies a dictionary for each extension; these are private to `asgi` and the server. They hold no request:
# a request that its own scope refers to would be a cycle, which only the garbage collector frees.
Extensions = dict[str, dict[object, object]]
EXTENSIONS: Final = cast(
    "Extensions",
    {SINGLE_WRITE_EXTENSION: send_in_one_write, IS_CONNECTED_EXTENSION: is_connected},
)


class _Flow(FlowControl):
    """Reads on only if no request waits for an earlier one."""

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


class HttpConnection(HttpToolsProtocol):
    """A client connection."""

    # Beside uvicorn's own 28 attributes: an instance with more than 30 is kept in a table of a kilobyte (decision 113).
    __slots__ = (
        "_batch",
        "_beside_body_bytes",
        "_body_parts",
        "_deadline",
        "_expected_phase",
        "_extensions",
        "_gate",
        "_held",
        "_idle_since_s",
        "_is_begun",
        "_is_health_only",
        "_is_started",
        "_keep_alive",
        "_kept_heads",
        "_limits",
        "_read_turns",
        "_repeated",
        "_upgrade_at",
        "has_request",
    )

    def __init__(
        self,
        *,
        gate: ConnectionGate,
        limits: HttpLimits,
        batch: WriteBatch,
        read_turns: LongPollTurns,
        repeated: RepeatedBatch,
        repeated_requests: RepeatedRequests | None = None,
        **given: Any,  # noqa: ANN401  # uvicorn's own, passed on
    ) -> None:
        super().__init__(**given)
        self._kept_heads = KeptHeads(repeated_requests)
        self._repeated = repeated
        self._batch = batch
        self._read_turns = read_turns
        self._held: list[bytes] = []
        """What waits to be parsed: of a join or a sync until its turn, or behind a pipelined request."""
        self._gate = gate
        self._limits = limits
        self._expected_phase: Phase | None = "head"
        """The part of a request that the client still has to send; None: it waits for the response, or is idle."""
        self._deadline: asyncio.TimerHandle | None = None
        self._is_health_only = False
        self._is_begun = False
        """Whether anything of a request has arrived."""
        self.has_request = False
        """Whether the application has received a request of this connection."""
        self._is_started = False
        """Whether it has received the current one; not if its head is invalid."""
        self._beside_body_bytes = 0
        """Bytes of an incomplete request that have arrived beyond those that its body accounts for."""
        self._idle_since_s = 0.0
        """When the last response was sent, on the event loop's clock."""
        self._keep_alive: asyncio.TimerHandle | None = None
        """Ends the connection when it has been idle for long enough; runs from the first response on."""
        self._body_parts: list[bytes] = []
        """Parts of the body that were parsed and not passed on."""
        self._extensions = EXTENSIONS
        self._upgrade_at: int | None = None
        """Where the data goes on behind a head that asks for another protocol; None: it does not."""

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    # -- what the transport calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, and start the deadline of the first request."""
        super().connection_made(BatchedTransport(transport, self._batch))
        self.flow = _Flow(self.transport, self.pipeline)
        certificate = client_certificate(transport.get_extra_info("peercert"))
        if certificate is not NO_CERTIFICATE:
            self._extensions = cast("Extensions", EXTENSIONS | {CERTIFICATE_EXTENSION: certificate})
        self._is_health_only = not self._gate.admit(self, self.client[0] if self.client else "")
        if self._is_health_only:
            self.app = _health_only(self.app)
        self._arm_deadline("head")

    def data_received(self, data: bytes) -> None:
        """Parse the data; later, if it begins one of many joins and syncs, or a request waits for an earlier one."""
        if self._held or self.pipeline:
            self._held.append(data)
            return
        end = data.find(b" ", _PATH_PLACE)
        if data[end - _ENDING_CHARS : end] in LONG_POLL_ENDINGS:
            turn = self._read_turns.begin()
            if turn is not None:
                self._held.append(data)
                self.flow.pause_reading()
                turn.add_done_callback(self._parse_held)
                return
        self._read(data, end)

    def _read(self, data: bytes, end: int) -> None:
        """Parse the data, or answer the request that it is; its method and target would end at `end`."""
        if self._expected_phase is not None and self._is_begun:
            self._parse(data)
        else:
            self._read_request(data[:end], data)

    def _read_request(self, start: bytes, data: bytes) -> None:
        """Answer a request that is known again, or parse what may be the beginning of one, and keep its head."""
        kept = self._kept_heads.find(start, data)
        if kept is not None and self.cycle.response_complete:
            self._begin_repeated(kept, data)
            return
        self._parse(data)
        if self._expected_phase != "head" and not self.transport.is_closing() and self.cycle.keep_alive:
            is_complete = self._expected_phase is None
            self._kept_heads.keep(start, data, cast("HTTPScope", self.scope), is_complete=is_complete)

    def _begin_repeated(self, kept: KeptHead, data: bytes) -> None:
        """Begin a request with a kept head; what follows waits for its response."""
        self._beside_body_bytes = 0
        self.cycle = cycle = RequestResponseCycle(
            scope=kept.request.scope,  # type: ignore[arg-type]  # as the framework has it
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        self._repeated.add(partial(copy_context().run, self._answer_repeated, kept, data, cycle))

    def _answer_repeated(self, kept: KeptHead, data: bytes, cycle: RequestResponseCycle) -> None:
        """Answer a request with a kept head; any bug closes the connection."""
        try:
            self._kept_heads.answer(kept, data, cast("Send", cycle.send), partial(self._end_repeated, cycle))
        except Exception as failure:
            log.error("repeated_request_failed", exc_info=failure)
            self.transport.abort()

    def _end_repeated(self, cycle: RequestResponseCycle, rest: Coroutine[Any, Any, None] | None) -> None:
        """End a request that was answered, or let a task do the rest."""
        if rest is None:
            cycle.on_response = _do_nothing  # as uvicorn's task: else only the garbage collector frees both
        else:
            self._start_asgi_task(cycle, lambda *_: rest)

    def _parse_held(self, _: object = None) -> None:
        """Parse what was held back; nothing, if the connection is closing or closes meanwhile."""
        held, self._held = self._held, []
        self.flow.resume_reading()
        for data in held:
            if self._held or self.pipeline:
                self._held.append(data)
            elif not self.transport.is_closing():
                self._read(data, data.find(b" ", _PATH_PLACE))

    def _parse(self, data: bytes) -> None:
        """Parse the data up to a request that waits for an earlier one, and start the deadline of the missing part."""
        for begin in range(0, len(data), PARSED_AT_ONCE_BYTES):
            if self.pipeline:
                self._held.append(data[begin:])
                break
            self._parse_part(data[begin : begin + PARSED_AT_ONCE_BYTES])
            if self.transport.is_closing():
                return
        if len(data) >= LARGE_READ_BYTES and not self.flow.read_paused:
            self.flow.pause_reading()
            self.loop.call_soon(self._resume_reading)
        try:
            self._pass_body_on()
        except MemoryError:
            self._refuse(problem_response(CoordinatorNotAvailable(NO_MEMORY)))
        if self.transport.is_closing():
            return
        if self._expected_phase is not None:
            self._arm_deadline(self._expected_phase)
            if self._beside_body_bytes > HEAD_MAX_BYTES:
                self._refuse(problem_response(InvalidRequest(NOT_HTTP)))

    def _parse_part(self, data: bytes) -> None:
        self._beside_body_bytes += len(data)
        super().data_received(data)
        while self._upgrade_at is not None:
            data = self._without_upgrade(data[self._upgrade_at :])
            super().data_received(data)

    def _resume_reading(self) -> None:
        """Read on in the next turn of the event loop: uvloop would read megabytes of one client in one turn.

        A body that the application has to take first holds the rest back.
        """
        is_body_held = self.has_request and not self.cycle.response_complete and len(self.cycle.body) > HIGH_WATER_LIMIT
        if not self.transport.is_closing() and not is_body_held:
            self.flow.resume_reading()

    def eof_received(self) -> None:
        """Answer what has arrived, before the transport closes."""
        self._repeated.answer_all()
        cast("BatchedTransport", self.transport).flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection, and stop its timers, which would keep it in memory."""
        self._disarm_deadline()
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        self._gate.release(self)
        self.pipeline.clear()  # its requests refer to it
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin the next request, or the idle time.

        uvicorn starts and cancels a timer for each request. One timer that finds out when it is due saves a twentieth
        of the processor time of a heartbeat.
        """
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            if self._held and not self.pipeline:
                self.loop.call_soon(self._parse_held)
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since_s = self.loop.time()
        if self._keep_alive is None:
            self._keep_alive = self.loop.call_later(self.timeout_keep_alive, self._check_idle)

    # -- what the parser calls ---------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._expected_phase, self._is_begun, self._is_started = "head", True, False
        super().on_message_begin()
        self.scope["extensions"] = self._extensions

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a header; discard trailers."""
        if self._expected_phase == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application, since the head is complete."""
        if self.parser.should_upgrade():
            return  # the request is parsed again
        self._disarm_deadline()
        self._expected_phase = "body"
        if not self.url.startswith(b"/"):
            self._take_host_from_target()
        if self._is_health_only:
            self.headers.append(CLOSE_HEADER)
        super().on_headers_complete()
        self.has_request = self._is_started = True
        if self._is_health_only:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Record a part of the body. Source: Go's net/http for the framing that a chunk may have."""
        self._beside_body_bytes = max(0, self._beside_body_bytes - 3 * len(body) - CHUNK_ALLOWANCE_BYTES)
        self._body_parts.append(body)

    def on_message_complete(self) -> None:
        """Stop the deadline, since the request is complete."""
        if self.parser.should_upgrade():
            return  # it is not: its body was not parsed
        self._disarm_deadline()
        self._expected_phase, self._beside_body_bytes = None, 0
        self._pass_body_on()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request, or one whose body finds no memory."""
        parsing = sys.exception()
        is_out_of_memory = parsing is not None and isinstance(parsing.__context__, MemoryError)
        refusal = CoordinatorNotAvailable(NO_MEMORY) if is_out_of_memory else InvalidRequest(NOT_HTTP)
        self._refuse(problem_response(refusal))

    def _unsupported_upgrade_warning(self) -> None:
        """Note that the head of a request asks for another protocol; a tunnel is refused."""
        if self.parser.get_method() == CONNECT:
            self._refuse(problem_response(InvalidRequest(NOT_HTTP)))
            return
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade)
        self._upgrade_at = upgrade.args[0]

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Return the head that has just been parsed, without its header Upgrade, and what follows, for a new parser."""
        self._upgrade_at = None
        headers = [each for each in self.headers if each[0] != UPGRADE]
        start = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        return b"%b\r\n%b\r\n%b" % (start, _encode_headers(headers), rest)

    # -- deadlines ---------------------------------------------------------------------------------------

    def _arm_deadline(self, phase: Phase) -> None:
        """Start the deadline of a phase, unless it already runs."""
        if self._deadline is None:
            timeout_ms = self._limits.body_timeout_ms
            if phase == "head":
                timeout_ms = HEALTH_HEAD_TIMEOUT_MS if self._is_health_only else self._limits.head_timeout_ms
            self._deadline = self.loop.call_later(timeout_ms / 1000, self._deadline_passed, phase)

    def _disarm_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _deadline_passed(self, phase: Phase) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # the node is late, not the client
            self._arm_deadline(phase)
            return
        self._gate.count_closed(f"{phase}_timeout")
        if self._is_begun:
            self._refuse(problem_response(RequestTimedOut(f"the {phase} of the request did not arrive in time")))
        else:
            self.transport.close()

    def _check_idle(self) -> None:
        """Close the connection if it was idle for the keep-alive time, or check again when that may be."""
        self._keep_alive = None
        if self._expected_phase is not None or not self.cycle.response_complete:
            return  # a request is in progress, and its response starts the timer
        left_s = self._idle_since_s + self.timeout_keep_alive - self.loop.time()
        if left_s > TIMER_SLACK_S:
            self._keep_alive = self.loop.call_later(left_s, self._check_idle)
        else:
            self.transport.close()

    # -- parts -------------------------------------------------------------------------------------------

    def _pass_body_on(self) -> None:
        if self._body_parts:
            body = b"".join(self._body_parts)
            self._body_parts.clear()
            if not self.cycle.body:
                self.cycle.body = b""  # type: ignore[assignment]  # uvicorn copies into its bytearray, and out of it
            super().on_body(body)

    def _take_host_from_target(self) -> None:
        target = httptools.parse_url(self.url)
        if target.host:
            host = b"[%b]" % target.host if b":" in target.host else target.host  # of IPv6
            authority = b"%b:%d" % (host, target.port) if target.port else host
            self.headers[:] = [*(each for each in self.headers if each[0] != HOST), (HOST, authority)]

    def _refuse(self, response: HttpResponse) -> None:
        """Answer the incoming request with an error without the application, and close the connection."""
        client_host = self.client[0] if self.client else ""
        log.info("malformed_request_refused", status=response.status, code=response.code, client=client_host)
        if self._is_next_answered():
            headers = [*self.server_state.default_headers, *_with_entity_headers(response), CLOSE_HEADER]
            self.transport.write(
                b"%b%b\r\n%b" % (STATUS_LINE[response.status], _encode_headers(headers), response.body)
            )
        self.transport.close()

    def _is_next_answered(self) -> bool:
        """Return whether the client takes the next response for that of the data that now arrives."""
        if self.pipeline:
            return False
        if self._expected_phase == "body" and self._is_started:
            return not self.cycle.response_started
        return not self.has_request or self.cycle.response_complete


def _health_only(app: Any) -> Any:  # noqa: ANN401  # an ASGI application, as uvicorn has it
    """Wrap an application: probe paths pass, every other request gets 503."""
    response = problem_response(CoordinatorNotAvailable(TOO_MANY_CONNECTIONS))

    async def answer(scope: HTTPScope, receive: Receive, send: Send) -> None:
        if scope["raw_path"] in PROBE_PATHS:
            await app(scope, receive, send)
            return
        await send(
            {"type": "http.response.start", "status": response.status, "headers": _with_entity_headers(response)}
        )
        await send({"type": "http.response.body", "body": response.body, "more_body": False})

    return answer


def _do_nothing() -> None:
    pass


def _with_entity_headers(response: HttpResponse) -> Headers:
    length = str(len(response.body)).encode()
    return [*response.headers, (b"content-type", response.content_type), (b"content-length", length)]


def _encode_headers(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
