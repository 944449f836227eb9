"""Authorization of HTTP requests: bearer tokens, and the access rule of each route.

Without a tokens file every request is allowed, and the node listens on loopback only. With a tokens file,

* a client without a known token is unauthenticated, and may request public paths only: health and the pages;
* a request for one group needs a token with a prefix of the group id, in whatever encoding the path has it;
* a request for all groups needs a token for all groups, unless its endpoint filters the result by token;
* a request that is not in ACCESS_RULES needs the role operator, or, if it only reads, viewer or operator.

`authenticate` runs when a request arrives, `authorize` once its endpoint is known.

Source: security.md "Permissions"; RFC 6750.
"""

from datetime import datetime
from functools import lru_cache
from typing import Final

from api.http.forward_signature import CLIENT_HEADER
from api.http.request_context import RequestContext
from api.shared import authorization
from api.shared.authorization import ANY_ROLE, OPERATION_RULES, OPERATORS, VIEWERS, AccessRule, Scope
from api.shared.errors import Unauthenticated
from api.shared.identity import ANONYMOUS_IDENTITY
from api.shared.tokens import TOKEN_MAX_BYTES, Tokens
from coordinator_core.jobs import JOBS, JobSpec

AUTHORIZATION: Final = b"authorization"
READ_METHODS: Final = frozenset({"GET", "HEAD"})
GROUP_ROUTE: Final = "/v1/groups/{group_id:str}"
PUBLIC: Final = AccessRule(frozenset(), Scope.OWN_GROUPS)


def report_request(job: JobSpec) -> str:
    """Return the name of the request for a job's reports, such as ListTimeoutReports."""
    return f"List{job.subject.removesuffix('s').title()}Reports"


ACCESS_RULES: Final = OPERATION_RULES | {
    "Health": PUBLIC,
    "Readiness": PUBLIC,
    "OpenApi": PUBLIC,
    "Docs": PUBLIC,
    "Console": PUBLIC,
    "OffsetQuery": OPERATION_RULES["OffsetFetch"],
    "ListTopics": AccessRule(ANY_ROLE, Scope.OWN_GROUPS),
    "DescribeTopic": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListGroupOverview": OPERATION_RULES["ListGroups"],
    "ListTopicOverview": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "DescribeActivity": OPERATION_RULES["ListGroups"],
    "ListOtherGroups": OPERATION_RULES["ListGroups"],
    "ListQuarantinedGroups": OPERATION_RULES["ListGroups"],
    "ListChanges": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "DescribeChange": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "UndoChange": AccessRule(OPERATORS, Scope.OWN_GROUPS),
    "DescribeClusterConfig": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListRuns": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "DescribeRun": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    "ListCandidates": AccessRule(VIEWERS, Scope.OWN_GROUPS),
    **{report_request(job): AccessRule(VIEWERS, Scope.OWN_GROUPS) for job in JOBS.values() if job.is_report},
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
    by_route = AccessRule(
        VIEWERS if method in READ_METHODS else OPERATORS, Scope.GROUP if GROUP_ROUTE in path else Scope.ALL_GROUPS
    )
    return ACCESS_RULES.get(request, by_route)


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


def authorize(context: RequestContext, rule: AccessRule) -> None:
    """Check the identity of a request against an access rule.

    Raises:
        Unauthenticated: a token is needed, and it is absent, unknown or expired.
        GroupAuthorizationFailed: the token has the wrong role, or does not cover the groups.
    """
    try:
        authorization.authorize(context.identity, rule, context.group_id)
    except Unauthenticated:
        raise _unauthenticated(context) from None


def _unauthenticated(context: RequestContext) -> Unauthenticated:
    """Return the error that says what is wrong with the token of a request."""
    is_given = AUTHORIZATION in context.headers and not context.is_forwarded
    expired_at = _expired_at(context) if is_given else None
    if expired_at is not None:
        return Unauthenticated(f"the bearer token expired at {expired_at.isoformat()}; ask for a new one")
    return Unauthenticated("the bearer token is unknown" if is_given else "a bearer token is needed")


def _expired_at(context: RequestContext) -> datetime | None:
    """Return when the token of a request expired; None if it is unknown or has not."""
    tokens = context.node.tokens
    return None if tokens is None else tokens.expired_at(_bearer_token(context.headers[AUTHORIZATION]))


def _bearer_token(header: bytes) -> bytes:
    """Return the bearer token of an Authorization header; empty if it has none."""
    scheme, _, token = header.partition(b" ")
    token = token.strip()
    return token if scheme.lower() == b"bearer" and len(token) <= TOKEN_MAX_BYTES else b""
