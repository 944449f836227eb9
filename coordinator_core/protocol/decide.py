"""`decide` is the one way into the protocol: a group, a request and the moment make a decision.

It is a pure function. Nothing happens until the driver carries the decision out (`decision`), and a refused
request leaves the very same group behind.
"""

from typing import assert_never

from coordinator_core.protocol.commit import decide_commit
from coordinator_core.protocol.decision import Decision, Draft
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.expiry import decide_expire
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
from coordinator_core.protocol.reconsider import (
    decide_force_rebalance,
    decide_reconsider,
    decide_remove_member,
    decide_resume,
)
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Expire,
    ExpireOffsets,
    ForceRebalance,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Reconsider,
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


def decide(group: Group, request: Request, now: Now, context: Context) -> Decision:
    """Decide what follows from a request.

    Args:
        group: the group as it is; one that does not exist yet is ``Group(group_id)``.
        request: what is asked, or what has happened.
        now: the moment, on both clocks.
        context: the settings in force for this group, and the topic catalogue.

    Returns:
        The decision. `group` itself is never changed.
    """
    try:
        if isinstance(request, Heartbeat):
            return decide_heartbeat(group, request, context)
        draft = Draft(group, now, context)
        _dispatch(draft, request)
        return draft.decision()
    except CoordinatorError as error:
        if isinstance(request, Expire | Resume | Reconsider):
            raise AssertionError(f"{type(request).__name__} has nobody to refuse") from error
        member_id = request.member_id if isinstance(request, JoinGroup) else NO_MEMBER_ID
        return Decision.refusal(group, request.token, error, member_id)


def _dispatch(draft: Draft, request: Request) -> None:
    match request:
        case JoinGroup():
            decide_join(draft, request)
        case SyncGroup():
            decide_sync(draft, request)
        case LeaveGroup():
            decide_leave(draft, request)
        case CommitOffsets():
            decide_commit(draft, request)
        case Expire():
            decide_expire(draft, request)
        case Resume():
            decide_resume(draft, request)
        case Reconsider():
            decide_reconsider(draft, request)
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
        case Heartbeat():
            raise AssertionError("heartbeats are decided without a draft")
        case _:
            assert_never(request)
