"""Authorization: the operation and the groups that each request needs, and whether an identity is allowed them.

The requests here are those of Kafka's protocol, by Kafka's names; a listener adds rules for what it alone offers.
`Identity.trusted_topic_prefixes` says of which topics an identity may report log ends.

Source: security.md "Permissions".
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from api.shared.access_control import Operation, ResourceType
from api.shared.errors import GroupAuthorizationFailed, Unauthenticated
from api.shared.identity import ANONYMOUS_IDENTITY, Identity


class Scope(Enum):
    """The groups that a request concerns."""

    GROUP = auto()
    """The group that it names."""
    ALL_GROUPS = auto()
    """All groups."""
    OWN_GROUPS = auto()
    """Those that the token covers (the endpoint filters), or none."""


_GROUP: Final = Scope.GROUP
_GROUP_RESOURCE: Final = ResourceType.GROUP


class AccessRule(NamedTuple):
    """The operation that a request needs (None: it is public), and its scope."""

    operation: Operation | None
    scope: Scope


REQUEST_RULES: Final = {
    "JoinGroup": AccessRule(Operation.JOIN, Scope.GROUP),
    "SyncGroup": AccessRule(Operation.JOIN, Scope.GROUP),
    "Heartbeat": AccessRule(Operation.JOIN, Scope.GROUP),
    "LeaveGroup": AccessRule(Operation.JOIN, Scope.GROUP),
    "OffsetCommit": AccessRule(Operation.COMMIT, Scope.GROUP),
    "OffsetDelete": AccessRule(Operation.DELETE_OFFSETS, Scope.GROUP),
    "OffsetFetch": AccessRule(Operation.READ, Scope.GROUP),
    "FindCoordinator": AccessRule(Operation.READ, Scope.GROUP),
    "ListGroups": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "DescribeGroups": AccessRule(Operation.DESCRIBE, Scope.GROUP),
    "DeleteGroups": AccessRule(Operation.DELETE, Scope.GROUP),
}
"""Request of Kafka's protocol → its rule."""


def authorize(identity: Identity | None, rule: AccessRule, group_id: str | None) -> None:
    """Check whether an identity may send a request.

    Args:
        identity: the client's; None: the node has no tokens, and everything is allowed.
        rule: the request's.
        group_id: the group that the request names; None: none.

    Raises:
        Unauthenticated: a token is needed, and the client has none that is known.
        GroupAuthorizationFailed: the token does not allow the operation on the groups.
    """
    operation, scope = rule
    if identity is None or operation is None:
        return
    if scope is _GROUP and identity.permissions.allows(operation, _GROUP_RESOURCE, group_id or ""):
        return  # nearly every request
    if identity is ANONYMOUS_IDENTITY:
        raise Unauthenticated("a token is needed")
    match scope:
        case Scope.GROUP:
            raise GroupAuthorizationFailed(f"the token does not allow {operation} on this group")
        case Scope.ALL_GROUPS if not identity.can_access(None, operation):
            raise GroupAuthorizationFailed(f"this needs {operation} on every group, which the token does not allow")
        case Scope.OWN_GROUPS if not identity.permissions.allowing(operation, ResourceType.GROUP):
            raise GroupAuthorizationFailed(f"this needs {operation}, which the token allows on no group")
        case _:
            pass
