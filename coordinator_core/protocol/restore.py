"""Undo of a change of offsets, partition by partition, except where a newer change exists.

Rules:

* A partition that was committed, reset or deleted since the change is kept, unless an undo has restored what the change
  had committed.
* A partition that members subscribe to, or may subscribe to, is kept too: a consumer's offsets do not change while it
  runs. If this keeps every partition, an operator's request is refused, and can be repeated after the consumers have
  stopped.
* A restored offset is a commit without a member, as of now, with an expiry of its own: retention from now, because by
  the group's own time it may be overdue already. The next commit clears it. The log end keeps its age.
* A group that no longer exists is created again, Empty.

Source: http-api.md "Undoing a change"; maintenance.md "Undo".
"""

from coordinator_core.protocol.commit import LATEST_EXPIRY_MS
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import CoordinatorNotAvailable, NonEmptyGroup
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.offsets import is_subscribed, remove_offset
from coordinator_core.protocol.records import GroupCreated, OffsetsCommitted
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    OffsetToCommit,
    OffsetToRestore,
    RestoreOffsets,
    StoredOffset,
)
from coordinator_core.protocol.responses import RestoreOffsetsResponse, RestoreResult
from coordinator_core.protocol.states import DEAD, EMPTY, PREPARING

RESTORED = "restored"
REMOVED = "removed"
"""No offset was committed before the change."""
KEPT_NEWER = "newer_there"
KEPT_GONE = "gone_since"
KEPT_ACTIVE = "group_active"
KEPT_NO_PARTITION = "no_such_partition"


def decide_restore(draft: Draft, request: RestoreOffsets) -> None:
    """Restore what can be restored, and report why the others are kept."""
    group = draft.group
    if group.exists and group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    judged = []
    for offset in request.offsets:
        found = stored.pop((offset.topic, offset.partition), None)
        judged.append((offset, found, _outcome(draft, offset, found)))
    outcomes = {outcome for _, _, outcome in judged}
    if outcomes == {KEPT_ACTIVE} and not request.is_maintenance_run:
        raise NonEmptyGroup("the group has members that read these topics; stop them first")
    if not group.exists and RESTORED in outcomes:
        draft.emit(GroupCreated(draft.now.wall_ms))
    results = [_apply(draft, request.change_id, *one) for one in judged]
    draft.reply(request.token, RestoreOffsetsResponse(tuple(results)))


def _outcome(draft: Draft, offset: OffsetToRestore, found: StoredOffset | None) -> str:
    left = None if offset.offset_after_change is None else (offset.offset_after_change, offset.changed_at_ms)
    standing = None if found is None else (found.offset, found.committed_at_ms)
    if standing != left:
        return KEPT_GONE if standing is None else KEPT_NEWER
    if _is_or_may_be_subscribed(draft.group, offset.topic):
        return KEPT_ACTIVE
    if not draft.context.has_partition(offset.topic, offset.partition):
        return KEPT_NO_PARTITION
    return REMOVED if offset.offset is None else RESTORED


def _is_or_may_be_subscribed(group: Group, topic: str) -> bool:
    """Return whether members may subscribe to a topic; before the first generation their topics are unknown."""
    is_first_phase = group.state is PREPARING and group.state_before_join_phase is EMPTY
    return is_first_phase or is_subscribed(group, topic)


def _apply(
    draft: Draft, change_id: str, offset: OffsetToRestore, found: StoredOffset | None, outcome: str
) -> RestoreResult:
    if outcome in {RESTORED, REMOVED} and found is not None:
        remove_offset(draft, found, "undone", change_id)
    if outcome != RESTORED or offset.offset is None:
        return RestoreResult(offset.topic, offset.partition, outcome, None)
    draft.emit_offset(_recommitted(draft, offset, offset.offset))
    return RestoreResult(offset.topic, offset.partition, outcome, offset.offset)


def _recommitted(draft: Draft, before: OffsetToRestore, offset: int) -> OffsetsCommitted:
    now_ms, retention_ms = draft.now.wall_ms, draft.context.settings.retention_ms
    expires_at_ms = None if retention_ms < 0 else min(now_ms + retention_ms, LATEST_EXPIRY_MS)
    position = OffsetToCommit(
        before.topic, before.partition, offset, before.leader_epoch, before.metadata, before.log_end_offset
    )
    return OffsetsCommitted(now_ms, NO_MEMBER_ID, expires_at_ms, (position,), before.log_end_at_ms)
