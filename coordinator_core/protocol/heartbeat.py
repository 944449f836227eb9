"""Heartbeat: say that one is alive, and learn whether to rejoin. It stores nothing.

Source: protocol.md section 7. In CompletingRebalance the answer is NONE, whatever older comments say.
"""

from coordinator_core.protocol.checks import check_alive, check_generation, check_group_id, check_member
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError, RebalanceInProgress
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import Beaten, Reply
from coordinator_core.protocol.requests import Deadline, DeadlineKind, Heartbeat
from coordinator_core.protocol.settings import Context
from coordinator_core.protocol.states import PREPARING


def decide_heartbeat(group: Group, request: Heartbeat, context: Context) -> Decision:
    """Restart the member's session; the hot path, so it makes no draft. An Empty group has no member to ask."""
    check_group_id(group)
    check_alive(group)
    member = check_member(group, request.member_id, request.group_instance_id)
    check_generation(group, request.generation)
    session_ms = context.settings.session_in_force_ms(member.session_timeout_ms)
    answer: Beaten | CoordinatorError
    if group.state is PREPARING:
        answer = RebalanceInProgress("the group is rebalancing; join again")
    else:
        answer = Beaten(session_ms, context.settings.heartbeat_in_force_ms(session_ms))
    replies = (Reply(request.token, answer),)
    return Decision(group, (), replies, ((Deadline(DeadlineKind.MEMBER, member.member_id), session_ms),))
