"""Forwarding: sends a request for a group of another node to that node, over persistent connections.

* A request is forwarded only if the runtime refused it with NotCoordinator before any change, so that nothing is done
  twice, only once, and only while the client still waits. With `X-Muster-Forward: false` the client gets the refusal
  with the owner's address instead.
* Long polls have a connection pool of their own, so that other requests never wait for them. A long poll ends when the
  epoch of the shard changes, since the owner can no longer answer it, and when this node stops. Other requests end
  after the request timeout.
* If the owner does not answer, the outcome is unknown, and the client gets a retriable error.

Source: ARCHITECTURE.md "Ownership and failover"; http-api.md "Errors".
"""

import asyncio
from typing import Final

import aiohttp
import msgspec
import structlog
from yarl import URL

from api.http import LISTENER
from api.http.problems import PROBLEM_JSON
from api.http.request_context import RequestContext
from api.http.response import HttpResponse
from api.shared.errors import NO_ERROR
from api.shared.tls import NodeTls
from coordinator_core.protocol.errors import CoordinatorNotAvailable, InvalidRequest, NotCoordinator

log = structlog.get_logger("muster.http")

FORWARD_HEADER: Final = b"x-muster-forward"
FORWARDED_REQUEST_HEADERS: Final = frozenset({b"accept", b"content-type", b"idempotency-key", b"x-muster-actor"})
"""The client's headers that are forwarded, beside the request id and the signature; never a token."""
RETURNED_RESPONSE_HEADERS: Final = frozenset({"allow", "retry-after", "x-muster-change-id"})
"""The owner's response headers that are returned to the client."""
SKIPPED_AUTO_HEADERS: Final = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
"""Headers that aiohttp would add by default."""
STOPPING: Final = "this node is stopping"
"""Error detail for requests that a stopping node refuses."""
MOVED: Final = "the group has moved to another node"
KEEP_ALIVE_S: Final = 60
"""How long an idle connection to another node is kept open: shorter than that node keeps it."""


class Forwarder:
    """Forwards requests to the nodes that own their groups."""

    def __init__(self, *, is_on: bool, timeout_ms: int, max_connections: int, tls: NodeTls) -> None:
        """Connect to no node before the first request.

        Args:
            is_on: whether requests are forwarded at all.
            timeout_ms: the timeout of requests other than long polls, and of connecting.
            max_connections: how many such requests may be in progress to one node at once; further ones wait.
            tls: how certificates of other nodes are checked.
        """
        self._is_on = is_on
        self._timeout_s = timeout_ms / 1000
        self._max_connections = max_connections
        self._tls = tls
        self._stopping = asyncio.Event()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        """Whether for long polls → the pool of connections."""

    async def forward(self, context: RequestContext, error: NotCoordinator) -> HttpResponse:
        """Return the response of the node that owns the group of a request.

        Args:
            context: a request with its body read.
            error: this node's refusal.

        Raises:
            NotCoordinator: the request may not be forwarded, or the owner lost the group during a long poll.
            CoordinatorNotAvailable: the owner did not answer, or this node stops; the request may have been carried out
                or not.
        """
        owner = error.listeners.get(LISTENER)
        if owner is None or not self._is_on or context.is_forwarded or context.header(FORWARD_HEADER) == b"false":
            raise error
        context.change_id = None  # the owner makes the change, and returns its id
        return await (self._until_owner_changes if context.is_long_poll else self._send)(context, owner)

    def cancel_long_polls(self) -> None:
        """End all long polls with a retriable error, because this node is stopping."""
        self._stopping.set()

    async def close(self) -> None:
        """Close every connection."""
        for session in self._sessions.values():
            await session.close()

    async def _send(self, context: RequestContext, owner: str) -> HttpResponse:
        url = URL(owner.rstrip("/") + context.target.partition(b" ")[2].decode("ascii"), encoded=True)
        headers = _headers(context, owner)
        session = self._session(is_long_poll=context.is_long_poll)
        try:
            async with session.request(
                context.scope["method"],
                url,
                data=context.body,
                headers=headers,
                ssl=self._tls.client,
            ) as answer:
                return _to_response(answer, await answer.read())
        except (aiohttp.ClientError, TimeoutError) as failure:
            log.warning(
                "request_forward_failed",
                owner=owner,
                group=context.group_id,
                reason=getattr(failure, "strerror", None) or str(failure) or "no answer in time",
            )
            raise CoordinatorNotAvailable("the node that owns the group does not answer") from None

    async def _until_owner_changes(self, context: RequestContext, owner: str) -> HttpResponse:
        """Wait for a response until the epoch of the shard changes, or has changed before, or this node stops."""
        coordinator, group_id = context.coordinator, context.group_id
        assert group_id is not None
        found = coordinator.find_coordinator(group_id)
        if found.listeners.get(LISTENER) != owner:
            raise NotCoordinator(MOVED, found.listeners)
        moved = asyncio.ensure_future(coordinator.wait_for_new_epoch(group_id, found.epoch))
        stopping = asyncio.ensure_future(self._stopping.wait())
        answer = asyncio.ensure_future(self._send(context, owner))
        try:
            await asyncio.wait({answer, moved, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if stopping.done():
                raise CoordinatorNotAvailable(STOPPING)
            raise NotCoordinator(MOVED, coordinator.find_coordinator(group_id).listeners)
        finally:
            for waiting in (answer, moved, stopping):
                waiting.cancel()

    def _session(self, *, is_long_poll: bool) -> aiohttp.ClientSession:
        if is_long_poll not in self._sessions:
            self._sessions[is_long_poll] = self._new_session(is_long_poll=is_long_poll)
        return self._sessions[is_long_poll]

    def _new_session(self, *, is_long_poll: bool) -> aiohttp.ClientSession:
        limit = 0 if is_long_poll else self._max_connections
        total_s = None if is_long_poll else self._timeout_s
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=limit, keepalive_timeout=KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=total_s, sock_connect=self._timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=SKIPPED_AUTO_HEADERS,
        )


def _headers(context: RequestContext, owner: str) -> list[tuple[str, str]]:
    """Return the headers of a forwarded request, which aiohttp encodes in UTF-8.

    Raises:
        InvalidRequest: a header of the client is not UTF-8.
    """
    given = [(name, value) for name, value in context.scope["headers"] if name in FORWARDED_REQUEST_HEADERS]
    signature = context.server.forward_signer.headers(
        context.target, context.body, context.headers, context.client_host, context.identity, node_url=owner
    )
    try:
        return [
            (name.decode(), value.decode())
            for name, value in (*given, (b"x-request-id", context.request_id), *signature)
        ]
    except UnicodeDecodeError:
        raise InvalidRequest("a header of a request that is forwarded to another node is not UTF-8") from None


def _to_response(answer: aiohttp.ClientResponse, body: bytes) -> HttpResponse:
    content_type = answer.headers.get("content-type", "").encode("latin-1")
    headers = tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers.items()
        if name.lower() in RETURNED_RESPONSE_HEADERS
    )
    return HttpResponse(answer.status, content_type, body, headers, _code(content_type, body))


class _Problem(msgspec.Struct):
    code: str = NO_ERROR


def _code(content_type: bytes, body: bytes) -> str:
    """Return the error code in the owner's response, or NONE."""
    return msgspec.json.decode(body, type=_Problem).code if content_type == PROBLEM_JSON else NO_ERROR
