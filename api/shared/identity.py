"""Identities: the owner of a token, its role, and the groups and topics that it covers."""

import json
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from api.shared.limits import ACTOR_MAX_CHARS

IDENTITY_MAX_BYTES: Final = 16_384
"""The maximum size of an identity as `identity_bytes`: a quarter of the headers of a forwarded request."""
ALL_GROUPS: Final = ("",)
"""The prefixes of a token that covers every group."""
ALL_TOPICS: Final = ("",)


class Role(StrEnum):
    """The role of a token; an operator may do everything that agents and viewers may."""

    AGENT = "agent"
    VIEWER = "viewer"
    OPERATOR = "operator"


Actor = Annotated[str, Meta(min_length=1, max_length=ACTOR_MAX_CHARS, pattern=r"^[^\x00]*$")]
"""The name of a token's owner, as the audit log stores it."""


class Identity(NamedTuple):
    """The owner of a token and its permissions."""

    actor: Actor
    role: Role
    prefixes: tuple[str, ...] = ALL_GROUPS
    """Prefixes of the ids of the groups that it covers."""
    topics: tuple[str, ...] = ()
    """Prefixes of the topics whose log ends it is trusted to report."""

    @property
    def trusted_topic_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of the topics whose log ends it is trusted to report for every group.

        An operator of all groups may set the offsets of every group anyway, and is trusted for all topics unless its
        token names some.
        """
        is_trusted_by_role = not self.topics and self.role is Role.OPERATOR and self.can_access_all
        return ALL_TOPICS if is_trusted_by_role else self.topics

    def can_access(self, group_id: str) -> bool:
        """Return whether the token covers a group."""
        return group_id.startswith(self.prefixes)

    @property
    def can_access_all(self) -> bool:
        """Return whether the token covers all groups."""
        return "" in self.prefixes

    def prefixes_within(self, requested: str) -> list[str]:
        """Return the prefixes of the covered groups whose ids begin with `requested`; sorted, without overlaps."""
        within = {requested if requested.startswith(own) else own for own in self.prefixes if _overlap(requested, own)}
        return sorted(one for one in within if not any(one.startswith(other) for other in within - {one}))


ANONYMOUS_IDENTITY: Final = Identity("", Role.AGENT, ())
"""The identity of a client without a known token, on a node with tokens."""


def identity_bytes(identity: Identity) -> bytes:
    """Return an identity as JSON in ASCII, for another node."""
    return json.dumps(identity).encode("ascii")


def read_identity(data: bytes) -> Identity:
    """Return the identity that `identity_bytes` encoded.

    Raises:
        ValueError: the data is no JSON of an identity.
    """
    return msgspec.json.decode(data, type=Identity)


def _overlap(requested: str, own: str) -> bool:
    return requested.startswith(own) or own.startswith(requested)
