"""Problem responses of every error."""

import json
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from api.http.problems import STATUS, LongPollTimedOut, RunStateConflict, problem_response
from coordinator_core.protocol import errors
from coordinator_core.protocol.errors import CoordinatorError

CONTRACT = {
    "INVALID_REQUEST": (42, 400, "fix"),
    "INVALID_GROUP_ID": (24, 400, "fix"),
    "INVALID_SESSION_TIMEOUT": (26, 400, "fix"),
    "INCONSISTENT_GROUP_PROTOCOL": (23, 409, "fix"),
    "GROUP_MAX_SIZE_REACHED": (81, 409, "fix"),
    "GROUP_ID_NOT_FOUND": (69, 404, "fix"),
    "NON_EMPTY_GROUP": (68, 409, "fix"),
    "GROUP_SUBSCRIBED_TO_TOPIC": (86, 409, "fix"),
    "UNKNOWN_MEMBER_ID": (25, 404, "rejoin"),
    "ILLEGAL_GENERATION": (22, 409, "rejoin"),
    "REBALANCE_IN_PROGRESS": (27, 409, "rejoin"),
    "MEMBER_ID_REQUIRED": (79, 409, "rejoin"),
    "FENCED_INSTANCE_ID": (82, 409, "fix"),
    "NOT_COORDINATOR": (16, 421, "retry"),
    "COORDINATOR_LOAD_IN_PROGRESS": (14, 503, "retry"),
    "COORDINATOR_NOT_AVAILABLE": (15, 503, "retry"),
    "UNKNOWN_TOPIC_OR_PARTITION": (3, 404, "fix"),
}


def error_classes(above: type[CoordinatorError] = CoordinatorError) -> Iterator[type[CoordinatorError]]:
    """Return every error that can be raised, ours and the protocol's."""
    for error_class in above.__subclasses__():
        if hasattr(error_class, "code"):
            yield error_class
        yield from error_classes(error_class)


def error_named(code: str) -> CoordinatorError:
    """Return an error of the protocol's by Kafka's name."""
    (error_class,) = {each for each in error_classes() if each.code == code and each.__module__ == errors.__name__}
    return error_class("why")


@pytest.mark.parametrize("code", CONTRACT)
def test_problem_document_has_the_documented_fields(code: str) -> None:
    kafka_code, status, action = CONTRACT[code]

    reply = problem_response(error_named(code))

    problem = json.loads(reply.body)
    assert reply.content_type == b"application/problem+json"
    assert reply.code == code
    assert reply.status == problem["status"] == status
    assert (problem["code"], problem["kafka_code"], problem["action"]) == (code, kafka_code, action)
    assert (problem["type"], problem["title"]) == ("about:blank", code.replace("_", " ").capitalize())


@pytest.mark.parametrize("code", CONTRACT)
def test_503_and_429_have_retry_after(code: str) -> None:
    reply = problem_response(error_named(code))

    assert dict(reply.headers) == ({b"retry-after": b"1"} if reply.status in {429, 503} else {})


def test_new_member_id_and_owner_are_returned_in_errors() -> None:
    handshake = json.loads(problem_response(errors.MemberIdRequired("m-1")).body)
    elsewhere = json.loads(problem_response(errors.NotCoordinator("moved", {"http": "http://b:1"})).body)
    of_another_listener = json.loads(problem_response(errors.NotCoordinator("moved", {"kafka": "b:9092"})).body)
    nowhere = json.loads(problem_response(errors.NotCoordinator("moved")).body)

    assert handshake["member_id"] == "m-1"
    assert "coordinator" not in handshake
    assert (elsewhere["coordinator"], nowhere["coordinator"]) == ("http://b:1", None)
    assert of_another_listener["coordinator"] is None


def test_expired_long_poll_is_retried_without_rejoin() -> None:
    problem = json.loads(problem_response(LongPollTimedOut("m-1")).body)

    assert (problem["code"], problem["status"], problem["action"]) == ("REBALANCE_IN_PROGRESS", 409, "retry")
    assert problem["member_id"] == "m-1"


def test_http_errors_are_distinguished_by_status() -> None:
    problem = json.loads(problem_response(RunStateConflict("too late")).body)

    assert (problem["code"], problem["kafka_code"], problem["action"]) == ("INVALID_REQUEST", 42, "fix")
    assert (problem["status"], problem["title"]) == (409, "Conflict")


@pytest.mark.parametrize("error_class", list(error_classes()), ids=lambda each: each.__name__)
def test_every_error_has_a_status(error_class: type[CoordinatorError]) -> None:
    assert STATUS[error_class] in set(HTTPStatus)


def test_long_detail_is_truncated() -> None:
    assert len(json.loads(problem_response(errors.InvalidRequest("x" * 10_000)).body)["detail"]) == 500
