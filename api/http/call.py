"""A call is one request on its way through the front door: who asks, about which group, and what came of it."""

import asyncio
import re
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeAlias, TypeVar
from uuid import UUID, uuid4

from litestar.di import NamedDependency
from litestar.types import HTTPScope

from api.http.body_budget import BodyBudget
from api.http.deadlines import Deadlines
from api.http.forward_mark import ACTOR_HEADER, CLIENT_HEADER, IDEMPOTENCY_HEADER, ForwardMarks, Mark
from api.http.hosts import AllowedHosts
from api.http.limits import ACTOR_MAX_CHARS, REQUEST_ID_MAX_CHARS, HttpLimits
from api.http.metrics import Metrics
from api.http.problems import StillWaiting
from api.http.tokens import EVERY_TOPIC, Identity, Role, Tokens
from api.http.translation import OpaqueReaders
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.replies import Answer
from coordinator_core.runtime.act import Act
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.shard import MemberRequest

T = TypeVar("T")

_request_numbers = count()

REQUEST_ID_HEADER: Final = b"x-request-id"
RUN_ID: Final = secrets.token_hex(10).encode()
"""What the ids that this process gives out begin with."""
STRANGER: Final = Identity("", Role.AGENT, ())
"""Whoever comes without a token that is known, where there are tokens."""
PRINTABLE = re.compile(rb"[\x21-\x7e]{1,%d}" % REQUEST_ID_MAX_CHARS)


@dataclass(frozen=True, slots=True)
class Door:
    """What all calls of a node share."""

    coordinator: Coordinator
    limits: HttpLimits
    deadlines: Deadlines
    metrics: Metrics
    opaque_readers: OpaqueReaders
    forward_marks: ForwardMarks
    hosts: AllowedHosts
    body_budget: BodyBudget
    tokens: Tokens | None = None
    """None: the node is open."""


class Call:
    """One request; the edge fills it in as it is read."""

    __slots__ = (
        "actor",
        "body",
        "change_id",
        "client_host",
        "door",
        "group_id",
        "headers",
        "held_bytes",
        "identity",
        "is_forwarded",
        "is_long_poll",
        "request",
        "request_id",
        "scope",
    )

    def __init__(self, door: Door, scope: HTTPScope) -> None:
        self.door = door
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict([*scope["headers"]][::-1])
        """By their names in lower case; of several of one name the first."""
        self.request_id = self._request_id()
        self.request = "unknown"
        """What is asked, by Kafka's name where it has one."""
        self.group_id: str | None = None
        client = scope["client"]
        self.client_host = client[0] if client else ""
        """The client's address, as `192.0.2.7`; empty where the connection has none."""
        self.is_forwarded = False
        """Whether another node passed the request on."""
        self.is_long_poll = False
        self.body = b""
        self.held_bytes = 0
        """What the body takes of the node's budget for large bodies."""
        self.identity: Identity | None = None
        """Whose token it came with; None: the node is open, and nobody is asked for one."""
        self.actor: str | None = None
        self.change_id: str | None = None
        """Set when the call changes something under a change of its own."""

    @property
    def coordinator(self) -> Coordinator:
        """Return the node that is asked."""
        return self.door.coordinator

    @property
    def target(self) -> bytes:
        """Return what is asked for: the method, a space, the raw path and the query."""
        query = self.scope["query_string"]
        return b"%b %b%b%b" % (self.scope["method"].encode(), self.scope["raw_path"], b"?" if query else b"", query)

    def read_mark(self) -> Mark | None:
        """Return the request's forwarding mark, if it has one, and take the client from it; before the body is read.

        Raises:
            ForeignMark: the mark does not hold.
            CoordinatorNotAvailable: the mark is older than this process.
        """
        if CLIENT_HEADER not in self.headers:
            return None
        mark = self.door.forward_marks.read(self.target, self.headers)
        self.client_host, self.identity = mark.client_host, mark.identity
        self.is_forwarded = True
        if self.identity is None and self.door.tokens is not None:
            self.identity = STRANGER
        return mark

    def hold_body(self, size: int) -> None:
        """Hold memory for a body of this size, as far as it is known; 0 releases what was held.

        Raises:
            CoordinatorNotAvailable: the node holds as many large bodies as it may.
        """
        self.held_bytes = self.door.body_budget.resize(self.held_bytes, size)

    def header(self, name: bytes) -> bytes | None:
        """Return a header's first value, or None; the name in lower case."""
        return self.headers.get(name)

    async def ask(self, group_id: str, request: MemberRequest, kind: type[T]) -> T:
        """Ask the coordinator, and return its answer, which is of the kind that belongs to the request.

        A long poll waits as long as it takes; any other request as long as requests may.
        """
        asked = self.door.coordinator.ask(group_id, request)
        if asked.done():  # as a heartbeat's is, nearly always: a place among the deadlines would cost as much again
            answer: Answer = asked.result()
        else:
            answer = await (asked if self.is_long_poll else self.in_time(asked))
        assert isinstance(answer, kind)
        return answer

    def in_time(self, answer: Awaitable[T]) -> Awaitable[T]:
        """Wait for an answer no longer than a request may take.

        Raises:
            CoordinatorNotAvailable: none has come in time.
        """
        return self.door.deadlines.keep(answer)

    def act(self, reason: str | None, *, default_actor: str | None = None) -> Act:
        """Return who changes something, and why; from now on the call has a change id.

        Args:
            reason: the caller's own words.
            default_actor: who it is when no header says so; None: the header is needed.

        Raises:
            InvalidRequest: the caller does not say who it is and has no token, or the idempotency key is no UUID.
        """
        self.actor = self._actor_with_token() or default_actor
        if self.actor is None:
            raise InvalidRequest("the header X-Muster-Actor must say who changes this")
        self.change_id = self._change_id()
        return Act(self.actor, reason, self.change_id)

    def sees(self, group_id: str | None) -> bool:
        """Tell whether a group is one of the caller's own; None stands for all of them."""
        if self.identity is None:
            return True
        return self.identity.sees_all if group_id is None else self.identity.sees(group_id)

    @property
    def trusted_topics(self) -> tuple[str, ...]:
        """Return the prefixes of the topics whose log ends the caller may set for every group."""
        return EVERY_TOPIC if self.identity is None else self.identity.trusted_topics

    def _actor_with_token(self) -> str | None:
        """Return who it is: by the token first, and what the header says beside that in brackets."""
        said = self._actor()
        if self.identity is None:
            return said
        actor = self.identity.actor
        return actor if said in {None, actor} else f"{actor} ({said})"

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
        """Return the caller's own id where it has one that can be sent back, else a new one."""
        value = self.headers.get(REQUEST_ID_HEADER)
        if value is not None and PRINTABLE.fullmatch(value):
            return value
        return b"%s%012x" % (RUN_ID, next(_request_numbers))


ThisCall: TypeAlias = NamedDependency[Call]
"""How an endpoint names the call it answers."""


async def within(answer: Awaitable[T], max_wait_ms: int | None, member_id: str) -> T:
    """Wait for a parked answer, but not longer than the caller wants to; the group is not told of giving up.

    Raises:
        StillWaiting: the time is over; the caller asks again, as `member_id`.
    """
    try:
        async with asyncio.timeout(None if max_wait_ms is None else max_wait_ms / 1000):
            return await answer
    except TimeoutError:
        raise StillWaiting(member_id) from None
