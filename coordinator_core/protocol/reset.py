"""Reset of an Empty group's committed offsets: all of the requested partitions, or none.

The request brings what is known of each partition's log. An error names the partition for which a needed value is
unknown. An offset outside of the log, as far as the log's ends are known, moves to the nearer end, with a note. A
group that does not exist is created, as by a simple commit, so offsets can be set before the first consumer joins.
The old offsets are archived under the change; the new ones are commits without a member.

Source: http-api.md "Resetting offsets"; Kafka's ``ConsumerGroupCommand.resetOffsets`` and
``OffsetsUtils.checkOffsetsRange``.
"""

from typing import assert_never

from coordinator_core.protocol.checks import check_group_id
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidRequest,
    NonEmptyGroup,
    UnknownTopicOrPartition,
)
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.offsets import remove_offset
from coordinator_core.protocol.records import GroupCreated, OffsetsCommitted
from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    OffsetToCommit,
    PartitionToReset,
    ResetOffsets,
    ResetTo,
    StoredOffset,
)
from coordinator_core.protocol.responses import ResetOffsetsResponse, ResetResult
from coordinator_core.protocol.states import DEAD, EMPTY

OFFSET_MAX = 2**63 - 1
LOG_END_UNKNOWN = "no trusted reporter has reported the topic's log end offset"
CLAMPED = frozenset({ResetTo.OFFSET, ResetTo.SHIFT, ResetTo.DATETIME, ResetTo.GIVEN})
"""Targets that may lie outside of the log."""
AGE_UNITS = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1_000))
"""Units of an age, from the largest one on, and their milliseconds; two of a unit at least are said in it."""


def decide_reset(draft: Draft, request: ResetOffsets) -> None:
    """Commit the new offset of every requested partition; a dry run only reports them."""
    _check_resettable(draft.group, request)
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    moves = []
    for known in request.partitions:
        if not draft.context.has_partition(known.topic, known.partition):
            raise UnknownTopicOrPartition(f"{known.topic} has no partition {known.partition}")
        found = stored.get((known.topic, known.partition))
        moves.append((known, found, _result(request, known, found, draft.now.wall_ms)))
    if not request.is_dry_run:
        _apply(draft, request, moves)
    draft.reply(request.token, ResetOffsetsResponse(tuple(result for _, _, result in moves)))


def _check_resettable(group: Group, request: ResetOffsets) -> None:
    """Refuse a group that is not Empty, and topics without known partitions."""
    check_group_id(group)
    if group.exists and group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    if group.exists and group.state is not EMPTY:
        raise NonEmptyGroup("the group has members; stop them first")
    for topic in request.unknown_topics:
        raise UnknownTopicOrPartition(f"no partition of {topic} is known; name them, or put it into the topic metadata")
    if not group.exists and not request.partitions:
        raise GroupIdNotFound("there is no such group, and no topic is named")


# -- where to ---------------------------------------------------------------------------------------------


def _result(request: ResetOffsets, known: PartitionToReset, found: StoredOffset | None, now_ms: int) -> ResetResult:
    old_offset = None if found is None else found.offset
    wanted = _target_offset(request, known, old_offset)
    offset = _within_log(wanted, known) if request.to in CLAMPED else wanted
    note = _stale_end_warning(request, known, offset, now_ms) if offset == wanted else f"{wanted} is outside of the log"
    return ResetResult(known.topic, known.partition, old_offset, offset, note)


def _stale_end_warning(request: ResetOffsets, known: PartitionToReset, offset: int, now_ms: int) -> str | None:
    """Return a warning if the new offset is a log end so old that the log may have grown since."""
    end = known.log_end
    if end is None or offset != end.offset or now_ms - end.at_ms <= request.log_end_max_age_ms:
        return None
    age_ms = now_ms - end.at_ms
    unit, unit_ms = next(unit for unit in AGE_UNITS if age_ms >= 2 * unit[1] or unit is AGE_UNITS[-1])
    return f"the end of the log was last reported {age_ms // unit_ms} {unit} ago, and may be further on"


def _target_offset(request: ResetOffsets, known: PartitionToReset, old_offset: int | None) -> int:
    end = None if known.log_end is None else known.log_end.offset
    match request.to:
        case ResetTo.EARLIEST:
            return known.log_start_offset
        case ResetTo.LATEST:
            return _require(known, end, LOG_END_UNKNOWN)
        case ResetTo.OFFSET:
            return request.amount
        case ResetTo.SHIFT:
            return _require(known, old_offset, "nothing is committed to shift from") + request.amount
        case ResetTo.DATETIME:
            return _require(known, known.offset_at_datetime, "nothing is known to have been committed by then")
        case ResetTo.CURRENT:
            at_end = end if old_offset is None else old_offset
            return _require(known, at_end, f"nothing is committed, and {LOG_END_UNKNOWN}")
        case ResetTo.GIVEN:
            return _require(known, known.given, "no offset is given")
        case _:
            assert_never(request.to)


def _require(partition: PartitionToReset, value: int | None, otherwise: str) -> int:
    if value is None:
        raise InvalidRequest(f"{partition.topic} {partition.partition}: {otherwise}")
    return value


def _within_log(offset: int, known: PartitionToReset) -> int:
    """Return the nearest offset within the log, as far as its ends are known."""
    end = OFFSET_MAX if known.log_end is None else known.log_end.offset
    return max(known.log_start_offset, min(offset, end))


# -- what is stored ---------------------------------------------------------------------------------------


def _apply(
    draft: Draft, request: ResetOffsets, moves: list[tuple[PartitionToReset, StoredOffset | None, ResetResult]]
) -> None:
    if not draft.group.exists:
        draft.emit(GroupCreated(draft.now.wall_ms))
    for known, found, result in moves:
        if found is not None:
            remove_offset(draft, found, "reset", request.change_id)
        draft.emit_offset(_committed(draft, known, result.new_offset))


def _committed(draft: Draft, known: PartitionToReset, offset: int) -> OffsetsCommitted:
    """Return a commit without a member; it keeps the log end with its age, and drops the consumer's metadata."""
    at_ms, end = (None, None) if known.log_end is None else known.log_end
    position = OffsetToCommit(known.topic, known.partition, offset, log_end_offset=end)
    return OffsetsCommitted(draft.now.wall_ms, NO_MEMBER_ID, None, (position,), log_end_at_ms=at_ms)
