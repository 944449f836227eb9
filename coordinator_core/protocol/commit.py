"""OffsetCommit: offsets committed by members, and by clients outside of the group.

Source: protocol.md section 10.1; Kafka's ``GroupCoordinator.doCommitOffsets``.
"""

from collections.abc import Mapping, Sequence

from coordinator_core.protocol.checks import check_generation, check_member
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import (
    CoordinatorError,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from coordinator_core.protocol.offsets import remove_offset
from coordinator_core.protocol.rebalance import restart_session
from coordinator_core.protocol.records import GroupCreated, OffsetsCommitted
from coordinator_core.protocol.requests import NO_MEMBER_ID, CommitOffsets, OffsetToCommit
from coordinator_core.protocol.responses import CommitOffsetsResponse
from coordinator_core.protocol.settings import Context
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY

LATEST_EXPIRY_MS = 253_402_300_799_000
"""The end of the year 9999: the latest expiry of an offset, as some readers cannot represent later instants."""


def decide_commit(draft: Draft, request: CommitOffsets) -> None:
    """Commit what is valid, with a result for each partition."""
    _check_committer(draft, request)
    stored, refused = request.offsets, _partition_errors(request.offsets, draft.context)
    if refused:
        stored = tuple(offset for place, offset in enumerate(stored) if place not in refused)
    if stored:
        _archive_replaced(draft, request, stored)
        at_ms = draft.now.wall_ms
        expires_at_ms = _expires_at_ms(at_ms, request.retention_time_ms)
        draft.emit_offset(OffsetsCommitted(at_ms, request.member_id, expires_at_ms, stored))
    draft.reply(request.token, CommitOffsetsResponse(request.offsets, refused))


def _check_committer(draft: Draft, request: CommitOffsets) -> None:
    """Admit members of the current generation, and clients without ids while the group has no members."""
    group = draft.group
    is_simple = request.generation < 0
    if not group.exists:
        if not is_simple:
            raise GroupIdNotFound("there is no such group")
        draft.emit(GroupCreated(draft.now.wall_ms))
        return
    if group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    if is_simple and group.state is EMPTY:
        return
    if is_simple and request.member_id == NO_MEMBER_ID and request.group_instance_id is None:
        raise UnknownMemberId("the group has members; only they may commit")
    member = check_member(group, request.member_id, request.group_instance_id)
    check_generation(group, request.generation)
    if group.state is COMPLETING:
        raise RebalanceInProgress("the group waits for its new assignment")
    restart_session(draft, member.member_id)


def _archive_replaced(draft: Draft, request: CommitOffsets, stored: Sequence[OffsetToCommit]) -> None:
    if not request.replaced:
        return
    partitions = {(offset.topic, offset.partition) for offset in stored}
    for offset in request.replaced:
        if (offset.topic, offset.partition) in partitions:
            remove_offset(draft, offset, "reset", request.change_id)


def _partition_errors(offsets: Sequence[OffsetToCommit], context: Context) -> Mapping[int, CoordinatorError]:
    """Return index → why a partition is not stored. The metadata limit counts characters, as Kafka's does."""
    limit, known = context.settings.offset_metadata_max_bytes, context.topic_metadata
    return {
        place: _partition_error(offset, context, limit)
        for place, offset in enumerate(offsets)
        if len(offset.metadata) > limit
        or (offset.topic in known and not context.has_partition(offset.topic, offset.partition))
    }


def _partition_error(offset: OffsetToCommit, context: Context, limit: int) -> CoordinatorError:
    if not context.has_partition(offset.topic, offset.partition):
        return UnknownTopicOrPartition(f"{offset.topic} has no partition {offset.partition}")
    return OffsetMetadataTooLarge(f"metadata has {len(offset.metadata)} characters, and may have {limit}")


def _expires_at_ms(at_ms: int, retention_time_ms: int) -> int | None:
    return None if retention_time_ms < 0 else min(at_ms + retention_time_ms, LATEST_EXPIRY_MS)
