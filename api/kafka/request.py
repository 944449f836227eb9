"""A request over the Kafka listener."""

from typing import Any, Final
from uuid import uuid4

from api.kafka.apis import APIS
from api.kafka.errors import error_code
from api.kafka.messages import RequestHeader
from api.shared.authorization import OPERATION_RULES, authorize
from api.shared.client_request import ClientRequest
from api.shared.errors import NO_ERROR
from api.shared.identity import Identity
from api.shared.limits import ACTOR_MAX_CHARS, GROUP_ID_MAX_CHARS
from api.shared.node_context import NodeContext
from coordinator_core.admin.changes import Change
from coordinator_core.protocol.errors import CoordinatorError, InvalidGroupId, InvalidRequest

NUL: Final = "\x00"
ANONYMOUS_ACTOR: Final = "anonymous"
"""The actor of a change by a client without token and client id."""


class KafkaRequest(ClientRequest):
    """The state of one request, with its header and its message."""

    __slots__ = ("code", "header", "message")

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
        self.identity = identity
        self.message: Any = None
        """The decoded body; its class depends on API and version."""
        self.code = NO_ERROR
        """The name of the last error that was answered; a request may have several groups."""

    @property
    def version(self) -> int:
        """Return the version of the request."""
        return self.header.version

    @property
    def client_id(self) -> str:
        """Return the client's own name."""
        return self.header.client_id or ""

    def failed(self, error: CoordinatorError) -> int:
        """Return the code with which the request is answered, or a part of it."""
        self.code = error.code
        return error_code(self.header.api_key, error)

    def begin_change(self) -> Change:
        """Return a change that the request makes, by the token's owner, or else by the client's own name."""
        actor = self.authenticated_actor(self.client_id[:ACTOR_MAX_CHARS].replace(NUL, "") or ANONYMOUS_ACTOR)
        return Change(actor or ANONYMOUS_ACTOR, f"{self.request} of a Kafka client", str(uuid4()))

    def authorize(self, operation: str, group_id: str) -> None:
        """Check a group id, and whether the client may do an operation on the group.

        Raises:
            InvalidGroupId: there can be no such group.
            GroupAuthorizationFailed: the client's token has another role, or does not cover the group.
        """
        if not group_id or len(group_id) > GROUP_ID_MAX_CHARS or NUL in group_id:
            raise InvalidGroupId(f"a group id has 1 to {GROUP_ID_MAX_CHARS} characters, none of them NUL")
        authorize(self.identity, OPERATION_RULES[operation], group_id)
        self.group_id = group_id


def check_text(name: str, text: str | None, max_chars: int) -> None:
    """Check a string of a request, which may be stored.

    Raises:
        InvalidRequest: it is too long, or has a NUL, which Postgres does not store.
    """
    if text and (len(text) > max_chars or NUL in text):
        raise InvalidRequest(f"{name} has at most {max_chars} characters, none of them NUL")
