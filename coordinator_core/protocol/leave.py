"""LeaveGroup: remove members, each with its own result; one rebalance follows after the last entry.

Source: protocol.md section 8 (batch leave as in the modern coordinator, D-10).
"""

from coordinator_core.protocol.checks import check_group_id, check_member
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, UnknownMemberId
from coordinator_core.protocol.rebalance import (
    maybe_complete_join_phase,
    prepare_rebalance_or_complete_join,
    remove_member,
)
from coordinator_core.protocol.records import PendingMemberRemoved, RemovalReason
from coordinator_core.protocol.requests import NO_MEMBER_ID, DeadlineKind, LeaveGroup, LeavingMember
from coordinator_core.protocol.responses import LeaveGroupResponse, LeavingMemberResult
from coordinator_core.protocol.states import DEAD


def decide_leave(draft: Draft, request: LeaveGroup) -> None:
    """Remove every entry that is in the group, then rebalance if a member was removed."""
    check_group_id(draft.group)
    if draft.group.exists and draft.group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    results = []
    removed: list[tuple[str, str | None]] = []
    for leaving_member in request.members:
        try:
            removed += _remove(draft, leaving_member)
            error: CoordinatorError | None = None
        except CoordinatorError as refusal:
            error = refusal
        results.append(LeavingMemberResult(leaving_member.member_id, leaving_member.group_instance_id, error))
    if removed:
        member_id, reason = removed[0]
        prepare_rebalance_or_complete_join(draft, RemovalReason.LEFT.trigger, member_id, reason)
    else:
        maybe_complete_join_phase(draft)
    draft.reply(request.token, LeaveGroupResponse(tuple(results)))


def _remove(draft: Draft, leaving_member: LeavingMember) -> list[tuple[str, str | None]]:
    """Remove one entry; return the removed member, or an empty list for a pending member."""
    if leaving_member.member_id in draft.group.pending_member_ids:
        draft.emit(PendingMemberRemoved(leaving_member.member_id))
        draft.stop(DeadlineKind.PENDING_MEMBER, leaving_member.member_id)
        return []
    member_id = _resolve(draft, leaving_member)
    remove_member(draft, member_id, RemovalReason.LEFT, leaving_member.reason)
    return [(member_id, leaving_member.reason)]


def _resolve(draft: Draft, leaving_member: LeavingMember) -> str:
    """Return the member id; an instance id alone names its current owner."""
    if leaving_member.member_id != NO_MEMBER_ID:
        return check_member(draft.group, leaving_member.member_id, leaving_member.group_instance_id).member_id
    member_id = draft.group.static_members.get(leaving_member.group_instance_id or "")
    if member_id is None:
        raise UnknownMemberId("no member has this instance id")
    return member_id
