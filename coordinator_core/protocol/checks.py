"""The checks that several requests share, in Kafka's order: who asks, then from which generation.

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
    """Raise `UnknownMemberId` where there is no such group, `CoordinatorNotAvailable` where it has died."""
    if not group.exists:
        raise UnknownMemberId("there is no such group")
    if group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")


def check_known(group: Group) -> None:
    """Raise `GroupIdNotFound` where there is no such group any more, or never was; what operators are told."""
    if group.state is DEAD:
        raise GroupIdNotFound("there is no such group")


def check_member(group: Group, member_id: str, group_instance_id: str | None) -> Member:
    """Return the member that asks.

    An instance id is checked first, where one is given; a handshake id is not a member yet.

    Raises:
        UnknownMemberId: the instance or the member is not (any more) in the group.
        FencedInstanceId: another member id has taken the instance over.
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
    """Raise `IllegalGeneration` unless the request is from the present generation."""
    if generation != group.generation:
        raise IllegalGeneration(f"the group is at generation {group.generation}, the request at {generation}")
