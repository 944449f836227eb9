"""A request over the Kafka listener."""

import asyncio
from collections.abc import Collection
from typing import Any, Final
from uuid import uuid4

import structlog
from msgspec import Struct

from api.kafka.apis import APIS, ApiKey
from api.kafka.errors import error_code
from api.kafka.hot_responses import StoredTopic
from api.kafka.messages import NUL, Fields, RequestHeader, encode
from api.shared.authorization import REQUEST_RULES, authorize
from api.shared.client_request import ClientRequest
from api.shared.errors import NO_ERROR, ThrottlingQuotaExceeded
from api.shared.identity import Identity
from api.shared.limits import ACTOR_MAX_CHARS
from api.shared.node_context import NodeContext
from coordinator_core.admin.changes import Change
from coordinator_core.protocol.errors import (
    CoordinatorError,
    InvalidGroupId,
    InvalidRequest,
    MemberIdRequired,
    RebalanceInProgress,
)
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit
from coordinator_core.runtime.current_request import current_client

log = structlog.get_logger("muster.kafka")

UNLOGGED_CODES: Final = frozenset({MemberIdRequired.code, RebalanceInProgress.code})
"""Codes that are part of the protocol."""
ANONYMOUS_ACTOR: Final = "anonymous"
"""The actor of a change by a client without token and client id."""


class SentOffsets(Struct):
    """What a commit has sent, for its response and for the next commit of the same partitions."""

    group_id: str
    topics: list[StoredTopic]
    """The topics, with their partitions."""
    refused: dict[int, CoordinatorError] = {}
    """Index of a partition → why it is not stored, as far as the listener has found that."""
    commit: CommitOffsets | None = None
    """The commit without its token and its offsets, if it was accepted."""
    stored_response: bytes = b""
    """The response if all offsets are stored; empty: not known yet."""


class KafkaRequest(ClientRequest):
    """The state of one request, with its header and its message."""

    __slots__ = (
        "_is_counted",
        "_retry_after_s",
        "code",
        "header",
        "message",
        "newer_offsets",
        "sent",
        "software",
        "version",
    )

    def __init__(self, node: NodeContext, client_host: str, header: RequestHeader, identity: Identity | None) -> None:
        """Begin a request.

        Args:
            node: the node that received it.
            client_host: the client's address.
            header: the header of the request.
            identity: of the connection's token; None: the node has no tokens.
        """
        super().__init__(node, client_host)
        self.request = APIS[header.api_key].name  # type: ignore[index]  # an IntEnum is its number
        self.header = header
        self.version = header.version
        self.identity = identity
        self.token_id = None if identity is None else identity.token_id or None
        self.identify_client()
        self.software = ""
        """The name of the client's library; empty: it is not known."""
        self.message: Any = None
        """The decoded body; its class depends on API and version. None: a large one, once it is submitted."""
        self.newer_offsets: tuple[OffsetToCommit, ...] | None = None
        """What a commit commits that was not decoded, and is otherwise as the last one; None: the message has it."""
        self.sent = SentOffsets("", [])
        self._is_counted = False
        """Whether the quotas have counted it."""
        self._retry_after_s = 0.0
        self.code = NO_ERROR
        """The name of the last error that was answered; a request may have several groups."""

    def take(self, message: Any) -> None:  # noqa: ANN401  # a class for each version
        """Take the decoded body of the request."""
        self.message = message
        self.group_id = getattr(message, "group_id", None)

    def free_message(self) -> None:
        """Free thousands of objects of a large request that is submitted, while they are in the processor's caches."""
        self.message = self.newer_offsets = None

    def begin_again(self) -> None:
        """Begin the next request with the same header, after this one was answered."""
        self.code = NO_ERROR
        self._is_counted = False
        current_client.set(self.client)

    @property
    def client_id(self) -> str:
        """Return the client's own name."""
        return self.header.client_id or ""

    def failed(self, error: CoordinatorError) -> int:
        """Return the code with which the request is answered, or a part of it; the first of a request is logged."""
        is_first, self.code = self.code == NO_ERROR, error.code
        if is_first and error.code not in UNLOGGED_CODES:
            log.info(
                "kafka_request_refused",
                request=self.request,
                group=self.group_id,
                code=error.code,
                reason=error.detail,
                token_id=self.token_id,
                client=self.client_host,
            )
        return error_code(self.header.api_key, error)

    async def encode(self, values: Fields) -> bytes:
        """Return the body of the response with these fields; that of a large request is made in a thread."""
        message = (self.header.api_key, self.version, values)
        return await asyncio.to_thread(encode, *message) if self.turn_bytes else encode(*message)

    def named_groups(self) -> Collection[str]:
        """Return the groups that the request names: one, or those of OffsetFetch, DescribeGroups or DeleteGroups."""
        if self.group_id is not None:
            return (self.group_id,)
        listed: Collection[Any] = getattr(self.message, "groups", ()) or getattr(self.message, "groups_names", ())
        return [getattr(each, "group_id", each) for each in listed]

    def is_within_quotas(self, size: int) -> bool:
        """Count the request against the quotas of its client and its groups; return whether they allow it.

        Args:
            size: the bytes of the request.
        """
        if (self.node.tokens is not None or self.node.quotas.has_defaults) and not self._is_counted:
            try:
                self.check_quotas(1, size, is_heartbeat=self.header.api_key == ApiKey.HEARTBEAT)
            except ThrottlingQuotaExceeded as refusal:
                self._retry_after_s = refusal.retry_after_s
                self.quota = None  # it may be another one when the request has waited
                return False
            self._is_counted = True
        return True

    async def wait_for_quotas(self, size: int) -> None:
        """Hold the request back until the quotas allow it, as Kafka mutes a connection."""
        while not self.is_within_quotas(size):
            await self.throttle(self._retry_after_s)

    def begin_change(self) -> Change:
        """Return a change that the request makes, by the token's owner, or else by the client's own name."""
        actor = self.authenticated_actor(self.client_id[:ACTOR_MAX_CHARS].replace(NUL, "") or ANONYMOUS_ACTOR)
        reason = f"{self.request} of a Kafka client"
        return Change(actor or ANONYMOUS_ACTOR, reason, str(uuid4()), self.token_id, self.client_host or None)

    def authorize(self, request: str, group_id: str) -> None:
        """Check a group id, and whether the client may send a request of this name for the group.

        Raises:
            InvalidGroupId: there can be no such group.
            GroupAuthorizationFailed: the client's token does not allow it.
        """
        limit = self.node.group_id_max_chars
        if len(group_id) > limit or NUL in group_id:
            raise InvalidGroupId(f"a group id has at most {limit} characters, none of them NUL")
        if self.identity is not None:
            authorize(self.identity, REQUEST_RULES[request], group_id)
        self.group_id = group_id


def check_text(name: str, text: str | None, max_chars: int) -> None:
    """Check a string of a request, which may be stored.

    Raises:
        InvalidRequest: it is too long, or has a NUL, which Postgres does not store.
    """
    if text and (len(text) > max_chars or NUL in text):
        raise InvalidRequest(f"{name} has at most {max_chars} characters, none of them NUL")
