"""Timers that fired: ends of phases, sessions, and pending member ids.

Source: protocol.md sections 9.2 to 9.6.
"""

from typing import assert_never

from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.rebalance import (
    EXTENDED_TIMEOUT_MIN_MS,
    complete_join_phase,
    effective_rebalance_timeout_ms,
    end_initial_delay,
    maybe_complete_join_phase,
    prepare_rebalance_or_complete_join,
    remove_member,
)
from coordinator_core.protocol.records import PendingMemberRemoved, RemovalReason, Trigger
from coordinator_core.protocol.requests import DeadlineKind, ExpireDeadline
from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE


def decide_expire_deadline(draft: Draft, request: ExpireDeadline) -> None:
    """Apply an expired deadline, if it is still relevant."""
    kind, subject = request.deadline.kind, request.deadline.subject
    match kind:
        case DeadlineKind.JOIN:
            _expire_join_phase(draft)
        case DeadlineKind.SYNC:
            _expire_sync_phase(draft)
        case DeadlineKind.SESSION:
            _expire_member(draft, subject)
        case DeadlineKind.PENDING_MEMBER:
            _expire_pending_member(draft, subject)
        case _:
            assert_never(kind)


def _expire_join_phase(draft: Draft) -> None:
    if draft.group.state is not PREPARING:
        return
    if draft.group.initial_delay_ms is not None:
        end_initial_delay(draft)
    else:
        complete_join_phase(draft)


def _expire_sync_phase(draft: Draft) -> None:
    """Evict members that have not synced in this generation; heartbeats do not help.

    Source: protocol.md section 9.4.
    """
    group = draft.group
    if group.state not in {COMPLETING, STABLE}:
        return
    excludes_static = draft.context.settings.group_sync_timeout_scope == "dynamic"
    silent = [
        member_id
        for member_id in group.members
        if member_id in group.pending_syncs and not (excludes_static and group.members[member_id].is_static)
    ]
    for member_id in silent:
        remove_member(draft, member_id, RemovalReason.SYNC_TIMEOUT)
    if silent:
        prepare_rebalance_or_complete_join(draft, Trigger.SYNC_TIMEOUT, silent[0])
    elif group.pending_syncs:
        # Static members are spared for now. The setting may differ when the timer fires again.
        draft.start(
            DeadlineKind.SYNC, max(effective_rebalance_timeout_ms(group, draft.context), EXTENDED_TIMEOUT_MIN_MS)
        )


def _expire_member(draft: Draft, member_id: str) -> None:
    """Evict a silent member. A member with a parked request is not silent; a new one is evicted if its time is over."""
    member = draft.group.members.get(member_id)
    is_waiting = draft.group.is_waiting(member_id)
    if member is None or (is_waiting and not member.is_new):
        return
    removal_reason = RemovalReason.NEW_MEMBER_TIMEOUT if is_waiting else RemovalReason.SESSION_EXPIRED
    remove_member(draft, member_id, removal_reason)
    prepare_rebalance_or_complete_join(draft, removal_reason.trigger, member_id)


def _expire_pending_member(draft: Draft, member_id: str) -> None:
    if member_id in draft.group.pending_member_ids:
        draft.emit(PendingMemberRemoved(member_id))
        maybe_complete_join_phase(draft)
