"""A request of a client: who sent it, what it may do, and how the node answers it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from api.shared.access_control import Operation, ResourceType
from api.shared.connection_gate import counted_address
from api.shared.errors import TopicAuthorizationFailed
from api.shared.identity import ALL_TOPICS, Identity
from api.shared.node_context import NodeContext
from api.shared.quotas import NO_RATES, Quota
from api.shared.turns import SMALL_REQUEST_MAX_BYTES
from coordinator_core.protocol.errors import PolicyViolation
from coordinator_core.protocol.requests import CommitOffsets, MemberRequest
from coordinator_core.protocol.responses import Answer
from coordinator_core.queries.group_patterns import GroupPatterns
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.current_request import commit_origin, current_client
from coordinator_core.state_store.dirty_offsets import CommitOrigin
from coordinator_core.state_store.postgres.connections import Transaction

MAX_THROTTLE_S: Final = 1.0
"""How long the refusal of a throttled request is delayed at most."""

ITEM_BYTES: Final = 512
"""One item of a list that is read from the database takes as long as so many bytes of a request."""
RESPONSE_REST_DIVISOR: Final = 16
"""A response is followed by a sixteenth of the rest of a request: it leaves the database no work behind."""

P = ParamSpec("P")
T = TypeVar("T")


class KnownClient(NamedTuple):
    """The client of a request that is allowed."""

    tokens_version: int
    """Of the tokens by which it is allowed; 0: the node has none."""
    identity: Identity | None
    token_id: str | None
    quota: Quota


class ClientRequest:
    """The state of one request; each listener has a subclass with what its wire protocol adds."""

    __slots__ = (
        "actor",
        "change_id",
        "client",
        "client_host",
        "group_id",
        "identity",
        "is_long_poll",
        "node",
        "quota",
        "request",
        "reserved_bytes",
        "rest_bytes",
        "token_id",
        "turn_bytes",
    )

    def __init__(self, node: NodeContext, client_host: str) -> None:
        """Begin a request of a client that is not identified yet.

        Args:
            node: the node that received it.
            client_host: the client's address, such as `192.0.2.7`; empty if the connection has none.
        """
        self.node = node
        self.client_host = client_host
        self.client = ""
        """Who has a share of the node's limits: the token's actor, or without a token the address or /64 network."""
        self.request = "unknown"
        """The name of the request, Kafka's if there is one."""
        self.group_id: str | None = None
        self.quota: Quota | None = None
        """The quotas that have counted it."""
        self.is_long_poll = False
        self.reserved_bytes = 0
        """The bytes that the body reserves in the node's budget for large bodies."""
        self.turn_bytes = 0
        """The bytes of the body, while the request is a large one in progress."""
        self.rest_bytes = 0
        """As how many bytes it counts for the rest after it."""
        self.identity: Identity | None = None
        """The identity of the request's token; None: the node has no tokens."""
        self.token_id: str | None = None
        """The id of the token that the client sent, which may be unknown or have expired; None: it sent none."""
        self.actor: str | None = None
        self.change_id: str | None = None
        """The id of the change that the request makes; None: it makes none."""

    @property
    def coordinator(self) -> Coordinator:
        """Return the coordinator of this node."""
        return self.node.coordinator

    def reserve_body_bytes(self, size: int) -> None:
        """Reserve memory for a body of this size, as far as it is known; 0 releases the reservation.

        Raises:
            CoordinatorNotAvailable: the budget for large bodies is exhausted.
        """
        self.reserved_bytes = self.node.body_budget.resize(self.client, self.reserved_bytes, size)

    async def throttle(self, retry_after_s: float) -> None:
        """Delay the refusal of a request, as Kafka mutes a connection; the rest of its body is not read meanwhile.

        A client that sends its next request when it has the answer to the last is slowed down, and no other: the
        request has no turn meanwhile.
        """
        self.end_turn()
        await asyncio.sleep(min(retry_after_s, MAX_THROTTLE_S))

    async def throttle_large_body(self) -> None:
        """Delay the refusal of a request with a large body; it takes neither memory nor a turn meanwhile.

        A client that repeats it at once would otherwise take more of the node than one whose requests are answered.
        """
        if self.reserved_bytes:
            self.reserve_body_bytes(0)
            await self.throttle(MAX_THROTTLE_S)

    def take_client(self, known: KnownClient) -> None:
        """Take the client from an earlier request."""
        self.identity, self.token_id, self.quota = known.identity, known.token_id, known.quota
        self.client = known.quota.client
        current_client.set(self.client)

    def identify_client(self) -> None:
        """Set the client, by which limits are shared, from the identity or the address."""
        identity = self.identity
        self.client = identity.actor if identity is not None and identity.actor else counted_address(self.client_host)
        current_client.set(self.client)

    def check_quotas(self, requests: int, size: int, *, is_heartbeat: bool = False) -> None:
        """Count requests with bodies of `size` bytes against the quotas of their client and of each group they name.

        A client that may neither join the group nor commit takes nothing of its quota, or it could get members evicted.

        Raises:
            ThrottlingQuotaExceeded: a quota is used up; the listener delays the refusal (`throttle`).
        """
        own = NO_RATES if self.node.tokens is None else self.node.tokens.quotas_of(self.client)
        quota = self.quota
        if quota is None or quota.group_id != self.group_id or quota.own is not own:
            groups = {each for each in self.named_groups() if self._can_take_part(each)}
            quota = self.quota = Quota(self.client, self.group_id, own, groups)
        self.node.quotas.take(quota, requests, size, is_heartbeat=is_heartbeat)

    def named_groups(self) -> Collection[str]:
        """Return the groups that the request names."""
        return () if self.group_id is None else (self.group_id,)

    def _can_take_part(self, group_id: str) -> bool:
        return self.can_access(group_id, Operation.COMMIT) or self.can_access(group_id, Operation.JOIN)

    async def begin_turn(self, size: int) -> None:
        """Wait until a request with a body of `size` bytes may begin.

        Raises:
            CoordinatorNotAvailable: that was not before the deadline.
        """
        if size > SMALL_REQUEST_MAX_BYTES:
            await self.with_deadline(self.node.large_request_turns.begin(self.client, size))
            self.turn_bytes = self.rest_bytes = size

    async def begin_response(self, items: int) -> None:
        """Wait until a response with up to so many items may be read and made.

        It takes the event loop, and threads that keep it waiting, as long as a request of that size. The caller waits
        with a deadline.
        """
        self.end_turn()
        size = items * ITEM_BYTES
        if size > SMALL_REQUEST_MAX_BYTES:
            await self.node.large_request_turns.begin(self.client, size)
            self.turn_bytes, self.rest_bytes = size, size // RESPONSE_REST_DIVISOR

    def shrink_response(self, items: int) -> None:
        """Let others begin, since the response has only so many items."""
        size = items * ITEM_BYTES
        if self.turn_bytes > size:
            self.node.large_request_turns.shrink(self.turn_bytes - size)
            self.turn_bytes, self.rest_bytes = size, size // RESPONSE_REST_DIVISOR

    def end_turn(self) -> None:
        """Let other large requests begin, since this one is parked or answered."""
        if self.turn_bytes:
            self.node.large_request_turns.end(self.turn_bytes, self.rest_bytes)
            self.turn_bytes = 0

    @property
    def commit_origin(self) -> CommitOrigin:
        """Return the token and the address of the client, which its commits name."""
        return CommitOrigin(self.token_id, self.client_host or None)

    def submit_commit(self, group_id: str, request: CommitOffsets) -> asyncio.Future[Answer]:
        """Submit a commit, which names the token and the address of the client.

        Raises:
            PolicyViolation: its metadata is too large.
        """
        if self.turn_bytes:  # It is a large one.
            limit = self.node.limits.max_metadata_per_commit
            if self.turn_bytes > limit and (size := sum(len(each.metadata) for each in request.offsets)) > limit:
                raise PolicyViolation(f"the commit has {size} characters of metadata, and may have {limit}")
        commit_origin.set(self.commit_origin)
        return self.node.coordinator.submit(group_id, request)

    async def coordinate(self, group_id: str, request: MemberRequest, kind: type[T]) -> T:
        """Submit a request to the coordinator, and return its response, which is of type `kind`.

        A long poll waits without a limit, any other request until its deadline.
        """
        if self.is_long_poll:
            answer = await self.submit_long_poll(group_id, request)
        else:
            answer = await self.with_deadline(self.node.coordinator.submit(group_id, request))
        assert isinstance(answer, kind)
        return answer

    def submit_long_poll(self, group_id: str, request: MemberRequest) -> asyncio.Future[Answer]:
        """Submit a join or a sync, which counts as waiting until it is answered or its future is cancelled.

        Raises:
            ThrottlingQuotaExceeded: too many of the client's wait.
            CoordinatorError: the request is refused.
        """
        quotas, client = self.node.quotas, self.client
        quotas.begin_waiting(client)
        try:
            pending = self.node.coordinator.submit(group_id, request)
        except BaseException:
            quotas.end_waiting(client)
            raise
        pending.add_done_callback(lambda _: quotas.end_waiting(client))
        self.end_turn()
        return pending

    def with_deadline(self, answer: Awaitable[T]) -> Awaitable[T]:
        """Wait for a response until the deadline of the request.

        Raises:
            CoordinatorNotAvailable: the deadline passed.
        """
        return self.node.deadlines.wait(answer)

    def query(
        self, query: Callable[Concatenate[Transaction, P], T], /, *arguments: P.args, **keywords: P.kwargs
    ) -> Awaitable[T]:
        """Run a query of the database when it is the client's turn, and return its result.

        Raises:
            CoordinatorNotAvailable: the database cannot be reached, or does not answer in time.
        """
        return self.node.query_turns.run(self.client, partial(self.node.queries.run, query, *arguments, **keywords))

    async def wait_for_confirmations(self) -> list[str]:
        """Wait for one renewal of the other nodes; return those that have not confirmed the cluster's settings."""
        return await self.node.coordinator.confirmations.wait(self.node.deadlines.time_left_ms())

    def can_access(self, group_id: str | None, operation: Operation = Operation.DESCRIBE) -> bool:
        """Return whether the token allows an operation on a group; None stands for all groups."""
        return self.identity is None or self.identity.can_access(group_id, operation)

    def denied_topics(self, topics: Iterable[str], operation: Operation) -> frozenset[str]:
        """Return the topics on which the token does not allow an operation."""
        if self.identity is None or self.can_access_all_topics(operation):
            return frozenset()
        return self.identity.permissions.refused(operation, ResourceType.TOPIC, topics)

    def can_access_all_topics(self, operation: Operation) -> bool:
        """Return whether the token allows an operation on every topic."""
        return self.identity is None or self.identity.permissions.allows_on_all(operation, ResourceType.TOPIC)

    def check_topics(self, topics: Iterable[str], operation: Operation) -> None:
        """Check that the token allows an operation on every topic.

        Raises:
            TopicAuthorizationFailed: it does not.
        """
        for topic in sorted(self.denied_topics(topics, operation)):
            raise TopicAuthorizationFailed(f"the token does not allow {operation} on the topic {topic}")

    @property
    def covered_groups(self) -> GroupPatterns | None:
        """Return the groups that the token may describe; None: all."""
        return None if self.identity is None else self.identity.described_groups

    @property
    def trusted_topic_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of the topics whose log ends the client is trusted to report for every group."""
        return ALL_TOPICS if self.identity is None else self.identity.trusted_topic_prefixes

    def authenticated_actor(self, claimed: str | None) -> str | None:
        """Return who makes a change, for the audit log.

        Args:
            claimed: who the client says it is; None: it does not say.

        Returns:
            The token's actor, followed by the claimed one in brackets if it differs; without tokens the claimed one.
        """
        if self.identity is None:
            return claimed
        actor = self.identity.actor
        return actor if claimed in {None, actor} else f"{actor} ({claimed})"
