"""The entry point of the protocol: `decide` maps a group, a request and the current time to a decision.

`decide` is a pure function. The driver carries the decision out (`decision`); a refused request leaves the group
unchanged.
"""

from collections.abc import Callable
from typing import Any, assert_never

from coordinator_core.protocol.commit import decide_commit
from coordinator_core.protocol.decision import Decision, Draft
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.expiry import decide_expire_deadline
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.heartbeat import decide_heartbeat
from coordinator_core.protocol.join import decide_join
from coordinator_core.protocol.leave import decide_leave
from coordinator_core.protocol.offsets import (
    decide_delete_group,
    decide_delete_offsets,
    decide_expire_offsets,
    decide_remove_topic_offsets,
    decide_retire,
)
from coordinator_core.protocol.reevaluate import (
    decide_force_rebalance,
    decide_reevaluate,
    decide_remove_member,
    decide_resume,
)
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ExpireDeadline,
    ExpireOffsets,
    ForceRebalance,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Reevaluate,
    RemoveMember,
    RemoveTopicOffsets,
    Request,
    ResetOffsets,
    RestoreOffsets,
    Resume,
    RetireGroup,
    SyncGroup,
)
from coordinator_core.protocol.reset import decide_reset
from coordinator_core.protocol.restore import decide_restore
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.protocol.sync import decide_sync

Decide = Callable[[Group, Any, Now, Context], Decision]
"""Decides a request, as `decide` does."""


def decide(group: Group, request: Request, now: Now, context: Context) -> Decision:
    """Decide a request.

    Args:
        group: the group as it is; ``Group(group_id)`` if it does not exist.
        request: what a caller asks for, or what happened.
        now: the current time, on both clocks.
        context: the group's effective settings, and the topic metadata.

    Returns:
        The decision. `group` itself is never changed.
    """
    try:
        if isinstance(request, Heartbeat):
            return decide_heartbeat(group, request, context)
        if isinstance(request, CommitOffsets):
            return decide_commit(group, request, now, context)
        draft = Draft(group, now, context)
        _dispatch(draft, request)
        return draft.decision()
    except CoordinatorError as error:
        if isinstance(request, ExpireDeadline | Resume | Reevaluate):
            raise AssertionError(f"{type(request).__name__} has no caller to refuse") from error
        member_id = request.member_id if isinstance(request, JoinGroup) else NO_MEMBER_ID
        return Decision.error_response(group, request.token, error, member_id)


def _dispatch(draft: Draft, request: Request) -> None:
    match request:
        case JoinGroup():
            decide_join(draft, request)
        case SyncGroup():
            decide_sync(draft, request)
        case LeaveGroup():
            decide_leave(draft, request)
        case ExpireDeadline():
            decide_expire_deadline(draft, request)
        case Resume():
            decide_resume(draft, request)
        case Reevaluate():
            decide_reevaluate(draft, request)
        case ForceRebalance():
            decide_force_rebalance(draft, request)
        case RemoveMember():
            decide_remove_member(draft, request)
        case DeleteOffsets():
            decide_delete_offsets(draft, request)
        case DeleteGroup():
            decide_delete_group(draft, request)
        case ExpireOffsets():
            decide_expire_offsets(draft, request)
        case RemoveTopicOffsets():
            decide_remove_topic_offsets(draft, request)
        case ResetOffsets():
            decide_reset(draft, request)
        case RestoreOffsets():
            decide_restore(draft, request)
        case RetireGroup():
            decide_retire(draft, request)
        case Heartbeat() | CommitOffsets():
            raise AssertionError("decided without a draft")
        case _:
            assert_never(request)
