"""What a group does when settings or the topic catalogue change around it, and when an operator steps in.

Source: protocol.md section 18 (timeouts, partition counts, members put out); http-api.md "For operators".
"""

from coordinator_core.protocol.checks import check_known
from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.rebalance import (
    rebalance_limit_ms,
    remove_member,
    restart_session,
    settle_after_removal,
    start_rebalance,
)
from coordinator_core.protocol.records import PhaseRetimed, Removal, Trigger
from coordinator_core.protocol.replies import Done
from coordinator_core.protocol.requests import DeadlineKind, ForceRebalance, Reconsider, RemoveMember, Resume
from coordinator_core.protocol.states import COMPLETING, EMPTY, PREPARING, STABLE


def decide_reconsider(draft: Draft, request: Reconsider) -> None:
    """Re-time the phase under way if its timeout changed, and rebalance if partition counts did."""
    if request.is_rebalance_timeout_changed:
        _retime_phase(draft)
    rebalance_if_topics_changed(draft, request.gone_topics)


def _retime_phase(draft: Draft) -> None:
    """Count the new limit from the phase's start; an initial window keeps its own time."""
    group = draft.group
    timeout_ms = draft.context.settings.rebalance_timeout_ms
    if timeout_ms == group.phase_timeout_ms:
        return
    if group.state is PREPARING and group.window_ms is None:
        kind = DeadlineKind.JOIN
    elif group.state in {COMPLETING, STABLE} and group.pending_syncs:
        kind = DeadlineKind.SYNC
    else:
        return
    draft.emit(PhaseRetimed(group.phase_started_node_ms, timeout_ms))
    ends_node_ms = group.phase_started_node_ms + rebalance_limit_ms(group, draft.context)
    draft.start(kind, max(0, ends_node_ms - draft.now.node_ms))


def rebalance_if_topics_changed(draft: Draft, gone_topics: frozenset[str] = frozenset()) -> None:
    """Start a rebalance of a "consumer" group if a topic it reads is gone, or, once it is Stable, has grown.

    Growth is looked at when the assignment is accepted; that a topic is gone is told once, so also a leader that is
    about to assign it must ask again.
    """
    group = draft.group
    if group.state not in {STABLE, COMPLETING} or group.protocol_type != CONSUMER or not group.subscribed_topics:
        return
    catalogue = draft.context.catalogue
    known = (catalogue[topic] for topic in group.subscribed_topics if topic in catalogue)
    has_grown = group.state is STABLE and any(topic.version > group.topics_version for topic in known)
    if has_grown or group.subscribed_topics & gone_topics:
        start_rebalance(draft, Trigger.PARTITIONS_CHANGED)


def decide_resume(draft: Draft, _: Resume) -> None:
    """Go on from what was stored: every session afresh, and whatever rebalance is owed.

    Source: protocol.md sections 13 and 18.
    """
    group = draft.group
    for member_id in group.members:
        restart_session(draft, member_id)
    if group.state is COMPLETING:
        draft.emit(PhaseRetimed(draft.now.node_ms, draft.context.settings.rebalance_timeout_ms))
        draft.start(DeadlineKind.SYNC, rebalance_limit_ms(group, draft.context))
    if len(group.members) > draft.context.settings.group_max_size:
        start_rebalance(draft, Trigger.OVER_CAPACITY)
    elif group.must_rebalance:
        start_rebalance(draft, group.trigger or Trigger.ADMIN)
    else:
        rebalance_if_topics_changed(draft)


def decide_force_rebalance(draft: Draft, request: ForceRebalance) -> None:
    """Start a rebalance because an operator wants one; while one is under way there is nothing to do."""
    check_known(draft.group)
    if draft.group.state is EMPTY:
        raise InvalidRequest("the group has no members to rebalance")
    start_rebalance(draft, Trigger.ADMIN, reason=request.reason)
    draft.reply(request.token, Done())


def decide_remove_member(draft: Draft, request: RemoveMember) -> None:
    """Put a member out as if it had left."""
    check_known(draft.group)
    if request.member_id not in draft.group.members:
        raise InvalidRequest("the group has no such member")
    remove_member(draft, request.member_id, Removal.ADMIN, request.reason)
    settle_after_removal(draft, Trigger.ADMIN, request.member_id, request.reason)
    draft.reply(request.token, Done())
