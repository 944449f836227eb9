"""One connection of a Kafka client: frames in, responses out, in the order of the requests.

Requests of a connection are answered one after the other, as Kafka's broker does: clients take the next response for
that of their oldest request. A join that waits holds back what follows it.

A connection is closed, with one log event, when a frame is too large or no request that is offered, and when a frame or
the first request does not arrive in time; and without one when it was idle for too long. On a node with tokens nothing
but ApiVersions is answered before a token was sent by SASL, unless the tokens file has a name of the client's
certificate.
"""

import asyncio
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import structlog

from api.kafka import sasl
from api.kafka.apis import APIS, ApiKey, other_api_name
from api.kafka.authentication import Authentication
from api.kafka.brokers import unsupported_api_versions
from api.kafka.handlers import HANDLERS, SUBMITTED, SubmittedApi
from api.kafka.kept_requests import KEPT_BODY_MAX_BYTES, KIND, KeptRequest, keep
from api.kafka.limits import KafkaLimits
from api.kafka.list_lengths import MalformedFrame
from api.kafka.messages import API_KEY, CORRELATION_ID, SIZE_BYTES, RequestHeader, decode, read_header
from api.kafka.request import KafkaRequest
from api.shared.authorization import REQUEST_RULES, authorize
from api.shared.body_budget import SMALL_BODY_MAX_BYTES
from api.shared.client_request import MAX_THROTTLE_S
from api.shared.connection_gate import ConnectionGate, counted_address
from api.shared.deadlines import TIMER_SLACK_S
from api.shared.errors import NO_ERROR, Unauthenticated
from api.shared.node_context import NodeContext
from api.shared.request_metrics import ListenerMetrics
from api.shared.tls import client_certificate
from api.shared.turns import SMALL_REQUEST_MAX_BYTES
from api.shared.write_batch import BatchedTransport, WriteBatch
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable
from coordinator_core.protocol.responses import Answer

log = structlog.get_logger("muster.api")

UNAUTHENTICATED_FRAME_MAX_BYTES: Final = SMALL_BODY_MAX_BYTES
"""The largest frame of a client that has not sent its token."""
HELD_BACK_MAX_BYTES: Final = SMALL_BODY_MAX_BYTES
"""Beyond this many bytes that wait behind a request, or for the client to read its responses, no more are read."""
FAILED_AUTHENTICATION_DELAY_S: Final = 1.0
"""How long the answer to a wrong token is delayed: libraries send it again at once, over a new connection, without end.

Source: Kafka's connection.failed.authentication.delay.ms, which is 100 ms.
"""
ANSWERED_AT_ONCE: Final = 32
"""So many requests of a connection are answered in one turn of the event loop; then others come first."""
_SIZE: Final = struct.Struct(">i")
_CORRELATION_ID: Final = slice(SIZE_BYTES + CORRELATION_ID.start, SIZE_BYTES + CORRELATION_ID.stop)
"""As CORRELATION_ID, behind the size."""
_SASL: Final = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
_PUBLIC: Final = _SASL | {ApiKey.API_VERSIONS}
"""The APIs that need no token."""
_LONG_POLLS: Final = frozenset(key.to_bytes(API_KEY.stop) for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))
"""The first bytes of their frames."""


