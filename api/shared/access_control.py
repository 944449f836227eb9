"""Access control: entries that allow or deny operations on groups and topics, in the terms of Kafka's ACLs.

* Nothing is allowed without an entry that allows it, and an entry that denies it wins over all that allow it.
* An entry names a resource literally (`*`: every one), or all whose names begin with a prefix.
* JOIN, COMMIT and DESCRIBE imply READ, and DELETE implies DELETE_OFFSETS, where they are allowed. Where they are
  denied, they imply nothing. ALL is every operation, and is denied where one of them is.

Source: Apache Kafka's documentation, "Authorization and ACLs"; KIP-290 for prefixes.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.shared.limits import GROUP_ID_MAX_CHARS

DECISIONS_MAX: Final = 4_096
"""The maximum number of decisions that are remembered for one token."""
WILDCARD: Final = "*"
"""The literal name of every resource."""


class Operation(StrEnum):
    """What a request does to a group or topic."""

    READ = "READ"
    """Fetch and query offsets, find the coordinator, list topics."""
    DESCRIBE = "DESCRIBE"
    """All other reads."""
    JOIN = "JOIN"
    """Join, sync, heartbeat, leave."""
    COMMIT = "COMMIT"
    RESET = "RESET"
    """Set offsets as an operator, or see what that would do."""
    DELETE_OFFSETS = "DELETE_OFFSETS"
    DELETE = "DELETE"
    """Delete groups, topics and offsets; decide on maintenance runs."""
    CONFIGURE = "CONFIGURE"
    """Settings, topic metadata, rebalances, removal of members, quarantine."""
    ALL = "ALL"

    __hash__ = str.__hash__  # that of Enum is a function in Python, and each heartbeat needs one


class PermissionType(StrEnum):
    """Whether an entry allows or denies."""

    ALLOW = "ALLOW"
    DENY = "DENY"


class ResourceType(StrEnum):
    """What an entry is about."""

    GROUP = "GROUP"
    TOPIC = "TOPIC"

    __hash__ = str.__hash__  # likewise


class PatternType(StrEnum):
    """How the name of an entry selects resources."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class AccessControlEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Allows or denies operations on the resources that its pattern selects."""

    permission: PermissionType
    operations: Annotated[tuple[Operation, ...], Meta(min_length=1)]
    resource: ResourceType
    pattern: PatternType
    name: Annotated[str, Meta(max_length=GROUP_ID_MAX_CHARS)]

    @property
    def is_for_all(self) -> bool:
        """Return whether it selects every resource."""
        return self.name == (WILDCARD if self.pattern is PatternType.LITERAL else "")


class _Names:
    """The names that some entries select."""

    __slots__ = ("_literals", "_prefixes", "is_all")

    def __init__(self, entries: Iterable[AccessControlEntry]) -> None:
        by_pattern: dict[PatternType, set[str]] = {pattern: set() for pattern in PatternType}
        for entry in entries:
            by_pattern[entry.pattern].add(entry.name)
        self._literals = by_pattern[PatternType.LITERAL]
        self._prefixes = tuple(by_pattern[PatternType.PREFIXED])
        self.is_all = WILDCARD in self._literals or "" in self._prefixes
        """Whether one entry selects every name."""

    def __contains__(self, name: str) -> bool:
        return self.is_all or name in self._literals or name.startswith(self._prefixes)

    def __bool__(self) -> bool:
        return bool(self._literals or self._prefixes)


IMPLIED_BY: Final = {
    Operation.READ: frozenset({Operation.JOIN, Operation.COMMIT, Operation.DESCRIBE}),
    Operation.DELETE_OFFSETS: frozenset({Operation.DELETE}),
}
"""Operation → those that imply it where they are allowed."""


class Permissions:
    """What the entries of one token allow; each decision is taken once."""

    __slots__ = ("_decisions", "_names", "entries")

    def __init__(self, entries: Iterable[AccessControlEntry]) -> None:
        self.entries = tuple(entries)
        self._decisions: dict[tuple[Operation, ResourceType, str | None], bool] = {}
        self._names: dict[tuple[Operation, ResourceType], tuple[_Names, _Names]] = {}

    def allows(self, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Return whether an operation on the resource of this name is allowed."""
        decision = self._decisions.get((operation, resource, name))
        return self._decision(operation, resource, name) if decision is None else decision

    def allows_on_all(self, operation: Operation, resource: ResourceType) -> bool:
        """Return whether an operation is allowed on every resource of a type."""
        return self._decision(operation, resource, None)

    def refused(self, operation: Operation, resource: ResourceType, names: Iterable[str]) -> frozenset[str]:
        """Return the names on whose resources an operation is not allowed; there may be very many."""
        allowed, denied = self._names_of(operation, resource)
        return frozenset(name for name in set(names) if name not in allowed or name in denied)

    def allowing(self, operation: Operation, resource: ResourceType) -> list[AccessControlEntry]:
        """Return the entries that allow an operation on some resources."""
        return self._of(PermissionType.ALLOW, resource, {operation, Operation.ALL, *IMPLIED_BY.get(operation, ())})

    def denying(self, operation: Operation, resource: ResourceType) -> list[AccessControlEntry]:
        """Return the entries that deny an operation on some resources."""
        denied_by = set(Operation) if operation is Operation.ALL else {operation, Operation.ALL}
        return self._of(PermissionType.DENY, resource, denied_by)

    def _decision(self, operation: Operation, resource: ResourceType, name: str | None) -> bool:
        """Return whether an operation is allowed on the resource of this name; None: on all resources."""
        key = (operation, resource, name)
        decision = self._decisions.get(key)
        if decision is None:
            allowed, denied = self._names_of(operation, resource)
            decision = allowed.is_all and not denied if name is None else name in allowed and name not in denied
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def _names_of(self, operation: Operation, resource: ResourceType) -> tuple[_Names, _Names]:
        """Return the names on which an operation is allowed, and those on which it is denied."""
        names = self._names.get((operation, resource))
        if names is None:
            names = _Names(self.allowing(operation, resource)), _Names(self.denying(operation, resource))
            self._names[operation, resource] = names
        return names

    def _of(
        self, permission: PermissionType, resource: ResourceType, operations: set[Operation]
    ) -> list[AccessControlEntry]:
        return [
            entry
            for entry in self.entries
            if entry.permission is permission
            and entry.resource is resource
            and not operations.isdisjoint(entry.operations)
        ]
