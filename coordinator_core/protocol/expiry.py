"""A deadline has passed: nobody's request is needed for that.

Source: protocol.md sections 9.2 to 9.6.
"""

from typing import assert_never

from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.rebalance import (
    LIMIT_AGAIN_MIN_MS,
    end_join_phase,
    end_join_phase_if_complete,
    end_window,
    rebalance_limit_ms,
    remove_member,
    settle_after_removal,
)
from coordinator_core.protocol.records import MemberIdDropped, Removal, Trigger
from coordinator_core.protocol.requests import DeadlineKind, Expire
from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE


def decide_expire(draft: Draft, request: Expire) -> None:
    """Do what the deadline was for, if it still matters."""
    kind, subject = request.deadline
    match kind:
        case DeadlineKind.JOIN:
            _expire_join_phase(draft)
        case DeadlineKind.SYNC:
            _expire_sync_phase(draft)
        case DeadlineKind.MEMBER:
            _expire_member(draft, subject)
        case DeadlineKind.HANDSHAKE:
            _expire_handshake(draft, subject)
        case _:
            assert_never(kind)


def _expire_join_phase(draft: Draft) -> None:
    if draft.group.state is not PREPARING:
        return
    if draft.group.window_ms is not None:
        end_window(draft)
    else:
        end_join_phase(draft)


def _expire_sync_phase(draft: Draft) -> None:
    """Put out whoever has not synced in this generation; heartbeats do not help. Source: protocol.md section 9.4."""
    group = draft.group
    if group.state not in {COMPLETING, STABLE}:
        return
    spares_static = draft.context.settings.group_sync_timeout_scope == "dynamic"
    silent = [
        member_id
        for member_id in group.members
        if member_id in group.pending_syncs and not (spares_static and group.members[member_id].is_static)
    ]
    for member_id in silent:
        remove_member(draft, member_id, Removal.SYNC_TIMEOUT)
    if silent:
        settle_after_removal(draft, Trigger.SYNC_TIMEOUT, silent[0])
    elif group.pending_syncs:
        # Those are spared. The setting may be another one when their time is over once more.
        draft.start(DeadlineKind.SYNC, max(rebalance_limit_ms(group, draft.context), LIMIT_AGAIN_MIN_MS))


def _expire_member(draft: Draft, member_id: str) -> None:
    """Put a silent member out. One that waits is not silent, unless it is new and has waited for too long."""
    member = draft.group.members.get(member_id)
    if member is None or (draft.group.is_waiting(member_id) and not member.is_new):
        return
    remove_member(draft, member_id, Removal.SESSION_EXPIRED)
    settle_after_removal(draft, Trigger.SESSION_EXPIRED, member_id)


def _expire_handshake(draft: Draft, member_id: str) -> None:
    if member_id in draft.group.pending_member_ids:
        draft.emit(MemberIdDropped(member_id))
        end_join_phase_if_complete(draft)