class KafkaConnection(asyncio.Protocol):
    """A connection of a client."""

    # With more than 30 attributes and no slots, CPython keeps an instance in a table of a kilobyte (decision 113).
    __slots__ = (
        "_authentication",
        "_batch",
        "_buffer",
        "_client",
        "_client_host",
        "_correlation_id",
        "_due_at_s",
        "_frame_size",
        "_gate",
        "_is_closing",
        "_is_made",
        "_is_paused",
        "_is_unread",
        "_kept",
        "_limits",
        "_loop",
        "_metrics",
        "_node",
        "_proxied_host",
        "_reserved_bytes",
        "_running",
        "_software",
        "_timer",
        "_timer_at_s",
        "_transport",
        "closed",
        "has_request",
    )

    def __init__(
        self,
        node: NodeContext,
        gate: ConnectionGate,
        limits: KafkaLimits,
        metrics: ListenerMetrics,
        batch: WriteBatch,
        proxied_host: str | None = None,
    ) -> None:
        """Wait for the connection.

        Args:
            node: the node that answers.
            gate: counts the connections of the listener.
            limits: the limits of the listener.
            metrics: the counters of the listener.
            batch: the writes of the listener.
            proxied_host: the address of the client that a proxy has named; None: it is the peer's.
        """
        self._node = node
        self._gate = gate
        self._limits = limits
        self._metrics = metrics
        self._batch = batch
        self._proxied_host = proxied_host
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._frame_size: int | None = None
        """The size of the frame that is arriving; None: not known yet."""
        self._running: asyncio.Future[Any] | None = None
        """Is done when the current request can be answered; None: there is none."""
        self._correlation_id = b""
        """Of the current request."""
        self._kept: dict[bytes, KeptRequest] = {}
        """What a request has at `KIND` → the last one, of those that clients repeat."""
        self._reserved_bytes = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Is done when the connection is lost."""
        self._due_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = float("inf")
        self._is_made = False
        """Whether there is a transport; the server counts the connection before."""
        self._is_closing = False
        self._is_paused = False
        """Whether nothing is read from the client."""
        self._is_unread = False
        """Whether the client leaves responses unread."""
        self._software = ""
        """The name that the client's library has for itself, once it has said so."""
        self.has_request = False

    # -- what the transport calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection; close it if there are too many."""
        self._transport = BatchedTransport(transport, self._batch)  # type: ignore[arg-type]  # of a stream
        peer = transport.get_extra_info("peername")
        self._client_host: str = self._proxied_host or (peer[0] if isinstance(peer, tuple) else "")
        self._client = counted_address(self._client_host)
        """Whose share of the memory for large requests its frames use."""
        certificate = client_certificate(transport.get_extra_info("peercert"))
        self._authentication = Authentication(self._node.tokens, self._client_host, certificate)
        self._is_made = True
        if self._gate.admit(self, self._client_host):
            self._expect_within(self._limits.frame_timeout_ms / 1000)
        if self._is_closing:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def close_when_answered(self) -> None:
        """Close the connection, but for the request that is being answered after its response."""
        self._is_closing = True
        if self._is_made and self._running is None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        self._metrics.received_bytes += len(data)
        kept = self._kept.get(data[KIND]) if self._running is None and not self._buffer else None
        if kept is None or self._is_unread or not self._answer_again(kept, data):
            self._buffer += data
            self._answer_frames()

    def pause_writing(self) -> None:
        """Answer no request while the client does not read the responses that it has."""
        self._is_unread = True

    def resume_writing(self) -> None:
        """Answer requests again."""
        self._is_unread = False
        if self._running is None:
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for the response of a parked request; it has no effect on the group."""
        self._gate.release(self)
        self.closed.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._running.cancel()
        self._release_bytes()

    # -- frames ----------------------------------------------------------------------------------------------

    @property
    def _can_answer(self) -> bool:
        return self._running is None and not self._is_unread

    def _answer_again(self, kept: KeptRequest, data: bytes) -> bool:
        """Answer a request that differs from a kept one in its body at most, and return whether it does not in more."""
        request = kept.request
        self._authentication.renew()
        try:
            if request.identity is not self._authentication.identity or not kept.begin(data):
                return False
        except MalformedFrame as failure:
            self._refuse(str(failure))
        else:
            self._correlation_id = data[_CORRELATION_ID]
            self._submit(kept.api, request, len(data) - SIZE_BYTES)
        return True

    def _answer_frames(self) -> None:
        """Answer one frame after the other, until one has to wait or is not complete, or the turn is over."""
        answered = 0
        while self._buffer and self._can_answer and not self._transport.is_closing():
            if answered == ANSWERED_AT_ONCE:
                self._running = self._loop.create_future()
                self._loop.call_soon(self._begin_turn)
                break
            try:
                frame = self._next_frame()
            except (MalformedFrame, CoordinatorError) as failure:
                self._refuse(str(failure))
                break
            if frame is None:
                break
            self._answer_frame(frame)
            answered += 1
        if not self._can_answer and len(self._buffer) > HELD_BACK_MAX_BYTES:
            self._is_paused = True
            self._transport.pause_reading()

    def _begin_turn(self) -> None:
        self._running = None
        if not self._transport.is_closing():
            self._go_on()

    def _answer_frame(self, frame: bytes, *, is_its_turn: bool = False) -> None:
        """Answer a request; in a later turn of the event loop, if it is one of many joins and syncs."""
        if frame[API_KEY] in _LONG_POLLS and not is_its_turn:
            turn = self._node.long_poll_turns.begin()
            if turn is not None:
                self._due_at_s = float("inf")
                self._running = turn
                turn.add_done_callback(partial(self._answer_in_turn, frame))
                return
        try:
            self._answer(frame)
        except (MalformedFrame, CoordinatorError) as failure:
            self._refuse(str(failure))

    def _answer_in_turn(self, frame: bytes, turn: asyncio.Future[None]) -> None:
        """Answer a request that was held back, unless the connection was lost or is closing."""
        if turn.cancelled() or self._transport.is_closing():
            return
        self._running = None
        self._answer_frame(frame, is_its_turn=True)
        if self._running is None:
            self._go_on()

    def _next_frame(self) -> bytes | None:
        """Take a complete frame from the buffer; None: there is none yet.

        Raises:
            MalformedFrame: its size is not allowed.
            CoordinatorNotAvailable: the memory for large requests is used up.
        """
        if self._frame_size is None:
            if len(self._buffer) < SIZE_BYTES:
                return None
            (size,) = _SIZE.unpack_from(self._buffer)
            limit = self._limits.max_frame_bytes if self._authentication.is_known else UNAUTHENTICATED_FRAME_MAX_BYTES
            if not 0 < size <= limit:
                raise MalformedFrame(f"a frame of {size} bytes; the limit is {limit}")
            self._reserved_bytes = self._node.body_budget.resize(self._client, self._reserved_bytes, size)
            self._frame_size = size
            if len(self._buffer) < SIZE_BYTES + size:
                self._expect_within(self._limits.frame_timeout_ms / 1000)
        end = SIZE_BYTES + self._frame_size
        if len(self._buffer) < end:
            return None
        frame = bytes(memoryview(self._buffer)[SIZE_BYTES:end])
        del self._buffer[:end]
        self._frame_size = None
        return frame

    def _answer(self, frame: bytes) -> None:
        self.has_request = True
        if self._authentication.is_token_next:
            self._answer_bare_token(frame)
            return
        self._correlation_id = frame[CORRELATION_ID]
        self._authentication.renew()
        header = read_header(frame)
        api = APIS.get(header.api_key)  # type: ignore[call-overload]  # an IntEnum is its number
        if api is None or not api.first <= header.version <= api.last:
            if header.api_key != ApiKey.API_VERSIONS:
                missing = other_api_name(header.api_key) if api is None else f"version {header.version} of {api.name}"
                raise MalformedFrame(f"{missing} is not offered")
            self._send(header, unsupported_api_versions())
            return
        if not self._authentication.is_known and header.api_key not in _PUBLIC:
            if self._authentication.has_failed:
                raise MalformedFrame(f"{api.name} with a token that is no longer valid")
            raise MalformedFrame(
                f"{api.name} without a token; the node wants one by SASL ({', '.join(sasl.MECHANISMS)})"
            )
        message = decode(header.api_key, header.version, frame, header.size, self._limits.max_items)
        if header.api_key in _SASL:
            self._authenticate(header, message)
            self._count_authentication(api.name)
            return
        if header.api_key == ApiKey.API_VERSIONS:
            self._software = getattr(message, "client_software_name", "")
        request = KafkaRequest(self._node, self._client_host, header, self._authentication.identity)
        request.software = self._software
        request.take(message)
        submitted = SUBMITTED.get(header.api_key)
        if submitted is None or len(frame) > SMALL_REQUEST_MAX_BYTES:
            self._start_task(request, len(frame), time.perf_counter())
        else:
            keep(self._kept, frame, request, submitted)
            self._submit(submitted, request, len(frame))

    def _start_task(self, request: KafkaRequest, size: int, started_s: float) -> None:
        self._due_at_s = float("inf")
        self._running = self._loop.create_task(self._answer_later(request, size, started_s))

    def _submit(self, api: SubmittedApi, request: KafkaRequest, size: int) -> None:
        """Answer a request: at once, when the coordinator has answered, or if it waits for more, by a task."""
        started_s = time.perf_counter()
        pending: asyncio.Future[Answer] | None = None
        if request.is_within_quotas(size):
            try:
                pending = api.submit(request)
                if pending is not None and size - request.header.size > KEPT_BODY_MAX_BYTES:
                    request.free_message()
            except Exception as failure:  # noqa: BLE001 - any bug ends the connection
                self._respond(api, request, started_s, failure)
                return
        if pending is None:
            self._start_task(request, size, started_s)
        elif pending.done():
            self._respond(api, request, started_s, pending.exception() or pending.result())
        else:
            self._due_at_s = float("inf")
            self._running = pending
            self._node.deadlines.begin(pending)
            pending.add_done_callback(partial(self._answer_submitted, api, request, started_s))

    def _answer_submitted(
        self, api: SubmittedApi, request: KafkaRequest, started_s: float, pending: asyncio.Future[Answer]
    ) -> None:
        self._running = None
        is_overdue = self._node.deadlines.end(pending)
        if not pending.cancelled():
            self._respond(api, request, started_s, pending.exception() or pending.result())
        elif is_overdue:
            self._respond(api, request, started_s, self._node.deadlines.error())
        else:  # the connection is lost
            return
        self._go_on()

    def _respond(
        self, api: SubmittedApi, request: KafkaRequest, started_s: float, answer: Answer | BaseException
    ) -> None:
        """Send the response to an answer or a refusal; any other error is a bug, and ends the connection."""
        try:
            if isinstance(answer, BaseException) and not isinstance(answer, CoordinatorError):
                raise answer
            body = api.respond(request, answer)
        except Exception as failure:  # noqa: BLE001 - any bug: the client may ask again over a new connection
            self._abort_failed(request, failure)
        else:
            self._finish(request, body, started_s)

    async def _answer_later(self, request: KafkaRequest, size: int, started_s: float) -> None:
        try:
            await request.wait_for_quotas(size)
            await request.begin_turn(size)
            self._identify_again(request)
            body = await HANDLERS[request.header.api_key](request)
            if request.is_long_poll and request.code == NO_ERROR:
                self._authorize_answer(request)
            if request.code == CoordinatorNotAvailable.code and self._reserved_bytes:
                self._release_bytes()
                await request.throttle(MAX_THROTTLE_S)
        except asyncio.CancelledError:
            raise
        except CoordinatorError as failure:
            self._refuse(str(failure))
            return
        except Exception as failure:  # noqa: BLE001 - any bug: the client may ask again over a new connection
            self._abort_failed(request, failure)
            return
        finally:
            self._running = None
            request.end_turn()
        self._finish(request, body, started_s)
        self._go_on()

    def _abort_failed(self, request: KafkaRequest, failure: BaseException) -> None:
        log.error("kafka_request_failed", request=request.request, group=request.group_id, exc_info=failure)
        self._transport.abort()

    def _go_on(self) -> None:
        """Read on, and answer what has arrived meanwhile."""
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        if self._is_closing:
            self._transport.close()
        if self._buffer:
            self._answer_frames()

    def _finish(self, request: KafkaRequest, body: bytes | None, started_s: float) -> None:
        self._node.metrics.count(request.request, request.code, time.perf_counter() - started_s)
        self._metrics.requests[request.request, request.code] += 1
        if body is not None:
            self._send(request.header, body)
        else:
            self._end_request()

    def _send(self, header: RequestHeader, body: bytes) -> None:
        response = self._correlation_id + header.response_tags + body
        self._transport.write(len(response).to_bytes(SIZE_BYTES) + response)
        self._metrics.sent_bytes += SIZE_BYTES + len(response)
        self._end_request()

    def _end_request(self) -> None:
        if self._reserved_bytes:
            self._release_bytes()
        self._expect_within(self._limits.keep_alive_s)

    def _release_bytes(self) -> None:
        if self._reserved_bytes:
            self._reserved_bytes = self._node.body_budget.resize(self._client, self._reserved_bytes, 0)

    # -- authentication ----------------------------------------------------------------------------------------

    def _authenticate(self, header: RequestHeader, message: Any) -> None:  # noqa: ANN401  # the decoded request
        """Answer SaslHandshake and SaslAuthenticate."""
        authentication = self._authentication
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            authentication.begin(header.version, message.mechanism)
            self._kept.clear()  # A bare token may look like a request.
            self._send(header, sasl.handshake(header.version, message.mechanism))
            return
        if authentication.mechanism not in sasl.MECHANISMS:
            raise MalformedFrame("SaslAuthenticate without a SaslHandshake")
        refusal = authentication.take_token(message.auth_bytes)
        if refusal is None:
            lifetime_s = authentication.lifetime_s(message.auth_bytes)
            self._send(header, sasl.authenticated(header.version, None, lifetime_s))
        else:
            self._close_later(partial(self._send, header, sasl.authenticated(header.version, refusal)))

    def _answer_bare_token(self, auth_bytes: bytes) -> None:
        """Answer a token without a header: with an empty frame, or by closing the connection."""
        if self._authentication.take_token(auth_bytes) is None:
            self._transport.write(bytes(SIZE_BYTES))
            self._metrics.sent_bytes += SIZE_BYTES
            self._end_request()
        else:
            self._close_later(self._release_bytes)
        self._count_authentication(APIS[ApiKey.SASL_AUTHENTICATE].name)

    def _close_later(self, answer: Callable[[], None]) -> None:
        """Answer a wrong token and close the connection, after the delay; until then nothing else is answered."""
        self._running = self._loop.create_task(asyncio.sleep(FAILED_AUTHENTICATION_DELAY_S))

        def close(delay: asyncio.Future[None]) -> None:
            if not delay.cancelled():
                answer()
                self._transport.close()

        self._running.add_done_callback(close)

    def _count_authentication(self, request: str) -> None:
        self._metrics.requests[request, Unauthenticated.code if self._authentication.has_failed else NO_ERROR] += 1

    def _identify_again(self, request: KafkaRequest) -> None:
        """Set the identity of a request that may have waited: its token may have been revoked meanwhile.

        Raises:
            Unauthenticated: the token is no longer known, or has expired.
        """
        self._authentication.renew()
        if request.identity is not None and self._authentication.identity is None:
            raise Unauthenticated(f"the token of a {request.request} that waited is no longer valid")
        request.identity = self._authentication.identity

    def _authorize_answer(self, request: KafkaRequest) -> None:
        """Check the client of a long poll again before it is answered.

        Raises:
            Unauthenticated: the token is no longer known, or has expired.
            GroupAuthorizationFailed: the token no longer allows the request.
        """
        self._identify_again(request)
        authorize(request.identity, REQUEST_RULES[request.request], request.group_id)

    # -- time --------------------------------------------------------------------------------------------------

    def _expect_within(self, timeout_s: float) -> None:
        """Close the connection unless a request is complete in time; a request that is answered has time."""
        self._due_at_s = self._loop.time() + timeout_s
        if self._due_at_s < self._timer_at_s:
            if self._timer is not None:
                self._timer.cancel()
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer_at_s = self._due_at_s
        self._timer = self._loop.call_at(self._due_at_s, self._check_due)

    def _check_due(self) -> None:
        self._timer, self._timer_at_s = None, float("inf")
        if self._running is not None:
            return
        if self._loop.time() + TIMER_SLACK_S < self._due_at_s:
            self._start_timer()
        elif self._buffer or not self.has_request:
            self._refuse("no complete request in time")
        else:
            self._transport.close()

    def _refuse(self, reason: str) -> None:
        log.warning("kafka_connection_closed", client=self._client_host, reason=reason)
        self._transport.abort()
