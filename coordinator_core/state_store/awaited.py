"""Awaited members: those that the current phase of a rebalance waits for, as stored in `groups.awaited_members`.

A node stores them once a rebalance has lasted for a while, and again when they change
(`runtime/shard_scan.py`). The write that ends a phase clears them. Source: tables.md, `groups`.
"""

from dataclasses import asdict, dataclass
from itertools import islice
from typing import Final, Literal, Self

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.states import PREPARING
from coordinator_core.state_store.row_checks import read_json
from coordinator_core.state_store.rows import Json

AWAITED_MEMBERS_MAX: Final = 100
"""The maximum number of members in the column; `count` counts them all."""

Phase = Literal["join", "sync"]


@dataclass(frozen=True, slots=True)
class AwaitedMember:
    """A member that has not joined, or has not synced. Of a pending member only the id is known."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None


@dataclass(frozen=True, slots=True)
class AwaitedMembers:
    """The members that the current phase waits for; in a sync phase the leader comes first."""

    phase: Phase
    since_ms: int
    """When the phase began, in wall time."""
    count: int
    members: tuple[AwaitedMember, ...]

    def to_json(self) -> Json:
        """Return the value of the column `groups.awaited_members`."""
        return {**asdict(self), "members": [asdict(member) for member in self.members]}

    @classmethod
    def from_json(cls, stored: Json) -> Self:
        """Return the awaited members of a value of the column `groups.awaited_members`.

        Raises:
            UnreadableRow: the value has another shape.
        """
        return read_json("groups.awaited_members", stored, cls)


def awaited_members(group: Group) -> AwaitedMembers | None:
    """Return the members that a group waits for; None if it waits for none."""
    member_ids = group.waiting_for()
    if not member_ids:
        return None
    named = tuple(_awaited_member(group, member_id) for member_id in islice(member_ids, AWAITED_MEMBERS_MAX))
    phase: Phase = "join" if group.state is PREPARING else "sync"
    return AwaitedMembers(phase, group.state_since_ms, len(member_ids), named)


def _awaited_member(group: Group, member_id: str) -> AwaitedMember:
    member = group.members.get(member_id)
    if member is None:
        return AwaitedMember(member_id)
    return AwaitedMember(member_id, member.group_instance_id, member.client_id, member.client_host)
