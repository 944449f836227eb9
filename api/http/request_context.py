"""Request context: the client, the group and the outcome of one request."""

import asyncio
import re
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeAlias, TypeVar
from uuid import UUID, uuid4

from litestar.di import NamedDependency
from litestar.types import HTTPScope

from api.http.body_budget import BodyBudget
from api.http.consumer_json import Base64Members
from api.http.deadlines import Deadlines
from api.http.forward_signature import ACTOR_HEADER, CLIENT_HEADER, IDEMPOTENCY_HEADER, ForwardedClient, ForwardSigner
from api.http.hosts import AllowedHosts
from api.http.limits import ACTOR_MAX_CHARS, REQUEST_ID_MAX_CHARS, HttpLimits
from api.http.metrics import Metrics
from api.http.problems import LongPollTimedOut
from api.http.tokens import ALL_TOPICS, Identity, Role, Tokens
from api.http.turns import LongPollTurns
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.responses import Answer
from coordinator_core.runtime.changes import Change
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.shard import MemberRequest

T = TypeVar("T")

_request_numbers = count()

REQUEST_ID_HEADER: Final = b"x-request-id"
PROCESS_ID: Final = secrets.token_hex(10).encode()
"""Prefix of the request ids that this process generates."""
ANONYMOUS_IDENTITY: Final = Identity("", Role.AGENT, ())
"""The identity of a client without a known token, on a node with tokens."""
PRINTABLE_ASCII = re.compile(rb"[\x21-\x7e]{1,%d}" % REQUEST_ID_MAX_CHARS)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Dependencies shared by all requests of a node."""

    coordinator: Coordinator
    limits: HttpLimits
    deadlines: Deadlines
    metrics: Metrics
    base64_members: Base64Members
    forward_signer: ForwardSigner
    hosts: AllowedHosts
    body_budget: BodyBudget
    tokens: Tokens | None = None
    """None: every request is allowed."""
    long_poll_turns: LongPollTurns = field(default_factory=LongPollTurns)


class RequestContext:
    """The state of one request; `asgi` and the dispatchers fill it in."""

    __slots__ = (
        "actor",
        "body",
        "change_id",
        "client_host",
        "group_id",
        "headers",
        "identity",
        "is_forwarded",
        "is_long_poll",
        "request",
        "request_id",
        "reserved_bytes",
        "scope",
        "server",
    )

    def __init__(self, server: ServerContext, scope: HTTPScope) -> None:
        self.server = server
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict([*scope["headers"]][::-1])
        """Lower-case name → value; of a repeated header the first."""
        self.request_id = self._request_id()
        self.request = "unknown"
        """The name of the request, Kafka's if there is one."""
        self.group_id: str | None = None
        client = scope["client"]
        self.client_host = client[0] if client else ""
        """The client's address, such as `192.0.2.7`; empty if the connection has none."""
        self.is_forwarded = False
        """Whether another node forwarded the request."""
        self.is_long_poll = False
        self.body = b""
        self.reserved_bytes = 0
        """The bytes that the body reserves in the node's budget for large bodies."""
        self.identity: Identity | None = None
        """The identity of the request's token; None: the node has no tokens."""
        self.actor: str | None = None
        self.change_id: str | None = None
        """The id of the change that the request makes; None: it makes none."""

    @property
    def coordinator(self) -> Coordinator:
        """Return the coordinator of this node."""
        return self.server.coordinator

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
        self.is_forwarded = True
        if self.identity is None and self.server.tokens is not None:
            self.identity = ANONYMOUS_IDENTITY
        return client

    def reserve_body_bytes(self, size: int) -> None:
        """Reserve memory for a body of this size, as far as it is known; 0 releases the reservation.

        Raises:
            CoordinatorNotAvailable: the budget for large bodies is exhausted.
        """
        self.reserved_bytes = self.server.body_budget.resize(self.reserved_bytes, size)

    def header(self, name: bytes) -> bytes | None:
        """Return the first value of a header, or None; `name` is in lower case."""
        return self.headers.get(name)

    async def coordinate(self, group_id: str, request: MemberRequest, kind: type[T]) -> T:
        """Submit a request to the coordinator, and return its response, which is of type `kind`.

        A long poll waits without a limit, any other request until its deadline.
        """
        pending = self.server.coordinator.submit(group_id, request)
        if pending.done():  # nearly every heartbeat: a deadline would double its cost
            answer: Answer = pending.result()
        else:
            answer = await (pending if self.is_long_poll else self.with_deadline(pending))
        assert isinstance(answer, kind)
        return answer

    def with_deadline(self, answer: Awaitable[T]) -> Awaitable[T]:
        """Wait for a response until the deadline of the request.

        Raises:
            CoordinatorNotAvailable: the deadline passed.
        """
        return self.server.deadlines.wait(answer)

    async def wait_for_confirmations(self) -> list[str]:
        """Wait for one renewal of the other nodes; return those that have not confirmed the cluster's settings."""
        return await self.server.coordinator.confirmations.wait(self.server.deadlines.time_left_ms())

    def begin_change(self, reason: str | None, *, default_actor: str | None = None) -> Change:
        """Return the actor, the reason and the id of the change that the request makes, and store the id.

        Args:
            reason: the reason that the client gave.
            default_actor: the actor without a token and without the header; None: the header is required.

        Raises:
            InvalidRequest: the actor is missing, or the idempotency key is no UUID.
        """
        self.actor = self._authenticated_actor() or default_actor
        if self.actor is None:
            raise InvalidRequest("the header X-Muster-Actor is required and names who makes the change")
        self.change_id = self._change_id()
        return Change(self.actor, reason, self.change_id)

    def can_access(self, group_id: str | None) -> bool:
        """Return whether the token covers a group; None stands for all groups."""
        if self.identity is None:
            return True
        return self.identity.can_access_all if group_id is None else self.identity.can_access(group_id)

    @property
    def trusted_topic_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of the topics whose log ends the client is trusted to report for every group."""
        return ALL_TOPICS if self.identity is None else self.identity.trusted_topic_prefixes

    def _authenticated_actor(self) -> str | None:
        """Return the token's actor, followed by the header's in brackets if it differs; without tokens the header's."""
        header_actor = self._actor()
        if self.identity is None:
            return header_actor
        actor = self.identity.actor
        return actor if header_actor in {None, actor} else f"{actor} ({header_actor})"

    def _actor(self) -> str | None:
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


async def wait_at_most(answer: Awaitable[T], max_wait_ms: int | None, member_id: str) -> T:
    """Wait for a parked response for at most `max_wait_ms`; the request stays parked in the group after that.

    Raises:
        LongPollTimedOut: the time is over; the client retries, with `member_id`.
    """
    try:
        async with asyncio.timeout(None if max_wait_ms is None else max_wait_ms / 1000):
            return await answer
    except TimeoutError:
        raise LongPollTimedOut(member_id) from None
