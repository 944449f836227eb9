"""Request context: the headers, the body and the outcome of one HTTP request."""

import asyncio
import re
import secrets
import time
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID, uuid4

from litestar.di import NamedDependency
from litestar.types import HTTPScope

from api.http.consumer_json import Base64Members
from api.http.forward_signature import ACTOR_HEADER, CLIENT_HEADER, IDEMPOTENCY_HEADER, ForwardedClient, ForwardSigner
from api.http.forwarded_for import client_of
from api.http.hosts import AllowedHosts
from api.http.limits import REQUEST_ID_MAX_CHARS, HttpLimits
from api.http.metrics import Metrics
from api.http.problems import LongPollTimedOut
from api.shared.client_request import ClientRequest
from api.shared.identity import ANONYMOUS_IDENTITY
from api.shared.limits import ACTOR_MAX_CHARS
from api.shared.node_context import NodeContext
from api.shared.trusted_proxies import TrustedProxies
from coordinator_core.admin.changes import Change
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.responses import Answer
from coordinator_core.queries.metrics_snapshot import MetricsSnapshot

_request_numbers = count()

REQUEST_ID_HEADER: Final = b"x-request-id"
PROCESS_ID: Final = secrets.token_hex(10).encode()
"""Prefix of the request ids that this process generates."""
PRINTABLE_ASCII = re.compile(rb"[\x21-\x7e]{1,%d}" % REQUEST_ID_MAX_CHARS)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Dependencies shared by all HTTP requests of a node."""

    node: NodeContext
    metrics_snapshot: MetricsSnapshot
    limits: HttpLimits
    metrics: Metrics
    base64_members: Base64Members
    forward_signer: ForwardSigner
    hosts: AllowedHosts
    trusted_proxies: TrustedProxies


class RequestHead(NamedTuple):
    """What the bytes of a request's head say, and the address that sent them."""

    headers: dict[bytes, bytes]
    """Lower-case name → value; of a repeated header the first."""
    client_host: str


def read_head(server: ServerContext, scope: HTTPScope) -> RequestHead:
    """Return the head of a request."""
    client = scope["client"]
    peer = client[0] if client else ""
    headers = dict([*scope["headers"]][::-1])
    return RequestHead(headers, client_of(server.trusted_proxies, peer, scope["headers"]))


class RequestContext(ClientRequest):
    """The state of one HTTP request; `asgi` and the dispatchers fill it in."""

    __slots__ = ("began_at_s", "body", "headers", "is_forwarded", "request_id", "scope", "server")

    def __init__(self, server: ServerContext, scope: HTTPScope, head: RequestHead) -> None:
        self.began_at_s = time.perf_counter()
        super().__init__(server.node, head.client_host)
        self.server = server
        self.scope = scope
        self.headers = head.headers
        self.request_id = self._request_id()
        self.is_forwarded = False
        """Whether another node forwarded the request."""
        self.body = b""

    @property
    def target(self) -> bytes:
        """Return the method, a space, the raw path and the query."""
        query = self.scope["query_string"]
        return b"%b %b%b%b" % (self.scope["method"].encode(), self.scope["raw_path"], b"?" if query else b"", query)

    def read_forward_signature(self) -> ForwardedClient | None:
        """Verify the signature of a forwarded request, take the client from it, and return it; None if not forwarded.

        Raises:
            InvalidForwardSignature: the signature is invalid.
            CoordinatorNotAvailable: the signature is older than this process.
        """
        if CLIENT_HEADER not in self.headers:
            return None
        client = self.server.forward_signer.read(self.target, self.headers)
        self.client_host, self.identity = client.client_host, client.identity
        self.token_id = None if client.identity is None else client.identity.token_id or None
        self.is_forwarded = True
        if self.identity is None and self.node.tokens is not None:
            self.identity = ANONYMOUS_IDENTITY
        return client

    def header(self, name: bytes) -> bytes | None:
        """Return the first value of a header, or None; `name` is in lower case."""
        return self.headers.get(name)

    def begin_change(self, reason: str | None, *, default_actor: str | None = None) -> Change:
        """Return the change that the request makes, and store its id; `read_change` has the arguments and errors."""
        change = self.read_change(reason, default_actor=default_actor)
        self.change_id = change.change_id
        return change

    def read_change(self, reason: str | None, *, default_actor: str | None = None) -> Change:
        """Return the change that the request would make without `dry_run`: its actor, reason and id.

        Args:
            reason: the reason that the client gave.
            default_actor: the actor without a token and without the header; None: the header is required.

        Raises:
            InvalidRequest: the actor is missing, or the idempotency key is no UUID.
        """
        self.actor = self.authenticated_actor(self._claimed_actor()) or default_actor
        if self.actor is None:
            raise InvalidRequest("the header X-Muster-Actor is required and names who makes the change")
        return Change(self.actor, reason, self._change_id(), self.token_id, self.client_host or None)

    def _claimed_actor(self) -> str | None:
        value = self.headers.get(ACTOR_HEADER)
        if not value:
            return None
        try:
            actor = value.decode()
        except UnicodeDecodeError:
            raise InvalidRequest("the header X-Muster-Actor is not UTF-8") from None
        if len(actor) > ACTOR_MAX_CHARS:
            raise InvalidRequest(f"the header X-Muster-Actor is longer than {ACTOR_MAX_CHARS} characters")
        return actor

    def _change_id(self) -> str:
        value = self.headers.get(IDEMPOTENCY_HEADER)
        if value is None:
            return str(uuid4())
        try:
            return str(UUID(value.decode("ascii")))
        except ValueError:
            raise InvalidRequest("the header Idempotency-Key must be a UUID") from None

    def _request_id(self) -> bytes:
        """Return the client's request id if it is printable ASCII, else a new one."""
        value = self.headers.get(REQUEST_ID_HEADER)
        if value is not None and PRINTABLE_ASCII.fullmatch(value):
            return value
        return b"%s%012x" % (PROCESS_ID, next(_request_numbers))


CurrentRequest: TypeAlias = NamedDependency[RequestContext]
"""The type of an endpoint's parameter `context`."""


def limit_wait(pending: asyncio.Future[Answer], max_wait_ms: int | None, member_id: str) -> None:
    """Fail a long poll after `max_wait_ms`, if that is given; the member stays parked, and retries with `member_id`."""
    if max_wait_ms is None or pending.done():
        return

    def fail() -> None:
        if not pending.done():
            pending.set_exception(LongPollTimedOut(member_id))

    timer = asyncio.get_running_loop().call_later(max_wait_ms / 1000, fail)
    pending.add_done_callback(lambda _: timer.cancel())
