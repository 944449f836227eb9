"""Authorization: the role and the groups that each operation needs, and the decision whether an identity has them.

The operations here are those of Kafka's protocol, by Kafka's names; a listener adds rules for what it alone offers.
`Identity.trusted_topic_prefixes` says of which topics an identity may report log ends.

Source: security.md "Permissions".
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from api.shared.errors import GroupAuthorizationFailed, Unauthenticated
from api.shared.identity import ANONYMOUS_IDENTITY, Identity, Role


class Scope(Enum):
    """The groups that a request concerns."""

    GROUP = auto()
    """The group that it names."""
    ALL_GROUPS = auto()
    """All groups."""
    OWN_GROUPS = auto()
    """Those that the token covers (the endpoint filters), or none."""


class AccessRule(NamedTuple):
    """The roles of which a request needs one (none: it is public), and its scope."""

    roles: frozenset[Role]
    scope: Scope


AGENTS: Final = frozenset({Role.AGENT, Role.OPERATOR})
VIEWERS: Final = frozenset({Role.VIEWER, Role.OPERATOR})
OPERATORS: Final = frozenset({Role.OPERATOR})
ANY_ROLE: Final = AGENTS | VIEWERS

OPERATION_RULES: Final = {
    "JoinGroup": AccessRule(AGENTS, Scope.GROUP),
    "SyncGroup": AccessRule(AGENTS, Scope.GROUP),
    "Heartbeat": AccessRule(AGENTS, Scope.GROUP),
    "LeaveGroup": AccessRule(AGENTS, Scope.GROUP),
    "OffsetCommit": AccessRule(AGENTS, Scope.GROUP),
    "OffsetDelete": AccessRule(AGENTS, Scope.GROUP),
    "OffsetFetch": AccessRule(ANY_ROLE, Scope.GROUP),
    "FindCoordinator": AccessRule(ANY_ROLE, Scope.GROUP),
    "ListGroups": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "DescribeGroups": AccessRule(VIEWERS, Scope.GROUP),
    "DeleteGroups": AccessRule(OPERATORS, Scope.GROUP),
}
"""Operation of Kafka's protocol → its rule."""


def authorize(identity: Identity | None, rule: AccessRule, group_id: str | None) -> None:
    """Check whether an identity may do an operation.

    Args:
        identity: the client's; None: the node has no tokens, and everything is allowed.
        rule: the operation's.
        group_id: the group that the request names; None: none.

    Raises:
        Unauthenticated: a token is needed, and the client has none that is known.
        GroupAuthorizationFailed: the token has the wrong role, or does not cover the groups.
    """
    if identity is None or not rule.roles:
        return
    if identity is ANONYMOUS_IDENTITY:
        raise Unauthenticated("a token is needed")
    if identity.role not in rule.roles:
        needed = " or ".join(sorted(rule.roles))
        raise GroupAuthorizationFailed(f"this needs the role {needed}, and the token has the role {identity.role}")
    if rule.scope is Scope.GROUP and not identity.can_access(group_id or ""):
        raise GroupAuthorizationFailed("the token does not cover this group")
    if rule.scope is Scope.ALL_GROUPS and not identity.can_access_all:
        raise GroupAuthorizationFailed("this needs access to every group, and the token covers only some")
