"""Heartbeat: restart a member's session and report whether the group rebalances. Nothing is stored.

Source: protocol.md section 7. In CompletingRebalance the answer is NONE, contrary to some older comments.
"""

from coordinator_core.protocol.checks import check_alive, check_generation, check_group_id, check_member
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError, RebalanceInProgress
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import Deadline, DeadlineKind, Heartbeat
from coordinator_core.protocol.responses import HeartbeatResponse, Reply
from coordinator_core.protocol.settings import Context
from coordinator_core.protocol.states import PREPARING


def decide_heartbeat(group: Group, request: Heartbeat, context: Context) -> Decision:
    """Restart the member's session; the hot path, so without a draft. An Empty group has no members."""
    check_group_id(group)
    check_alive(group)
    member = check_member(group, request.member_id, request.group_instance_id)
    check_generation(group, request.generation)
    session_ms = context.settings.effective_session_timeout_ms(member.session_timeout_ms)
    answer: HeartbeatResponse | CoordinatorError
    if group.state is PREPARING:
        answer = RebalanceInProgress("the group is rebalancing; join again")
    else:
        answer = HeartbeatResponse(session_ms, context.settings.effective_heartbeat_interval_ms(session_ms))
    replies = (Reply(request.token, answer),)
    return Decision(group, (), replies, ((Deadline(DeadlineKind.SESSION, member.member_id), session_ms),))
