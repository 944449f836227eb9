"""Authorization of HTTP requests: bearer tokens, client certificates, and the access rule of each route.

If a node requires no tokens, every request is allowed, and it listens on loopback only. If it requires tokens,

* a client is whom its bearer token names or, if it sends none, its certificate;
* a client without a known token or certificate is unauthenticated, and may request public paths only: health and the
  pages;
* a request for one group needs a token that allows its operation on the group, in whatever encoding the path has it;
* a request for all groups needs a token for all groups, unless its endpoint filters the result by token;
* a request that is not in ACCESS_RULES needs DESCRIBE if it only reads, DELETE if it deletes, and CONFIGURE otherwise.

`authenticate` runs when a request arrives, `authorize` once its endpoint is known, and `authorize_answer` before a long
poll is answered.

Source: security.md "Permissions"; RFC 6750.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from api.http.forward_signature import CLIENT_HEADER
from api.http.request_context import RequestContext
from api.shared import authorization
from api.shared.access_control import Operation
from api.shared.authorization import REQUEST_RULES, AccessRule, Scope
from api.shared.errors import Unauthenticated
from api.shared.identity import ANONYMOUS_IDENTITY
from api.shared.tls import NO_CERTIFICATE, ClientCertificate
from api.shared.tokens import Tokens, token_id_of
from coordinator_core.jobs import JOBS, JobSpec

AUTHORIZATION: Final = b"authorization"
GROUP_ROUTE: Final = "/v1/groups/{group_id:str}"
PUBLIC: Final = AccessRule(None, Scope.OWN_GROUPS)
CERTIFICATE_EXTENSION: Final = "muster.certificate"
"""The ASGI extension that has the client's certificate; absent if it has sent none."""


def report_request(job: JobSpec) -> str:
    """Return the name of the request for a job's reports, such as ListTimeoutReports."""
    return f"List{job.subject.removesuffix('s').title()}Reports"


ACCESS_RULES: Final = REQUEST_RULES | {
    "Health": PUBLIC,
    "Readiness": PUBLIC,
    "OpenApi": PUBLIC,
    "Docs": PUBLIC,
    "Console": PUBLIC,
    "OffsetQuery": REQUEST_RULES["OffsetFetch"],
    "ListTopics": AccessRule(Operation.READ, Scope.OWN_GROUPS),
    "DescribeTopic": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "ListGroupOverview": REQUEST_RULES["ListGroups"],
    "ListTopicOverview": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "DescribeActivity": REQUEST_RULES["ListGroups"],
    "ListOtherGroups": REQUEST_RULES["ListGroups"],
    "ListQuarantinedGroups": REQUEST_RULES["ListGroups"],
    "ListChanges": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "DescribeChange": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "ResetOffsets": AccessRule(Operation.RESET, Scope.GROUP),
    "RemoveMember": AccessRule(Operation.CONFIGURE, Scope.GROUP),
    "ApplyRun": AccessRule(Operation.DELETE, Scope.ALL_GROUPS),
    "RejectRun": AccessRule(Operation.DELETE, Scope.ALL_GROUPS),
    "UndoChange": AccessRule(Operation.ALL, Scope.OWN_GROUPS),
    "DescribeClusterConfig": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "ListRuns": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "DescribeRun": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    "ListCandidates": AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS),
    **{report_request(job): AccessRule(Operation.DESCRIBE, Scope.OWN_GROUPS) for job in JOBS.values() if job.is_report},
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
    operation = Operation.DELETE if method == "DELETE" else Operation.CONFIGURE
    by_route = AccessRule(
        Operation.DESCRIBE if method == "GET" else operation,
        Scope.GROUP if GROUP_ROUTE in path else Scope.ALL_GROUPS,
    )
    return ACCESS_RULES.get(request, by_route)


def authenticate(context: RequestContext, tokens: Tokens) -> None:
    """Set the identity of a request by its bearer token, or else by the certificate of its client.

    A forwarded request gets it from its signature instead.

    Raises:
        Unauthenticated: the method is not GET and the token is not known; the body is not read.
    """
    if CLIENT_HEADER in context.headers:
        return
    header, identity = context.headers.get(AUTHORIZATION), None
    if header is not None:
        identity = tokens.find(header, _bearer_token)
    elif (certificate := _certificate(context)) is not NO_CERTIFICATE:
        identity = tokens.find_certificate(certificate)
    if identity is not None:
        context.identity, context.token_id = identity, identity.token_id
        return
    context.identity = ANONYMOUS_IDENTITY
    token = b"" if header is None else _bearer_token(header)
    context.token_id = token_id_of(token) if token else None
    if context.scope["method"] != "GET":
        raise _unauthenticated(context)


def authorize(context: RequestContext, rule: AccessRule) -> None:
    """Check the identity of a request against an access rule.

    Raises:
        Unauthenticated: a token is needed, and it is absent, unknown or expired.
        GroupAuthorizationFailed: the token does not allow the operation on the groups.
    """
    try:
        authorization.authorize(context.identity, rule, context.group_id)
    except Unauthenticated:
        raise _unauthenticated(context) from None


def authorize_answer(context: RequestContext, tokens: Tokens) -> None:
    """Check the identity of a long poll again before it is answered: its token may have been revoked meanwhile.

    The node that has forwarded a request checks that.

    Raises:
        Unauthenticated: the token is no longer known, or has expired.
        GroupAuthorizationFailed: the token no longer allows the request.
    """
    if not context.is_forwarded:
        authenticate(context, tokens)
        authorize(context, REQUEST_RULES[context.request])


def _unauthenticated(context: RequestContext) -> Unauthenticated:
    """Return the error that says what is wrong with the token of a request."""
    is_given = AUTHORIZATION in context.headers and not context.is_forwarded
    expired_at = _expired_at(context) if is_given else None
    if expired_at is not None:
        return Unauthenticated(f"the bearer token expired at {expired_at.isoformat()}; ask for a new one")
    if is_given:
        return Unauthenticated("the bearer token is unknown")
    certificate = _certificate(context)
    if certificate is not NO_CERTIFICATE and not context.is_forwarded:
        tokens = context.node.tokens
        if tokens is not None and tokens.is_expired(certificate):
            return Unauthenticated("the certificate has expired; connect with a new one")
        names = ", ".join(certificate.names)
        return Unauthenticated(f"no valid entry of the tokens file has a name of the certificate ({names})")
    return Unauthenticated("a bearer token is needed")


def _certificate(context: RequestContext) -> ClientCertificate:
    extensions: Mapping[str, Any] = context.scope.get("extensions") or {}
    certificate: ClientCertificate = extensions.get(CERTIFICATE_EXTENSION, NO_CERTIFICATE)
    return certificate


def _expired_at(context: RequestContext) -> datetime | None:
    """Return when the token of a request expired; None if it is unknown or has not."""
    tokens = context.node.tokens
    return None if tokens is None else tokens.expired_at(_bearer_token(context.headers[AUTHORIZATION]))


def _bearer_token(header: bytes) -> bytes:
    """Return the bearer token of an Authorization header; empty if it has none."""
    return header[7:].strip() if header[:7].lower() == b"bearer " else b""
