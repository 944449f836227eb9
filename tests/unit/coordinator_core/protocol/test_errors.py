"""Every error is one of Kafka's, and has an action for the caller.

Source: Kafka's ``Errors``; http-api.md "Errors".
"""

from collections.abc import Iterator

from coordinator_core.protocol import errors
from coordinator_core.protocol.errors import CoordinatorError, MemberIdRequired, NotCoordinator

KAFKA = {
    "UNKNOWN_TOPIC_OR_PARTITION": (3, "fix"),
    "OFFSET_METADATA_TOO_LARGE": (12, "fix"),
    "COORDINATOR_LOAD_IN_PROGRESS": (14, "retry"),
    "COORDINATOR_NOT_AVAILABLE": (15, "retry"),
    "NOT_COORDINATOR": (16, "retry"),
    "ILLEGAL_GENERATION": (22, "rejoin"),
    "INCONSISTENT_GROUP_PROTOCOL": (23, "fix"),
    "INVALID_GROUP_ID": (24, "fix"),
    "UNKNOWN_MEMBER_ID": (25, "rejoin"),
    "INVALID_SESSION_TIMEOUT": (26, "fix"),
    "REBALANCE_IN_PROGRESS": (27, "rejoin"),
    "INVALID_REQUEST": (42, "fix"),
    "POLICY_VIOLATION": (44, "fix"),
    "NON_EMPTY_GROUP": (68, "fix"),
    "GROUP_ID_NOT_FOUND": (69, "fix"),
    "MEMBER_ID_REQUIRED": (79, "rejoin"),
    "GROUP_MAX_SIZE_REACHED": (81, "fix"),
    "FENCED_INSTANCE_ID": (82, "fix"),
    "GROUP_SUBSCRIBED_TO_TOPIC": (86, "fix"),
}


def leaves(kind: type[CoordinatorError]) -> Iterator[type[CoordinatorError]]:
    """Yield the errors that are raised: those that no other derives from."""
    below = [one for one in kind.__subclasses__() if one.__module__ == errors.__name__]
    for one in below:
        yield from leaves(one)
    if not below:
        yield kind


def test_error_names_codes_and_actions_match_the_contract() -> None:
    assert {one.code: (one.kafka_code, one.action) for one in leaves(CoordinatorError)} == KAFKA


def test_str_of_an_error_is_its_sentence() -> None:
    assert str(NotCoordinator("another node owns this group", {"http": "http://b"})) == "another node owns this group"
    assert NotCoordinator("", {"http": "http://b"}).listeners == {"http": "http://b"}
    assert MemberIdRequired("m").member_id == "m"
