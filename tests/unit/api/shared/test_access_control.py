"""Access control entries: patterns, implied operations, and that a denial wins."""

import pytest

from api.shared.access_control import (
    DECISIONS_MAX,
    AccessControlEntry,
    Operation,
    PatternType,
    Permissions,
    PermissionType,
    ResourceType,
)
from api.shared.identity import ROLE_OPERATIONS, Identity, Role
from coordinator_core.queries.group_patterns import GroupPatterns

READ, JOIN, COMMIT, RESET, ALL = (Operation[name] for name in ("READ", "JOIN", "COMMIT", "RESET", "ALL"))
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def allow(*operations: Operation, name: str = "a", resource: ResourceType = GROUP) -> AccessControlEntry:
    return AccessControlEntry(PermissionType.ALLOW, operations, resource, PatternType.LITERAL, name)


def allow_prefixed(*operations: Operation, name: str = "a") -> AccessControlEntry:
    return AccessControlEntry(PermissionType.ALLOW, operations, GROUP, PatternType.PREFIXED, name)


def deny(*operations: Operation, name: str = "a") -> AccessControlEntry:
    return AccessControlEntry(PermissionType.DENY, operations, GROUP, PatternType.LITERAL, name)


@pytest.mark.parametrize(
    ("entries", "operation", "name", "is_allowed"),
    [
        ([], READ, "a", False),
        ([allow(READ)], READ, "a", True),
        ([allow(READ)], READ, "ab", False),
        ([allow(READ)], JOIN, "a", False),
        ([allow_prefixed(READ)], READ, "ab", True),
        ([allow_prefixed(READ)], READ, "b", False),
        ([allow_prefixed(READ, name="")], READ, "b", True),
        ([allow(READ, name="*")], READ, "b", True),
        ([allow_prefixed(READ, name="*")], READ, "b", False),
        ([allow(READ, resource=TOPIC)], READ, "a", False),
        ([allow(JOIN)], READ, "a", True),
        ([allow(COMMIT)], READ, "a", True),
        ([allow(RESET)], READ, "a", False),
        ([allow(ALL)], RESET, "a", True),
        ([allow_prefixed(ALL, name=""), deny(RESET)], RESET, "a", False),
        ([deny(RESET), allow_prefixed(ALL, name="")], RESET, "ab", True),
        ([allow(ALL), deny(ALL)], READ, "a", False),
        ([allow(ALL), deny(READ)], JOIN, "a", True),
        ([allow(READ), deny(JOIN)], READ, "a", True),
        ([allow(JOIN), deny(READ)], READ, "a", False),
    ],
)
def test_an_operation_needs_an_entry_that_allows_and_none_that_denies(
    entries: list[AccessControlEntry], operation: Operation, name: str, is_allowed: bool
) -> None:
    permissions = Permissions(entries)

    assert permissions.allows(operation, GROUP, name) is is_allowed
    assert permissions.allows(operation, GROUP, name) is is_allowed, "the remembered decision"


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ([allow_prefixed(READ, name="")], True),
        ([allow(READ, name="*")], True),
        ([allow_prefixed(READ)], False),
        ([allow(READ, name="*"), deny(READ)], False),
        ([allow(READ, name="*"), deny(RESET)], True),
    ],
)
def test_an_operation_on_all_groups_needs_an_entry_for_all_and_no_denial(
    entries: list[AccessControlEntry], is_allowed: bool
) -> None:
    assert Permissions(entries).allows_on_all(READ, GROUP) is is_allowed


def test_remembered_decisions_are_bounded() -> None:
    permissions = Permissions([allow(READ, name="g7")])
    names = [f"g{number}" for number in range(2 * DECISIONS_MAX)]

    assert [name for name in names if permissions.allows(READ, GROUP, name)] == ["g7"]
    assert len(permissions._decisions) <= DECISIONS_MAX


def test_every_role_is_a_bundle_of_operations_on_its_groups_and_all_topics() -> None:
    assert set(ROLE_OPERATIONS) == set(Role)
    agent = Identity("ada", Role.AGENT, ("billing-",))

    assert agent.can_access("billing-1", COMMIT)
    assert not agent.can_access("orders", COMMIT)
    assert agent.permissions.allows(COMMIT, ResourceType.TOPIC, "anything")
    assert not agent.can_access("billing-1", Operation.DELETE)


def test_entries_add_to_a_role_and_a_denial_takes_from_it() -> None:
    identity = Identity("ada", Role.OPERATOR, acls=(deny(RESET, name="payments"),))

    assert not identity.can_access("payments", RESET)
    assert identity.can_access("payments", JOIN)
    assert not identity.can_access(None, RESET)
    assert identity.can_access(None, Operation.CONFIGURE)


def test_a_denial_of_one_operation_is_one_of_all() -> None:
    identity = Identity("ada", Role.OPERATOR, acls=(deny(RESET, name="payments"),))

    assert not identity.can_access("payments", ALL)
    assert not identity.can_access(None, ALL)
    assert identity.can_access("orders", ALL)
    assert identity.trusted_topic_prefixes == ()


def test_described_groups_are_patterns_of_sql() -> None:
    describe = Operation.DESCRIBE
    entries = (allow(describe, name="a_%\\"), allow_prefixed(describe, name="b"), deny(ALL, name="b2"))

    assert Identity("v", None, acls=entries).described_groups == GroupPatterns(("a\\_\\%\\\\", "b%"), ("b2",))
    assert Identity("v", Role.VIEWER).described_groups is None
    assert Identity("v", None, acls=(allow(describe, name="*"), deny(describe, name="x"))).described_groups == (
        GroupPatterns(("%",), ("x",))
    )
