"""Every refusal leaves as `application/problem+json`, and this file holds the one table of errors and statuses.

What only HTTP can refuse (a route, a method, a body's size or kind) carries Kafka's INVALID_REQUEST, and the status
tells it apart.

Source: http-api.md "When the answer is no"; RFC 9457.
"""

from http import HTTPStatus
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from api.http.limits import DETAIL_MAX_CHARS, RETRY_AFTER_S
from api.http.reply import Reply, json_bytes
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
from coordinator_core.runtime.act import CannotUndo, ChangeUnknown, KeyTaken
from coordinator_core.runtime.quarantine import GroupQuarantined, ReloadRefused

PROBLEM_JSON: Final = b"application/problem+json"

# -- what only HTTP refuses -------------------------------------------------------------------------


class NoSuchRoute(InvalidRequest):
    """Nothing is served at this path."""


class MethodNotAllowed(InvalidRequest):
    """The path is served, but not for this method; `allowed` are those for which it is."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"allowed here: {allowed}")
        self.allowed = allowed


class BodyTooLarge(InvalidRequest):
    """The body is over the node's limit."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the body is larger than {limit_bytes} bytes")


class ForeignMark(RequestError):
    """The request claims to have been forwarded by a node, and its mark does not hold; `fault` says in one word why."""

    code, kafka_code = "CLUSTER_AUTHORIZATION_FAILED", 31

    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


class Unauthenticated(RequestError):
    """A token is needed, and there is none that is known."""

    code, kafka_code = "SASL_AUTHENTICATION_FAILED", 58


class GroupAuthorizationFailed(RequestError):
    """The token is not for this request, or not for this group."""

    code, kafka_code = "GROUP_AUTHORIZATION_FAILED", 30


class UnsupportedMediaType(InvalidRequest):
    """The body is declared as something else than JSON."""


class MisdirectedRequest(InvalidRequest):
    """The request's Host is none that the node answers to."""


class CrossOriginRequest(InvalidRequest):
    """A page of another origin sent a request that may change state."""


class RequestTimedOut(RetryError):
    """The head or the body of the request did not arrive in time."""

    code, kafka_code = "REQUEST_TIMED_OUT", 7


class RunDecided(InvalidRequest):
    """The maintenance run was decided otherwise before, or is another than whoever decides has seen; it stays so."""


class RunUnknown(RequestError):
    """There is no such maintenance run."""

    code, kafka_code = "RESOURCE_NOT_FOUND", 91


class StillWaiting(RebalanceInProgress):
    """The caller's `max_wait_ms` is over before its group was ready; it asks again, as `member_id`."""

    action = "retry"  # type: ignore[assignment]  # the contract has this one repeated as it is

    def __init__(self, member_id: str) -> None:
        super().__init__("the group is not ready yet; ask again")
        self.member_id = member_id


class UnknownServerError(RetryError):
    """Something went wrong that should not have; the node's log has it under the request id."""

    code, kafka_code = "UNKNOWN_SERVER_ERROR", -1


# -- the table ----------------------------------------------------------------------------------------

STATUS: Final[dict[type[CoordinatorError], int]] = {
    errors.InvalidRequest: 400,
    errors.InvalidGroupId: 400,
    errors.InvalidSessionTimeout: 400,
    errors.OffsetMetadataTooLarge: 400,
    Unauthenticated: 401,
    ForeignMark: 403,
    CrossOriginRequest: 403,
    GroupAuthorizationFailed: 403,
    errors.GroupIdNotFound: 404,
    errors.UnknownMemberId: 404,
    errors.UnknownTopicOrPartition: 404,
    RunUnknown: 404,
    ChangeUnknown: 404,
    NoSuchRoute: 404,
    MethodNotAllowed: 405,
    RequestTimedOut: 408,
    errors.InconsistentGroupProtocol: 409,
    errors.GroupMaxSizeReached: 409,
    errors.NonEmptyGroup: 409,
    errors.GroupSubscribedToTopic: 409,
    errors.FencedInstanceId: 409,
    errors.IllegalGeneration: 409,
    errors.RebalanceInProgress: 409,
    errors.MemberIdRequired: 409,
    StillWaiting: 409,
    RunDecided: 409,
    CannotUndo: 409,
    KeyTaken: 409,
    ReloadRefused: 409,
    BodyTooLarge: 413,
    UnsupportedMediaType: 415,
    errors.NotCoordinator: 421,
    MisdirectedRequest: 421,
    errors.ThrottlingQuotaExceeded: 429,
    UnknownServerError: 500,
    errors.CoordinatorNotAvailable: 503,
    errors.CoordinatorLoadInProgress: 503,
    GroupQuarantined: 503,
}
RETRY_LATER: Final = frozenset({429, 503})


class Problem(Struct, kw_only=True):
    """A refusal as callers read it; `action` is fix, rejoin or retry."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    kafka_code: int
    action: Action
    detail: str
    member_id: str | UnsetType = UNSET
    """With MEMBER_ID_REQUIRED, and when a join or sync waited too long: who to ask as."""
    coordinator: str | UnsetType | None = UNSET
    """With NOT_COORDINATOR: the owner's address, where it is known."""
    quarantine_reason: str | UnsetType = UNSET
    """With COORDINATOR_NOT_AVAILABLE, where the group is quarantined: why its stored rows cannot be loaded."""


def refusal(error: CoordinatorError) -> Reply:
    """Return the reply that tells a caller about an error."""
    problem = _problem(error)
    return Reply(problem.status, PROBLEM_JSON, json_bytes(problem), _headers(error, problem.status), error.code)


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
    if isinstance(error, MemberIdRequired | StillWaiting):
        problem.member_id = error.member_id
    elif isinstance(error, NotCoordinator):
        problem.coordinator = error.coordinator
    elif isinstance(error, GroupQuarantined):
        problem.quarantine_reason = error.reason[:DETAIL_MAX_CHARS]
    return problem


def _headers(error: CoordinatorError, status: int) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", error.allowed.encode("ascii")),)
    if isinstance(error, Unauthenticated):
        return ((b"www-authenticate", b'Bearer realm="muster"'),)
    if status in RETRY_LATER:
        return ((b"retry-after", str(RETRY_AFTER_S).encode()),)
    return ()
