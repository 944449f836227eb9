"""Authorization: the role and the group scope that each request needs.

Without a tokens file every request is allowed, and the node listens on loopback only. With a tokens file,

* a client without a known token is unauthenticated, and may request public paths only: health and the pages;
* a request for one group needs a token with a prefix of the group id, in whatever encoding the path has it;
* a request for all groups needs a token for all groups, unless its endpoint filters the result by token;
* a request that is not in ACCESS_RULES needs the role operator, or, if it only reads, viewer or operator.

`authenticate` runs when a request arrives, `authorize` once its endpoint is known.

Source: security.md "Permissions"; RFC 6750.
"""

from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple

from api.http.forward_signature import CLIENT_HEADER
from api.http.problems import GroupAuthorizationFailed, Unauthenticated
from api.http.request_context import ANONYMOUS_IDENTITY, RequestContext
from api.http.tokens import TOKEN_MAX_BYTES, Role, Tokens

AUTHORIZATION: Final = b"authorization"
READ_METHODS: Final = frozenset({"GET", "HEAD"})
GROUP_ROUTE: Final = "/v1/groups/{group_id:str}"


class Scope(Enum):
    """The groups that a request concerns."""

    GROUP = auto()
    """The group in its path."""
    ALL_GROUPS = auto()
    """All groups."""
    OWN_GROUPS = auto()
    """Those that the token covers (the endpoint filters), or none."""


class AccessRule(NamedTuple):
    """The roles of which a request needs one (none: it is public), and its scope."""

    roles: frozenset[Role]
    scope: Scope


PUBLIC: Final = AccessRule(frozenset(), Scope.OWN_GROUPS)
AGENTS: Final = frozenset({Role.AGENT, Role.OPERATOR})
VIEWERS: Final = frozenset({Role.VIEWER, Role.OPERATOR})
OPERATORS: Final = frozenset({Role.OPERATOR})
ANY_ROLE: Final = AGENTS | VIEWERS

ACCESS_RULES: Final = {
    "Health": PUBLIC,
    "Readiness": PUBLIC,
    "OpenApi": PUBLIC,
    "Docs": PUBLIC,
    "Console": PUBLIC,
    "JoinGroup": AccessRule(AGENTS, Scope.GROUP),
    "SyncGroup": AccessRule(AGENTS, Scope.GROUP),
    "Heartbeat": AccessRule(AGENTS, Scope.GROUP),
    "LeaveGroup": AccessRule(AGENTS, Scope.GROUP),
    "OffsetCommit": AccessRule(AGENTS, Scope.GROUP),
    "OffsetDelete": AccessRule(AGENTS, Scope.GROUP),
    "OffsetFetch": AccessRule(ANY_ROLE, Scope.GROUP),
    "OffsetQuery": AccessRule(ANY_ROLE, Scope.GROUP),
    "FindCoordinator": AccessRule(ANY_ROLE, Scope.GROUP),
    "ListTopics": AccessRule(ANY_ROLE, Scope.OWN_GROUPS),
    "ListGroups": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListGroupOverview": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListQuarantinedGroups": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListChanges": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "DescribeChange": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "UndoChange": AccessRule(OPERATORS, Scope.OWN_GROUPS),
    "DescribeClusterConfig": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListRuns": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "DescribeRun": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListCandidates": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListAssignmentReports": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListRebalanceReports": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListTimeoutReports": AccessRule(VIEWERS, Scope.OWN_GROUPS),
}
"""Request → its rule, where that does not follow from the method and the path."""


@lru_cache(maxsize=1_024)
def access_rule_of(request: str, method: str, path: str) -> AccessRule:
    """Return the access rule of a request.

    Args:
        request: the name of the request, Kafka's if there is one.
        method: GET, POST, ...
        path: the route as declared, with the names of its parameters.
    """
    by_rule = AccessRule(
        VIEWERS if method in READ_METHODS else OPERATORS, Scope.GROUP if GROUP_ROUTE in path else Scope.ALL_GROUPS
    )
    return ACCESS_RULES.get(request, by_rule)


def authenticate(context: RequestContext, tokens: Tokens) -> None:
    """Set the identity of a request by its bearer token; a forwarded request gets it from its signature instead.

    Raises:
        Unauthenticated: the method is no GET or HEAD and the token is not known; the body is not read.
    """
    if CLIENT_HEADER in context.headers:
        return
    token = _bearer_token(context.headers.get(AUTHORIZATION, b""))
    context.identity = (tokens.find(token) if token else None) or ANONYMOUS_IDENTITY
    if context.identity is ANONYMOUS_IDENTITY and context.scope["method"] not in READ_METHODS:
        raise _unauthenticated(context)


def authorize(context: RequestContext, need: AccessRule) -> None:
    """Check the identity of a request against an access rule.

    Raises:
        Unauthenticated: a token is needed, and it is absent, unknown or expired.
        GroupAuthorizationFailed: the token has the wrong role, or does not cover the groups.
    """
    identity = context.identity
    if identity is None or not need.roles:
        return
    if identity is ANONYMOUS_IDENTITY:
        raise _unauthenticated(context)
    if identity.role not in need.roles:
        needed = " or ".join(sorted(need.roles))
        raise GroupAuthorizationFailed(f"this needs the role {needed}, and the token has the role {identity.role}")
    if need.scope is Scope.GROUP and not context.can_access(context.group_id or ""):
        raise GroupAuthorizationFailed("the token does not cover this group")
    if need.scope is Scope.ALL_GROUPS and not identity.can_access_all:
        raise GroupAuthorizationFailed("this needs access to every group, and the token covers only some")


def _unauthenticated(context: RequestContext) -> Unauthenticated:
    is_given = AUTHORIZATION in context.headers and not context.is_forwarded
    expired_at = _expired_at(context) if is_given else None
    if expired_at is not None:
        return Unauthenticated(f"the bearer token expired at {expired_at.isoformat()}; ask for a new one")
    return Unauthenticated("the bearer token is unknown" if is_given else "a bearer token is needed")


def _expired_at(context: RequestContext) -> datetime | None:
    """Return when the token of a request expired; None if it is unknown or has not."""
    tokens = context.server.tokens
    return None if tokens is None else tokens.expired_at(_bearer_token(context.headers[AUTHORIZATION]))


def _bearer_token(header: bytes) -> bytes:
    """Return the bearer token of an Authorization header; empty if it has none."""
    scheme, _, token = header.partition(b" ")
    token = token.strip()
    return token if scheme.lower() == b"bearer" and len(token) <= TOKEN_MAX_BYTES else b""
