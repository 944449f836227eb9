"""Who may ask what: each request needs a role, and a token for the groups that it touches.

Without a tokens file nothing of this is asked: the node is open, and listens on its own machine only. With one,

* whoever brings no token that is known is a stranger, and is let in to what is open: the node's health, the pages;
* a request about a group needs a token with a prefix that the group's id begins with, however the path writes the id;
* a request about everything needs a token for every group, unless its endpoint shows each caller its own part only;
* a request that stands in no table here is the operators' or, if it only reads, the viewers' too.

The hook is two calls: `identify` where a request enters, and `admit` where it is known what it asks.

Source: security.md "Who may do what"; RFC 6750.
"""

from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple

from api.http.call import STRANGER, Call
from api.http.forward_mark import CLIENT_HEADER
from api.http.problems import GroupAuthorizationFailed, Unauthenticated
from api.http.tokens import TOKEN_MAX_BYTES, Role, Tokens

AUTHORIZATION: Final = b"authorization"
READING: Final = frozenset({"GET", "HEAD"})
ABOUT_A_GROUP: Final = "/v1/groups/{group_id:str}"


class Scope(Enum):
    """Which groups a request touches."""

    ONE = auto()
    """The one in its path."""
    ALL = auto()
    """Any."""
    OWN = auto()
    """Only the caller's own, since the endpoint asks; or none."""


class Need(NamedTuple):
    """What a request needs; no role: it is open."""

    roles: frozenset[Role]
    scope: Scope


NOTHING: Final = Need(frozenset(), Scope.OWN)
AGENTS: Final = frozenset({Role.AGENT, Role.OPERATOR})
VIEWERS: Final = frozenset({Role.VIEWER, Role.OPERATOR})
OPERATORS: Final = frozenset({Role.OPERATOR})
EVERYBODY: Final = AGENTS | VIEWERS

NEEDS: Final = {
    "Health": NOTHING,
    "Readiness": NOTHING,
    "OpenApi": NOTHING,
    "Docs": NOTHING,
    "Console": NOTHING,
    "JoinGroup": Need(AGENTS, Scope.ONE),
    "SyncGroup": Need(AGENTS, Scope.ONE),
    "Heartbeat": Need(AGENTS, Scope.ONE),
    "LeaveGroup": Need(AGENTS, Scope.ONE),
    "OffsetCommit": Need(AGENTS, Scope.ONE),
    "OffsetDelete": Need(AGENTS, Scope.ONE),
    "OffsetFetch": Need(EVERYBODY, Scope.ONE),
    "OffsetQuery": Need(EVERYBODY, Scope.ONE),
    "FindCoordinator": Need(EVERYBODY, Scope.ONE),
    "ListTopics": Need(EVERYBODY, Scope.OWN),
    "ListGroups": Need(VIEWERS, Scope.OWN),
    "ListGroupOverview": Need(VIEWERS, Scope.OWN),
    "ListQuarantinedGroups": Need(VIEWERS, Scope.OWN),
    "ListChanges": Need(VIEWERS, Scope.OWN),
    "DescribeChange": Need(VIEWERS, Scope.OWN),
    "UndoChange": Need(OPERATORS, Scope.OWN),
    "DescribeClusterConfig": Need(VIEWERS, Scope.OWN),
    "ListRuns": Need(VIEWERS, Scope.OWN),
    "DescribeRun": Need(VIEWERS, Scope.OWN),
    "ListCandidates": Need(VIEWERS, Scope.OWN),
    "ListAssignmentReports": Need(VIEWERS, Scope.OWN),
    "ListRebalanceReports": Need(VIEWERS, Scope.OWN),
    "ListTimeoutReports": Need(VIEWERS, Scope.OWN),
}
"""What is asked → what it needs, where that does not follow from the method and the path."""


@lru_cache(maxsize=1_024)
def need_of(request: str, method: str, path: str) -> Need:
    """Return what a request needs.

    Args:
        request: what is asked, by Kafka's name where it has one.
        method: GET, POST, ...
        path: the route as it is declared, with its parameters' names.
    """
    by_rule = Need(VIEWERS if method in READING else OPERATORS, Scope.ONE if ABOUT_A_GROUP in path else Scope.ALL)
    return NEEDS.get(request, by_rule)


def identify(call: Call, tokens: Tokens) -> None:
    """Learn who asks, unless another node forwarded the request: then its mark says so.

    Raises:
        Unauthenticated: a stranger wants to change something, and the body need not be read for that.
    """
    if CLIENT_HEADER in call.headers:
        return
    token = _bearer_token(call.headers.get(AUTHORIZATION, b""))
    call.identity = (tokens.find(token) if token else None) or STRANGER
    if call.identity is STRANGER and call.scope["method"] not in READING:
        raise _unauthenticated(call)


def admit(call: Call, need: Need) -> None:
    """Let a request pass, or refuse it.

    Raises:
        Unauthenticated: a token is needed, and there is none, or one that nobody knows.
        GroupAuthorizationFailed: the token is not for this.
    """
    identity = call.identity
    if identity is None or not need.roles:
        return
    if identity is STRANGER:
        raise _unauthenticated(call)
    if identity.role not in need.roles:
        needed = " or ".join(sorted(need.roles))
        raise GroupAuthorizationFailed(f"this needs the role {needed}, and the token has the role {identity.role}")
    if need.scope is Scope.ONE and not call.sees(call.group_id or ""):
        raise GroupAuthorizationFailed("the token is not for this group")
    if need.scope is Scope.ALL and not identity.sees_all:
        raise GroupAuthorizationFailed("this touches every group, and the token is for some only")


def _unauthenticated(call: Call) -> Unauthenticated:
    is_given = AUTHORIZATION in call.headers and not call.is_forwarded
    expired_at = _expired_at(call) if is_given else None
    if expired_at is not None:
        return Unauthenticated(f"the bearer token expired at {expired_at.isoformat()}; ask for a new one")
    return Unauthenticated("the bearer token is not known here" if is_given else "a bearer token is needed")


def _expired_at(call: Call) -> datetime | None:
    """Return when the token that a caller brought expired, if it was one."""
    tokens = call.door.tokens
    return None if tokens is None else tokens.expired_at(_bearer_token(call.headers[AUTHORIZATION]))


def _bearer_token(header: bytes) -> bytes:
    """Return the token out of an Authorization header, or nothing where it has none."""
    scheme, _, token = header.partition(b" ")
    token = token.strip()
    return token if scheme.lower() == b"bearer" and len(token) <= TOKEN_MAX_BYTES else b""
