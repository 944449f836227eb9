"""The ASGI application: reads each request, dispatches it to the fast path or Litestar, counts and logs it.

Every error becomes a problem response here. An unexpected error is logged with the request id; the client gets
UNKNOWN_SERVER_ERROR without details.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import CoroutineType
from typing import Any, Final, TypeVar

import structlog
from litestar import Litestar
from litestar.types import HTTPScope, Receive, Send

from api.http import LISTENER
from api.http.authorization import AUTHORIZATION, authenticate, authorize_answer
from api.http.fast_path import FastPathEndpoint, Submitted
from api.http.forward_signature import CLIENT_HEADER
from api.http.forwarding import STOPPING, Forwarder
from api.http.idempotency_cache import IdempotencyCache
from api.http.kept_heads import Finish, RepeatableRequest
from api.http.limits import RETRY_AFTER_S
from api.http.litestar_adapter import answer_with_litestar
from api.http.paths import GroupPath, read_group_path
from api.http.problems import InvalidForwardSignature, problem_response
from api.http.request_body import ClientDisconnected, check_text, declared_bytes, read_body
from api.http.request_context import RequestContext, ServerContext, read_head
from api.http.request_log import log_request
from api.http.response import JSON, HttpResponse, json_response
from api.shared.client_request import KnownClient
from api.shared.connection_gate import ConnectionCounts
from api.shared.errors import NO_ERROR, ThrottlingQuotaExceeded, UnknownServerError
from api.shared.identity import ANONYMOUS_IDENTITY
from api.shared.turns import SMALL_REQUEST_MAX_BYTES
from api.shared.write_batch import LARGE_WRITE_BYTES
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.memory import NO_MEMORY, is_out_of_memory

log = structlog.get_logger("muster.http")

PROBE_PATHS: Final = frozenset({b"/healthz", b"/readyz", b"/metrics"})
"""Paths that a stopping node still serves, for probes and scrapes."""

CACHE_CONTROL: Final = b"cache-control"
NOT_STORED: Final = (CACHE_CONTROL, b"no-store")
"""Of responses to GET that do not say how they are cached: data of groups stays in no cache of a browser or proxy."""

HEARTBEAT: Final = b"heartbeat"
OFFSETS: Final = b"offsets"
HEARTBEAT_REQUEST: Final = "Heartbeat"

UNREPEATED_HEADERS: Final = frozenset({b"transfer-encoding", b"content-encoding", b"expect", CLIENT_HEADER})
"""A request with one of these is parsed each time."""

SINGLE_WRITE_EXTENSION: Final = "muster.single_write"
"""The ASGI extension that sends a whole response in one write, or returns False and does nothing."""
IS_CONNECTED_EXTENSION: Final = "muster.is_connected"
"""The ASGI extension that returns whether the client has not closed its connection, as far as the server has read."""

E = TypeVar("E", bound=CoordinatorError)
Headers = list[tuple[bytes, bytes]]
SingleWrite = Callable[[Send, int, Headers, bytes], bool]
IsConnected = Callable[[Send], bool]


class AsgiApp:
    """The whole HTTP API as an ASGI application."""

    def __init__(
        self,
        server: ServerContext,
        fast_path: Mapping[bytes, FastPathEndpoint],
        litestar: Litestar,
        forwarder: Forwarder,
    ) -> None:
        self._server = server
        self._node = server.node
        self._forwarder = forwarder
        self._fast_path = fast_path
        self._litestar = litestar
        self._idempotency_cache = IdempotencyCache()
        self._is_closing = False

    @property
    def connections(self) -> ConnectionCounts:
        """Return the connection counters that a scrape exports."""
        return self._server.metrics.connections

    def begin_shutdown(self) -> None:
        """Refuse new requests with a retriable error, and cancel forwarded long polls."""
        self._is_closing = True
        self._forwarder.cancel_long_polls()

    async def close(self) -> None:
        """Close the connections to other nodes."""
        await self._forwarder.close()

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer one request. Source: the ASGI specification, version 3."""
        if scope["method"] == "HEAD":  # as GET; the server sends no body
            scope = {**scope, "method": "GET"}
        context = RequestContext(self._server, scope, read_head(self._server, scope))
        await self._answer(context, self._respond(context, receive, send), send)

    async def _answer(self, context: RequestContext, responding: Awaitable[HttpResponse], send: Send) -> None:
        try:
            response = await responding
            if context.is_long_poll and self._node.tokens is not None:
                authorize_answer(context, self._node.tokens)
        except ClientDisconnected:
            return
        except asyncio.CancelledError:
            if not self._is_closing:
                raise
            response = problem_response(CoordinatorNotAvailable(STOPPING))  # the shutdown grace is over
        except InvalidForwardSignature as error:
            self._server.metrics.signatures_refused[error.fault] += 1
            log.warning("forward_signature_refused", fault=error.fault, reason=error.detail, client=context.client_host)
            response = problem_response(error)
        except ThrottlingQuotaExceeded as error:
            await context.throttle(error.retry_after_s)
            response = problem_response(_without_frames(error))
        except CoordinatorNotAvailable as error:
            response = problem_response(_without_frames(error))
            await context.throttle_large_body()
        except CoordinatorError as error:
            response = problem_response(_without_frames(error))
        except Exception as error:  # one failed request must not affect others
            if is_out_of_memory(error):
                response = problem_response(CoordinatorNotAvailable(NO_MEMORY))
            else:
                log.exception("request_failed", request_id=context.request_id.decode(), request=context.request)
                response = problem_response(UnknownServerError("see the node's log for this request id"))
        finally:
            context.end_turn()
            if context.reserved_bytes:
                context.reserve_body_bytes(0)
        sending = self._send(context, response, send)
        if sending is not None:
            try:
                await sending
            except asyncio.CancelledError:
                if not self._is_closing:
                    raise

    def _send(self, context: RequestContext, response: HttpResponse, send: Send) -> Coroutine[Any, Any, None] | None:
        """Count, log and send a response; return what is left to do if one write does not send it."""
        took_s = time.perf_counter() - context.began_at_s
        self._node.metrics.count(context.request, response.code, took_s)
        log_request(context, response, took_ms=took_s * 1000)
        headers = _with_body_headers(response, self._own_headers(context, response))
        extensions: Mapping[str, Any] = context.scope.get("extensions") or {}
        send_in_one_write: SingleWrite | None = extensions.get(SINGLE_WRITE_EXTENSION)
        is_small = len(response.body) <= LARGE_WRITE_BYTES
        if is_small and send_in_one_write and send_in_one_write(send, response.status, headers, response.body):
            return None
        return _send_parts(response, headers, send)

    # -- repeated requests -------------------------------------------------------------------------------

    def repeatable(self, scope: HTTPScope) -> RepeatableRequest | None:
        """Return what the head of a request says, if all that follows from it alone is as the fast path wants it."""
        if scope["method"] != "POST" or scope["query_string"]:
            return None
        head = read_head(self._server, scope)
        headers = head.headers
        content_length = declared_bytes(headers)
        if (
            len(headers) < len([*scope["headers"]])
            or headers.get(b"content-type") != JSON
            or not UNREPEATED_HEADERS.isdisjoint(headers)
            or not 0 < content_length <= min(SMALL_REQUEST_MAX_BYTES, self._server.limits.max_body_bytes)
        ):
            return None
        try:
            self._server.hosts.check(scope, headers)
            path = read_group_path("POST", scope["raw_path"])
        except CoordinatorError:
            return None
        endpoint = None if path is None else self._fast_path.get(path.action)
        if path is None or endpoint is None:
            return None
        return RepeatableRequest(scope, head, path.group_id, endpoint, content_length)

    def answer_repeated(self, request: RepeatableRequest, body: bytes, send: Send, finish: Finish) -> None:
        """Answer a request now, or when the coordinator has its response; then call `finish`."""
        context = RequestContext(self._server, request.scope, request.head)
        try:
            submitted = self._submit(context, request, body)
        except Exception as failure:  # noqa: BLE001 - answered as that of any request
            finish(self._answer_later(context, _failing(failure), send))
            return
        if submitted is None:
            finish(self._answer_later(context, request.endpoint.answer(context, request.group_id), send))
            return
        pending, deadlines = submitted.pending, self._node.deadlines
        if pending.done():  # nearly every heartbeat
            finish(self._answer_submitted(context, submitted, send))
            return
        pending.add_done_callback(lambda _: finish(self._answer_submitted(context, submitted, send)))
        if not context.is_long_poll:
            deadlines.begin(pending)
            pending.add_done_callback(deadlines.end)

    def _answer_submitted(
        self, context: RequestContext, submitted: Submitted[Any], send: Send
    ) -> Coroutine[Any, Any, None] | None:
        """Answer a request with the coordinator's response, or return what is left to do."""
        pending, tokens = submitted.pending, self._node.tokens
        try:
            if pending.cancelled():
                raise self._node.deadlines.error()
            body = submitted.respond(pending.result())
            if isinstance(body, CoroutineType):
                return self._answer_later(context, _responding(body), send)
            if context.is_long_poll and tokens is not None:
                authorize_answer(context, tokens)
            return self._send(context, json_response(body), send)
        except Exception as failure:  # noqa: BLE001 - answered as that of any request
            return self._answer_later(context, _failing(failure), send)

    def _answer_later(
        self, context: RequestContext, responding: Awaitable[HttpResponse], send: Send
    ) -> Coroutine[Any, Any, None]:
        return self._answer(context, self._or_forward(context, responding, send), send)

    def _submit(self, context: RequestContext, request: RepeatableRequest, body: bytes) -> Submitted[Any] | None:
        """Check what may have changed since the head was parsed, and submit the request."""
        if self._is_closing:
            raise CoordinatorNotAvailable(STOPPING)
        context.group_id, context.body = request.group_id, body
        endpoint, client = request.endpoint, request.client
        context.request, context.is_long_poll = endpoint.request, endpoint.is_long_poll
        is_heartbeat = endpoint.request == HEARTBEAT_REQUEST
        tokens = self._node.tokens
        if client is not None and (tokens is None or tokens.is_current(client.tokens_version)):
            context.take_client(client)
            self._node.quotas.take(client.quota, 1, len(body), is_heartbeat=is_heartbeat)
        else:
            request.client = None
            if tokens is not None:
                authenticate(context, tokens)
            context.identify_client()
            context.check_quotas(1, len(body), is_heartbeat=is_heartbeat)
            endpoint.begin(context)
            request.client = self._known_client(context)
        check_text(body)
        return endpoint.submit(context, request.group_id)

    def _known_client(self, context: RequestContext) -> KnownClient | None:
        """Return the client of a request that is allowed; None: its token expires, or it has a certificate."""
        assert context.quota is not None, "its quotas were checked"
        tokens = self._node.tokens
        version = 0 if tokens is None else tokens.version_of(context.headers.get(AUTHORIZATION, b""))
        return None if version is None else KnownClient(version, context.identity, context.token_id, context.quota)

    # -- all others --------------------------------------------------------------------------------------

    async def _respond(self, context: RequestContext, receive: Receive, send: Send) -> HttpResponse:
        self._server.hosts.check(context.scope, context.headers)
        if self._is_closing and context.scope["raw_path"] not in PROBE_PATHS:
            raise CoordinatorNotAvailable(STOPPING)
        method = context.scope["method"]
        path = read_group_path(method, context.scope["raw_path"], self._node.group_id_max_chars)
        if self._node.tokens is not None:
            authenticate(context, self._node.tokens)
        forwarded = context.read_forward_signature()
        context.identify_client()
        if path is not None:
            context.group_id = path.group_id
        max_bytes = self._server.limits.max_body_bytes
        declared = min(declared_bytes(context.headers), max_bytes)  # what is larger is not read
        if context.scope["raw_path"] not in PROBE_PATHS:
            is_heartbeat = path is not None and path.action == HEARTBEAT
            context.check_quotas(1, declared, is_heartbeat=is_heartbeat)
        try:
            context.body = await read_body(method, context.headers, receive, max_bytes, context.reserve_body_bytes)
        except CoordinatorNotAvailable:
            await context.throttle(RETRY_AFTER_S)
            raise
        if context.body and self._node.tokens is not None:
            authenticate(context, self._node.tokens)  # its token may have been revoked while the body arrived
        if len(context.body) > declared:
            context.check_quotas(0, len(context.body))
        if forwarded is not None:
            forwarded.check_body(context.body)
        if path is not None and path.action == OFFSETS and method == "POST":
            await _check_connected(context, send)
        return await self._or_forward(context, self._dispatch(context, path), send)

    async def _dispatch(self, context: RequestContext, path: GroupPath | None) -> HttpResponse:
        if path is not None:
            fast_path = self._fast_path.get(path.action)
            if fast_path is not None and context.scope["method"] == "POST":
                return await fast_path.answer(context, path.group_id)
        return self._idempotency_cache.find(context) or await self._with_litestar(context)

    async def _or_forward(
        self, context: RequestContext, responding: Awaitable[HttpResponse], send: Send
    ) -> HttpResponse:
        """Return the response of this node, or of the one that owns the group."""
        try:
            return await responding
        except NotCoordinator as error:
            await _check_connected(context, send)
            return await self._forwarder.forward(context, _without_frames(error))

    async def _with_litestar(self, context: RequestContext) -> HttpResponse:
        response = await self._node.deadlines.wait(answer_with_litestar(self._litestar, context))
        self._idempotency_cache.store(context, response)
        return response

    def _own_headers(self, context: RequestContext, response: HttpResponse) -> Headers:
        headers = [(b"x-request-id", context.request_id)]
        if context.scope["method"] == "GET" and CACHE_CONTROL not in dict(response.headers):
            headers.append(NOT_STORED)
        if context.change_id is not None and response.code == NO_ERROR:
            headers.append((b"x-muster-change-id", context.change_id.encode()))
        if context.group_id is not None and context.identity is not ANONYMOUS_IDENTITY:
            owner = self._node.coordinator.owner_address(context.group_id, LISTENER)
            if owner is not None:
                headers.append((b"x-muster-coordinator", owner.encode()))
        return headers


