"""Problem responses: the table of errors and HTTP statuses, and errors as `application/problem+json`.

Errors that only HTTP has (an unknown route or method, the size or type of a body) have Kafka's code INVALID_REQUEST,
and a status of their own.

Source: http-api.md "Errors"; RFC 9457.
"""

from http import HTTPStatus
from math import ceil
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from api.http import LISTENER
from api.http.limits import DETAIL_MAX_CHARS, RETRY_AFTER_S
from api.http.response import HttpResponse, json_bytes
from api.shared.errors import (
    GroupAuthorizationFailed,
    ThrottlingQuotaExceeded,
    TopicAuthorizationFailed,
    Unauthenticated,
    UnknownServerError,
)
from coordinator_core.admin.changes import CannotUndo, ChangeNotFound, IdempotencyKeyConflict
from coordinator_core.protocol import errors
from coordinator_core.protocol.errors import (
    Action,
    CoordinatorError,
    InvalidRequest,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    RequestError,
    RetryError,
)
from coordinator_core.runtime.quarantine import GroupQuarantined, ReloadRefused, WriteRefused

PROBLEM_JSON: Final = b"application/problem+json"

# -- errors of HTTP alone ---------------------------------------------------------------------------


class NoSuchRoute(InvalidRequest):
    """The path is not served."""


class MethodNotAllowed(InvalidRequest):
    """The path is not served for this method; `allowed` lists the methods of the path."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"allowed here: {allowed}")
        self.allowed = allowed


class BodyTooLarge(InvalidRequest):
    """The body is over the node's limit."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the body is larger than {limit_bytes} bytes")


class InvalidForwardSignature(RequestError):
    """The signature of a forwarded request is invalid; `fault` is one of `SIGNATURE_FAULTS`."""

    code, kafka_code = "CLUSTER_AUTHORIZATION_FAILED", 31

    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


class UnsupportedMediaType(InvalidRequest):
    """The body is compressed, or not declared as JSON."""


class MisdirectedRequest(InvalidRequest):
    """The node does not accept the Host of the request."""


class CrossOriginRequest(InvalidRequest):
    """A page of another origin sent a request that may change state."""


class RequestTimedOut(RetryError):
    """The head or the body of the request did not arrive in time."""

    code, kafka_code = "REQUEST_TIMED_OUT", 7


class RunStateConflict(InvalidRequest):
    """The maintenance run was decided differently before, or its candidates changed since the operator's review."""


class UnknownRun(RequestError):
    """There is no such maintenance run."""

    code, kafka_code = "RESOURCE_NOT_FOUND", 91


class LongPollTimedOut(RebalanceInProgress):
    """`max_wait_ms` passed before the group was ready; the client retries, with `member_id`."""

    action = "retry"  # type: ignore[assignment]  # unlike its base class: the client repeats the same request

    def __init__(self, member_id: str) -> None:
        super().__init__("the group is not ready yet; retry")
        self.member_id = member_id


# -- the table ----------------------------------------------------------------------------------------

STATUS: Final[dict[type[CoordinatorError], int]] = {
    errors.InvalidRequest: 400,
    errors.InvalidGroupId: 400,
    errors.InvalidSessionTimeout: 400,
    errors.OffsetMetadataTooLarge: 400,
    Unauthenticated: 401,
    InvalidForwardSignature: 403,
    CrossOriginRequest: 403,
    GroupAuthorizationFailed: 403,
    TopicAuthorizationFailed: 403,
    errors.GroupIdNotFound: 404,
    errors.UnknownMemberId: 404,
    errors.UnknownTopicOrPartition: 404,
    UnknownRun: 404,
    ChangeNotFound: 404,
    NoSuchRoute: 404,
    MethodNotAllowed: 405,
    RequestTimedOut: 408,
    errors.InconsistentGroupProtocol: 409,
    errors.GroupMaxSizeReached: 409,
    errors.PolicyViolation: 409,
    errors.NonEmptyGroup: 409,
    errors.GroupSubscribedToTopic: 409,
    errors.FencedInstanceId: 409,
    errors.IllegalGeneration: 409,
    errors.RebalanceInProgress: 409,
    errors.MemberIdRequired: 409,
    LongPollTimedOut: 409,
    RunStateConflict: 409,
    CannotUndo: 409,
    IdempotencyKeyConflict: 409,
    ReloadRefused: 409,
    BodyTooLarge: 413,
    UnsupportedMediaType: 415,
    errors.NotCoordinator: 421,
    MisdirectedRequest: 421,
    ThrottlingQuotaExceeded: 429,
    UnknownServerError: 500,
    errors.CoordinatorNotAvailable: 503,
    errors.CoordinatorLoadInProgress: 503,
    GroupQuarantined: 503,
    WriteRefused: 503,
}
RETRY_LATER: Final = frozenset({429, 503})


class Problem(Struct, kw_only=True):
    """An error response; `action` is fix, rejoin or retry."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    kafka_code: int
    action: Action
    detail: str
    member_id: str | UnsetType = UNSET
    """With MEMBER_ID_REQUIRED, and when a join or sync exceeded `max_wait_ms`: the member id to retry with."""
    coordinator: str | UnsetType | None = UNSET
    """With NOT_COORDINATOR: the owner's address; null if unknown."""
    quarantine_reason: str | UnsetType = UNSET
    """With COORDINATOR_NOT_AVAILABLE of a quarantined group: why it is not served."""
    limit: str | UnsetType = UNSET
    """With THROTTLING_QUOTA_EXCEEDED: the setting of the limit, such as MUSTER_CLIENT_QUOTA_REQUESTS_PER_S."""
    limit_value: int | UnsetType = UNSET
    """With THROTTLING_QUOTA_EXCEEDED: the value of the limit for this client or group."""


def problem_response(error: CoordinatorError) -> HttpResponse:
    """Return the problem response for an error."""
    problem = _problem(error)
    return HttpResponse(problem.status, PROBLEM_JSON, json_bytes(problem), _headers(error, problem.status), error.code)


def _problem(error: CoordinatorError) -> Problem:
    status = STATUS[type(error)]
    is_of_http_only = error.code == InvalidRequest.code and status != STATUS[InvalidRequest]
    problem = Problem(
        title=HTTPStatus(status).phrase if is_of_http_only else error.code.replace("_", " ").capitalize(),
        status=status,
        code=error.code,
        kafka_code=error.kafka_code,
        action=error.action,
        detail=error.detail[:DETAIL_MAX_CHARS],
    )
    if isinstance(error, MemberIdRequired | LongPollTimedOut):
        problem.member_id = error.member_id
    elif isinstance(error, NotCoordinator):
        problem.coordinator = error.listeners.get(LISTENER)
    elif isinstance(error, GroupQuarantined):
        problem.quarantine_reason = error.reason[:DETAIL_MAX_CHARS]
    elif isinstance(error, ThrottlingQuotaExceeded):
        problem.limit, problem.limit_value = f"MUSTER_{error.limit.upper()}", error.value
    return problem


def _headers(error: CoordinatorError, status: int) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", error.allowed.encode("ascii")),)
    if isinstance(error, Unauthenticated):
        return ((b"www-authenticate", b'Bearer realm="muster"'),)
    if isinstance(error, ThrottlingQuotaExceeded):
        return ((b"retry-after", b"%d" % max(RETRY_AFTER_S, ceil(error.retry_after_s))),)
    if status in RETRY_LATER:
        return ((b"retry-after", str(RETRY_AFTER_S).encode()),)
    return ()
