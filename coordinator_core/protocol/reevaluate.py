"""Reactions to changed settings or topic metadata, to a load, and to operators' requests.

Source: protocol.md section 18 (timeouts, partition counts, removed members); http-api.md "Operator requests".
"""

from coordinator_core.protocol.checks import check_group_exists
from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.rebalance import (
    effective_rebalance_timeout_ms,
    prepare_rebalance_or_complete_join,
    remove_member,
    restart_session,
    start_rebalance,
)
from coordinator_core.protocol.records import PhaseTimeoutReset, RemovalReason, Trigger
from coordinator_core.protocol.requests import DeadlineKind, ForceRebalance, Reevaluate, RemoveMember, Resume
from coordinator_core.protocol.responses import EmptyResponse
from coordinator_core.protocol.states import COMPLETING, EMPTY, PREPARING, STABLE


def decide_reevaluate(draft: Draft, request: Reevaluate) -> None:
    """Restart the phase timer if its timeout changed, and rebalance if partition counts changed."""
    if request.is_rebalance_timeout_changed:
        _reset_phase_timeout(draft)
    rebalance_if_topics_changed(draft)


def _reset_phase_timeout(draft: Draft) -> None:
    """Apply the new limit as of the phase's start; an initial rebalance delay keeps its own time."""
    group = draft.group
    timeout_ms = draft.context.settings.rebalance_timeout_ms
    if timeout_ms == group.phase_timeout_ms:
        return
    if group.state is PREPARING and group.initial_delay_ms is None:
        kind = DeadlineKind.JOIN
    elif group.state in {COMPLETING, STABLE} and group.pending_syncs:
        kind = DeadlineKind.SYNC
    else:
        return
    draft.emit(PhaseTimeoutReset(group.phase_started_node_ms, timeout_ms))
    ends_node_ms = group.phase_started_node_ms + effective_rebalance_timeout_ms(group, draft.context)
    draft.start(kind, max(0, ends_node_ms - draft.now.node_ms))


def rebalance_if_topics_changed(draft: Draft) -> None:
    """Start a rebalance of a "consumer" group if a subscribed topic was deleted or, in Stable, resized.

    Counts are compared again when the assignment is accepted. A deletion also restarts a rebalance whose leader is
    about to assign the topic.
    """
    group = draft.group
    if group.state not in {STABLE, COMPLETING} or group.protocol_type != CONSUMER or not group.subscribed_topics:
        return
    topic_metadata, deleted = draft.context.topic_metadata, draft.context.deleted_topics
    known = (topic_metadata[topic] for topic in group.subscribed_topics if topic in topic_metadata)
    has_grown = group.state is STABLE and any(topic.version > group.topics_version for topic in known)
    if has_grown or any(deleted.get(topic, 0) > group.topics_version for topic in group.subscribed_topics):
        start_rebalance(draft, Trigger.PARTITIONS_CHANGED)


def decide_resume(draft: Draft, _: Resume) -> None:
    """Continue from the stored state: restart every session, and start any rebalance that is due.

    Source: protocol.md sections 13 and 18.
    """
    group = draft.group
    for member_id in group.members:
        restart_session(draft, member_id)
    if group.state is COMPLETING:
        draft.emit(PhaseTimeoutReset(draft.now.node_ms, draft.context.settings.rebalance_timeout_ms))
        draft.start(DeadlineKind.SYNC, effective_rebalance_timeout_ms(group, draft.context))
    if len(group.members) > draft.context.settings.group_max_size:
        start_rebalance(draft, Trigger.OVER_CAPACITY)
    elif group.must_rebalance:
        start_rebalance(draft, group.trigger or Trigger.ADMIN)
    else:
        rebalance_if_topics_changed(draft)


def decide_force_rebalance(draft: Draft, request: ForceRebalance) -> None:
    """Start a rebalance on behalf of an operator; does nothing while one is under way."""
    check_group_exists(draft.group)
    if draft.group.state is EMPTY:
        raise InvalidRequest("the group has no members to rebalance")
    start_rebalance(draft, Trigger.ADMIN, reason=request.reason)
    draft.reply(request.token, EmptyResponse())


def decide_remove_member(draft: Draft, request: RemoveMember) -> None:
    """Remove a member as if it had left."""
    check_group_exists(draft.group)
    if request.member_id not in draft.group.members:
        raise InvalidRequest("the group has no such member")
    remove_member(draft, request.member_id, RemovalReason.ADMIN, request.reason)
    prepare_rebalance_or_complete_join(draft, Trigger.ADMIN, request.member_id, request.reason)
    draft.reply(request.token, EmptyResponse())