async def _check_connected(context: RequestContext, send: Send) -> None:
    """Check that the client still waits for the response.

    A commit that has waited in the socket of a paused node would replace a newer one that the client has sent since: to
    another node, or, while the owner still accepts connections one by one, over one that it had accepted before.

    Raises:
        ClientDisconnected: the client has closed its connection.
    """
    extensions: Mapping[str, Any] = context.scope.get("extensions") or {}
    is_connected: IsConnected | None = extensions.get(IS_CONNECTED_EXTENSION)
    if is_connected is not None:
        await asyncio.sleep(0)  # the event loop reads what has arrived behind the request
        if not is_connected(send):
            await asyncio.sleep(0)  # uvicorn notices it, too, and reports no error of the application
            raise ClientDisconnected


def _without_frames(error: E) -> E:
    """Drop the traceback of an error, which would keep the request and its body in memory.

    A frame of the traceback holds the future that holds the error: a cycle that only the garbage collector frees, and
    that runs rarely (`muster/node/serve.py`).
    """
    return error.with_traceback(None)


def _with_body_headers(response: HttpResponse, headers: Headers) -> Headers:
    headers.extend(response.headers)
    if response.status != 204:
        headers.append((b"content-type", response.content_type))
        headers.append((b"content-length", b"%d" % len(response.body)))
    return headers


async def _failing(failure: Exception) -> HttpResponse:
    raise failure


async def _responding(body: Coroutine[Any, Any, Any]) -> HttpResponse:
    return json_response(await body)


async def _send_parts(response: HttpResponse, headers: Headers, send: Send) -> None:
    """Send a response as the client reads it: no more of a large body is copied for a client that reads nothing."""
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    body = response.body
    for begin in range(0, max(1, len(body)), LARGE_WRITE_BYTES):
        end = begin + LARGE_WRITE_BYTES
        await send({"type": "http.response.body", "body": body[begin:end], "more_body": end < len(body)})
