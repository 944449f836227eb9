"""Checks shared by several requests, in Kafka's order: the member first, with static fencing, then its generation.

Source: protocol.md section 3.
"""

from coordinator_core.protocol.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    UnknownMemberId,
)
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.states import DEAD


def check_group_id(group: Group) -> None:
    """Raise `InvalidGroupId` for the empty id, which only offset requests and administration may use."""
    if not group.group_id:
        raise InvalidGroupId("the group id is empty")


def check_alive(group: Group) -> None:
    """Raise `UnknownMemberId` if the group does not exist, `CoordinatorNotAvailable` if it is Dead."""
    if not group.exists:
        raise UnknownMemberId("there is no such group")
    if group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")


def check_group_exists(group: Group) -> None:
    """Raise `GroupIdNotFound` if the group does not exist or is Dead; for requests of operators."""
    if group.state is DEAD:
        raise GroupIdNotFound("there is no such group")


def check_member(group: Group, member_id: str, group_instance_id: str | None) -> Member:
    """Return the member that sent the request.

    The instance id is checked first, if one is given; a pending member id is not a member yet.

    Raises:
        UnknownMemberId: the instance or the member is not in the group.
        FencedInstanceId: the instance belongs to another member id now.
    """
    if group_instance_id is not None:
        owner_id = group.static_members.get(group_instance_id)
        if owner_id is None:
            raise UnknownMemberId("no member has this instance id")
        if owner_id != member_id:
            raise FencedInstanceId("another process has joined with this instance id")
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId("the member is not in the group")
    return member


def check_generation(group: Group, generation: int) -> None:
    """Raise `IllegalGeneration` unless the request is from the current generation."""
    if generation != group.generation:
        raise IllegalGeneration(f"the group is at generation {group.generation}, the request at {generation}")
