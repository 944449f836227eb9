"""Identities: the owner of a token, and what it may do to which groups and topics."""

import json
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from api.shared.access_control import (
    AccessControlEntry,
    Operation,
    PatternType,
    Permissions,
    PermissionType,
    ResourceType,
)
from api.shared.limits import ACTOR_MAX_CHARS
from coordinator_core.queries.group_patterns import GroupPatterns, like_literal, like_prefix

IDENTITY_MAX_BYTES: Final = 16_384
"""The maximum size of an identity as `identity_bytes`: a quarter of the headers of a forwarded request."""
ALL_GROUPS: Final = ("",)
"""The prefixes of a token that covers every group."""
ALL_TOPICS: Final = ("",)
_GROUP: Final = ResourceType.GROUP
"""Its look-up in the class takes longer than the rest of a decision, in Python 3.11."""


class Role(StrEnum):
    """A bundle of operations; an operator may do everything that agents and viewers may."""

    AGENT = "agent"
    VIEWER = "viewer"
    OPERATOR = "operator"


ROLE_OPERATIONS: Final = {
    Role.AGENT: (Operation.JOIN, Operation.COMMIT, Operation.DELETE_OFFSETS),
    Role.VIEWER: (Operation.DESCRIBE,),
    Role.OPERATOR: (Operation.ALL,),
}

Actor = Annotated[str, Meta(min_length=1, max_length=ACTOR_MAX_CHARS, pattern=r"^[^\x00]*$")]
"""The name of a token's owner, as the audit log stores it."""


class Identity(Struct, array_like=True, frozen=True, dict=True):
    """The owner of a token and its permissions: those of a role, and those of further entries."""

    actor: Actor
    role: Role | None
    prefixes: tuple[str, ...] = ALL_GROUPS
    """Prefixes of the ids of the groups that the role covers; it covers all topics."""
    topics: tuple[str, ...] = ()
    """Prefixes of the topics whose log ends it is trusted to report."""
    acls: tuple[AccessControlEntry, ...] = ()
    token_id: str = ""
    """The id of the token, for logs and the audit log; not sent with the identity."""

    @cached_property
    def permissions(self) -> Permissions:
        """Return what it may do."""
        return Permissions((*self._role_entries(), *self.acls))

    def _role_entries(self) -> Iterator[AccessControlEntry]:
        if self.role is None:
            return
        operations = ROLE_OPERATIONS[self.role]
        named = [(ResourceType.GROUP, prefix) for prefix in self.prefixes]
        for resource, prefix in [*named, (ResourceType.TOPIC, "")]:
            yield AccessControlEntry(PermissionType.ALLOW, operations, resource, PatternType.PREFIXED, prefix)

    @property
    def trusted_topic_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of the topics whose log ends it is trusted to report for every group.

        An operator of all groups may set the offsets of every group anyway, and is trusted for all topics unless its
        token names some.
        """
        is_trusted_by_role = not self.topics and self.role is Role.OPERATOR and self.can_access(None, Operation.ALL)
        return ALL_TOPICS if is_trusted_by_role else self.topics

    def can_access(self, group_id: str | None, operation: Operation = Operation.DESCRIBE) -> bool:
        """Return whether an operation on a group is allowed; None stands for all groups."""
        if group_id is None:
            return self.permissions.allows_on_all(operation, _GROUP)
        return self.permissions.allows(operation, _GROUP, group_id)

    @cached_property
    def described_groups(self) -> GroupPatterns | None:
        """Return the groups that it may describe; None: all."""
        return self._groups_with(Operation.DESCRIBE)

    @cached_property
    def read_groups(self) -> GroupPatterns | None:
        """Return the groups whose offsets it may read; None: all."""
        return self._groups_with(Operation.READ)

    def _groups_with(self, operation: Operation) -> GroupPatterns | None:
        if self.can_access(None, operation):
            return None
        allowing = self.permissions.allowing(operation, ResourceType.GROUP)
        denying = self.permissions.denying(operation, ResourceType.GROUP)
        return GroupPatterns(tuple(map(_like, allowing)), tuple(map(_like, denying)))

    def prefixes_within(self, requested: str) -> list[str]:
        """Return prefixes that all groups have whose ids begin with `requested` and that it may describe.

        They are sorted and do not overlap. A group with one of them may still not be among `described_groups`.
        """
        allowing = self.permissions.allowing(Operation.DESCRIBE, ResourceType.GROUP)
        prefixes = ["" if entry.is_for_all else entry.name for entry in allowing]
        within = {requested if requested.startswith(own) else own for own in prefixes if _overlap(requested, own)}
        return sorted(one for one in within if not any(one.startswith(other) for other in within - {one}))


ANONYMOUS_IDENTITY: Final = Identity("", None)
"""The identity of a client without a known token, on a node with tokens."""


def identity_bytes(identity: Identity) -> bytes:
    """Return an identity as JSON in ASCII, for another node.

    An identity without access control entries has the form of release 0.1.0, whose nodes refuse the other one.
    """
    fields = [identity.actor, identity.role, identity.prefixes, identity.topics]
    acls = [[msgspec.to_builtins(entry) for entry in identity.acls]] if identity.acls else []
    return json.dumps([*fields, *acls]).encode("ascii")


def read_identity(data: bytes) -> Identity:
    """Return the identity that `identity_bytes` encoded.

    Raises:
        ValueError: the data is no JSON of an identity.
    """
    return msgspec.json.decode(data, type=Identity)


def _like(entry: AccessControlEntry) -> str:
    if entry.is_for_all:
        return like_prefix("")
    return (like_literal if entry.pattern is PatternType.LITERAL else like_prefix)(entry.name)


def _overlap(requested: str, own: str) -> bool:
    return requested.startswith(own) or own.startswith(requested)
