"""LeaveGroup: members go, each with a result of its own; the group goes on without them once, after all.

Source: protocol.md section 8 (batch leave as the modern coordinator does it, D-10).
"""

from coordinator_core.protocol.checks import check_group_id, check_member
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, UnknownMemberId
from coordinator_core.protocol.rebalance import end_join_phase_if_complete, remove_member, settle_after_removal
from coordinator_core.protocol.records import MemberIdDropped, Removal
from coordinator_core.protocol.replies import LeaverResult, Left
from coordinator_core.protocol.requests import NO_MEMBER_ID, DeadlineKind, LeaveGroup, Leaver
from coordinator_core.protocol.states import DEAD


def decide_leave(draft: Draft, request: LeaveGroup) -> None:
    """Take every entry out that is in, then rebalance if a member went."""
    check_group_id(draft.group)
    if draft.group.exists and draft.group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    results = []
    gone: list[tuple[str, str | None]] = []
    for leaver in request.members:
        try:
            gone += _take_out(draft, leaver)
            error: CoordinatorError | None = None
        except CoordinatorError as refusal:
            error = refusal
        results.append(LeaverResult(leaver.member_id, leaver.group_instance_id, error))
    if gone:
        member_id, reason = gone[0]
        settle_after_removal(draft, Removal.LEFT.trigger, member_id, reason)
    else:
        end_join_phase_if_complete(draft)
    draft.reply(request.token, Left(tuple(results)))


def _take_out(draft: Draft, leaver: Leaver) -> list[tuple[str, str | None]]:
    """Take one out, and return the member that went, if it was one and not only a handshake id."""
    if leaver.member_id in draft.group.pending_member_ids:
        draft.emit(MemberIdDropped(leaver.member_id))
        draft.stop(DeadlineKind.HANDSHAKE, leaver.member_id)
        return []
    member_id = _resolve(draft, leaver)
    remove_member(draft, member_id, Removal.LEFT, leaver.reason)
    return [(member_id, leaver.reason)]


def _resolve(draft: Draft, leaver: Leaver) -> str:
    """Return the member meant; an instance id alone is an operator's word for whoever has it now."""
    if leaver.member_id != NO_MEMBER_ID:
        return check_member(draft.group, leaver.member_id, leaver.group_instance_id).member_id
    member_id = draft.group.static_members.get(leaver.group_instance_id or "")
    if member_id is None:
        raise UnknownMemberId("no member has this instance id")
    return member_id
