"""OffsetCommit: offsets committed by members, and by clients outside of the group.

Source: protocol.md section 10.1; Kafka's ``GroupCoordinator.doCommitOffsets``.
"""

from collections.abc import Iterator, Mapping, Sequence

from coordinator_core.protocol.checks import check_generation, check_member
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import (
    CoordinatorError,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import GroupCreated, OffsetRemoved, OffsetsCommitted, Record
from coordinator_core.protocol.requests import NO_MEMBER_ID, CommitOffsets, Deadline, DeadlineKind, OffsetToCommit
from coordinator_core.protocol.responses import CommitOffsetsResponse, Reply
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY

LATEST_EXPIRY_MS = 253_402_300_799_000
"""The end of the year 9999: the latest expiry of an offset, as some readers cannot represent later instants."""


def decide_commit(group: Group, request: CommitOffsets, now: Now, context: Context) -> Decision:
    """Commit what is valid, with a result for each partition; a hot path, so without a draft."""
    member = _committer(group, request)
    records: list[Record] = []
    deadlines: tuple[tuple[Deadline, int | None], ...] = ()
    if member is not None:
        session_ms = context.settings.effective_session_timeout_ms(member.session_timeout_ms)
        deadlines = ((Deadline(DeadlineKind.SESSION, member.member_id), session_ms),)
    elif not group.exists:
        created = GroupCreated(now.wall_ms)
        group = group.copy()
        group.apply(created)
        records.append(created)
    stored, refused = request.offsets, _partition_errors(request.offsets, context)
    if refused:
        stored = tuple(offset for place, offset in enumerate(stored) if place not in refused)
    if stored:
        if request.replaced:
            records += _replaced(request, stored, now)
        own_ms = request.retention_time_ms
        expires_at_ms = None if own_ms < 0 else min(now.wall_ms + own_ms, LATEST_EXPIRY_MS)
        records.append(OffsetsCommitted(now.wall_ms, request.member_id, expires_at_ms, stored))
    reply = Reply(request.token, CommitOffsetsResponse(refused))
    return Decision(group, tuple(records), (reply,), deadlines)


def _committer(group: Group, request: CommitOffsets) -> Member | None:
    """Return the member that commits; None: a client without ids, while the group has no members.

    Raises:
        CoordinatorError: the member or its generation is another one, or the group has members and the client is none.
    """
    is_simple = request.generation < 0
    if not group.exists:
        if not is_simple:
            raise GroupIdNotFound("there is no such group")
        return None
    if group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    if is_simple and group.state is EMPTY:
        return None
    if is_simple and request.member_id == NO_MEMBER_ID and request.group_instance_id is None:
        raise UnknownMemberId("the group has members; only they may commit")
    member = check_member(group, request.member_id, request.group_instance_id)
    check_generation(group, request.generation)
    if group.state is COMPLETING:
        raise RebalanceInProgress("the group waits for its new assignment")
    return member


def _replaced(request: CommitOffsets, stored: Sequence[OffsetToCommit], now: Now) -> Iterator[OffsetRemoved]:
    """Yield the offsets that a reset replaces, for the archive."""
    partitions = {(offset.topic, offset.partition) for offset in stored}
    for offset in request.replaced:
        if (offset.topic, offset.partition) in partitions:
            yield OffsetRemoved(now.wall_ms, offset, "reset", request.change_id)


def _partition_errors(offsets: Sequence[OffsetToCommit], context: Context) -> Mapping[int, CoordinatorError]:
    """Return index → why a partition is not stored. Metadata is measured in UTF-16, as Java measures strings."""
    limit, known = context.settings.offset_metadata_max_bytes, context.topic_metadata
    half = limit // 2  # a character is at most two code units
    errors: dict[int, CoordinatorError] = {}
    for place, offset in enumerate(offsets):  # no comprehension: for a partition alone, its call takes longer
        metadata, topic = offset.metadata, offset.topic
        is_too_long = len(metadata) > half and _utf16_length(metadata) > limit
        if is_too_long or (topic in known and not context.has_partition(topic, offset.partition)):
            errors[place] = _partition_error(offset, context, limit)
    return errors


def _partition_error(offset: OffsetToCommit, context: Context, limit: int) -> CoordinatorError:
    if not context.has_partition(offset.topic, offset.partition):
        return UnknownTopicOrPartition(f"{offset.topic} has no partition {offset.partition}")
    return OffsetMetadataTooLarge(
        f"metadata has {_utf16_length(offset.metadata)} UTF-16 code units, and may have {limit}"
    )


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
