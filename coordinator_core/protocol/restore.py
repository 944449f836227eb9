"""What a change did to offsets is taken back, partition by partition, unless something newer stands there.

Rules:

* A partition is as the change left it, or it is kept: somebody committed, reset or deleted since.
* What members read, or may read, is kept too: a position is not moved under a consumer. If that is all there is to
  say of every partition, a person is refused, and may ask again when the consumers have stopped.
* What comes back is a commit of nobody, now, with an expiry of its own: retention from now, because by the group's
  own time it may be past due already. The next commit clears that. The log's end comes back as old as it was.
* A group that is gone is made again, Empty.

Source: http-api.md "Taking a change back"; maintenance.md "Taking it back".
"""

from coordinator_core.protocol.commit import LATEST_EXPIRY_MS
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import CoordinatorNotAvailable, NonEmptyGroup
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.offsets import is_read, remove_offset
from coordinator_core.protocol.records import GroupCreated, OffsetsCommitted
from coordinator_core.protocol.replies import OffsetsRestored, RestoreResult
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    OffsetToCommit,
    OffsetToRestore,
    RestoreOffsets,
    StoredOffset,
)
from coordinator_core.protocol.states import DEAD, EMPTY, PREPARING

RESTORED = "restored"
REMOVED = "removed"
"""Nothing had stood there before the change."""
KEPT_NEWER = "newer_there"
KEPT_GONE = "gone_since"
KEPT_ACTIVE = "group_active"
KEPT_NO_PARTITION = "no_such_partition"


def decide_restore(draft: Draft, request: RestoreOffsets) -> None:
    """Put back what can be put back, and tell why the rest is kept."""
    group = draft.group
    if group.exists and group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    judged = []
    for offset in request.offsets:
        found = stored.pop((offset.topic, offset.partition), None)
        judged.append((offset, found, _judge(draft, offset, found)))
    outcomes = {outcome for _, _, outcome in judged}
    if outcomes == {KEPT_ACTIVE} and not request.is_of_run:
        raise NonEmptyGroup("the group has members that read these topics; stop them first")
    if not group.exists and RESTORED in outcomes:
        draft.emit(GroupCreated(draft.now.wall_ms))
    results = [_carry_out(draft, request.change_id, *one) for one in judged]
    draft.reply(request.token, OffsetsRestored(tuple(results)))


def _judge(draft: Draft, offset: OffsetToRestore, found: StoredOffset | None) -> str:
    left = None if offset.left_offset is None else (offset.left_offset, offset.left_at_ms)
    standing = None if found is None else (found.offset, found.committed_at_ms)
    if standing != left:
        return KEPT_GONE if standing is None else KEPT_NEWER
    if _is_or_will_be_read(draft.group, offset.topic):
        return KEPT_ACTIVE
    if not draft.context.has_partition(offset.topic, offset.partition):
        return KEPT_NO_PARTITION
    return REMOVED if offset.offset is None else RESTORED


def _is_or_will_be_read(group: Group, topic: str) -> bool:
    """Tell whether members read a topic; until the first join phase ends, what newcomers will read is not known."""
    is_first_phase = group.state is PREPARING and group.settled_state is EMPTY
    return is_first_phase or is_read(group, topic)


def _carry_out(
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
