"""Who may do which operation to which group, whatever the wire protocol."""

import pytest

from api.shared.authorization import REQUEST_RULES, authorize
from api.shared.errors import GroupAuthorizationFailed, Unauthenticated
from api.shared.identity import ANONYMOUS_IDENTITY, Identity, Role

AGENT = Identity("ada", Role.AGENT, ("billing-",))
VIEWER = Identity("bob", Role.VIEWER, ("billing-",))
OPERATOR = Identity("olga", Role.OPERATOR, ("billing-",))


def may(identity: Identity | None, operation: str, group_id: str | None = "billing-1") -> bool:
    try:
        authorize(identity, REQUEST_RULES[operation], group_id)
    except GroupAuthorizationFailed:
        return False
    return True


@pytest.mark.parametrize(
    ("operation", "roles"),
    [
        ("Heartbeat", {AGENT, OPERATOR}),
        ("OffsetCommit", {AGENT, OPERATOR}),
        ("OffsetFetch", {AGENT, VIEWER, OPERATOR}),
        ("DescribeGroups", {VIEWER, OPERATOR}),
        ("DeleteGroups", {OPERATOR}),
    ],
)
def test_an_operation_needs_a_role(operation: str, roles: set[Identity]) -> None:
    assert {each for each in (AGENT, VIEWER, OPERATOR) if may(each, operation)} == roles


def test_an_operation_on_a_group_needs_a_token_that_covers_the_group() -> None:
    assert not may(AGENT, "Heartbeat", "orders")
    assert not may(AGENT, "Heartbeat", "")
    assert not may(AGENT, "Heartbeat", None)


def test_groups_of_a_list_are_filtered_by_the_token() -> None:
    assert may(VIEWER, "ListGroups", None)


@pytest.mark.parametrize("operation", REQUEST_RULES)
def test_a_client_without_a_known_token_may_do_nothing_and_without_tokens_everything(operation: str) -> None:
    with pytest.raises(Unauthenticated):
        may(ANONYMOUS_IDENTITY, operation)
    assert may(None, operation)
