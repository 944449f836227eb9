"""Offsets are taken away by an operator's word, with their group or topic, or by a run that is judged again.

The group holds no offsets, so each request brings what stands in the store now; the driver reads it while it
holds the group (ARCHITECTURE.md "Where a request goes"). Whatever goes, goes to the archive under one change.

Source: protocol.md sections 10.3, 10.4 and 11.
"""

from coordinator_core.protocol.checks import check_group_id, check_known
from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import (
    CoordinatorError,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    UnknownTopicOrPartition,
)
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import GroupCreated, GroupDied, OffsetRemoved
from coordinator_core.protocol.replies import (
    CandidateOutcome,
    Done,
    OffsetsDeleted,
    OffsetsExpired,
    PartitionResult,
)
from coordinator_core.protocol.requests import (
    DeadlineKind,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ExpiryCandidate,
    RemoveTopicOffsets,
    RetireGroup,
    StoredOffset,
)
from coordinator_core.protocol.retention import GroupFacts, OffsetFacts, is_expired, is_of_no_use
from coordinator_core.protocol.states import DEAD, EMPTY

EXPIRED = "expired"
REMOVED = "removed"
KEPT_GONE = "already_gone"
KEPT_COMMITTED_SINCE = "committed_since"
KEPT_NOT_DUE = "not_due"
RETIRED = "retired"
KEPT_NOT_EMPTY = "not_empty"
KEPT_HAS_OFFSETS = "has_offsets"
KEPT_WOKE = "woke_since"
KEPT_JOINING = "being_joined"


def decide_delete_offsets(draft: Draft, request: DeleteOffsets) -> None:
    """Take offsets away, but for topics that a live group reads; a dry run only tells."""
    check_group_id(draft.group)
    _check_deletable(draft.group if request.is_dry_run else _taken_up(draft, request.stored), request)
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    results = []
    for topic, partition in request.partitions:
        error = _deletion_refusal(draft, topic, partition, is_stored=(topic, partition) in stored)
        found = stored.pop((topic, partition), None) if error is None else None
        if found is not None and not request.is_dry_run:
            remove_offset(draft, found, "deleted", request.change_id)
        results.append(PartitionResult(topic, partition, error))
    draft.reply(request.token, OffsetsDeleted(tuple(results)))


def _check_deletable(group: Group, request: DeleteOffsets) -> None:
    """Refuse a group that is not there or of which nobody knows what it reads; a dry run takes no group up."""
    if not group.exists and request.stored:
        return
    check_known(group)
    if group.state is not EMPTY and group.protocol_type != CONSUMER:
        raise NonEmptyGroup("the group has members, and what they read is not known")


def _deletion_refusal(draft: Draft, topic: str, partition: int, *, is_stored: bool) -> CoordinatorError | None:
    """Return why an offset stays; what was committed before its topic was catalogued can be taken away."""
    if not is_stored and not draft.context.has_partition(topic, partition):
        return UnknownTopicOrPartition(f"{topic} has no partition {partition}")
    if is_read(draft.group, topic):
        return GroupSubscribedToTopic(f"a live group reads {topic}")
    return None


def _taken_up(draft: Draft, stored: tuple[StoredOffset, ...]) -> Group:
    """Return the group; offsets that stand there without one are a simple group's, which is taken up here.

    Source: protocol.md section 13.
    """
    if not draft.group.exists and stored:
        draft.emit(GroupCreated(draft.now.wall_ms))
    return draft.group


def is_read(group: Group, topic: str) -> bool:
    """Tell whether members read a topic, or may; an unknown subscription counts as one to everything."""
    if not group.exists or group.state is EMPTY:
        return False
    return group.protocol_type != CONSUMER or group.subscribed_topics is None or topic in group.subscribed_topics


def decide_delete_group(draft: Draft, request: DeleteGroup) -> None:
    """Take an empty group to Dead, its offsets to the archive."""
    check_known(_taken_up(draft, request.stored))
    if draft.group.state is not EMPTY:
        raise NonEmptyGroup("the group has members")
    for offset in request.stored:
        remove_offset(draft, offset, "group_deleted", request.change_id)
    _die(draft, "deleted")
    draft.reply(request.token, Done())


def decide_expire_offsets(draft: Draft, request: ExpireOffsets) -> None:
    """Expire the candidates that are due by the whole rule as things stand now; say why the rest is kept."""
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    outcomes = []
    for candidate in request.candidates:
        found = stored.get((candidate.topic, candidate.partition))
        outcome = _judge(draft, candidate, found)
        if found is not None and outcome == EXPIRED:
            remove_offset(draft, found, "expired", request.change_id)
        outcomes.append(CandidateOutcome(candidate.topic, candidate.partition, outcome))
    draft.reply(request.token, OffsetsExpired(tuple(outcomes)))


def _judge(draft: Draft, candidate: ExpiryCandidate, found: StoredOffset | None) -> str:
    if found is None:
        return KEPT_GONE
    if found.commit_version != candidate.commit_version:
        return KEPT_COMMITTED_SINCE
    facts = OffsetFacts(found.topic, found.committed_at_ms, found.expires_at_ms)
    reason = is_expired(facts_of(draft.group), facts, draft.context.settings.retention_ms, draft.now.wall_ms)
    return KEPT_NOT_DUE if reason is None else EXPIRED


def facts_of(group: Group) -> GroupFacts:
    """Return what the retention rule asks about a group; offsets without a group are a simple group's."""
    if not group.exists:
        return GroupFacts(EMPTY, None, None, frozenset())
    return GroupFacts(group.state, group.protocol_type, group.state_since_ms, group.subscribed_topics)


def decide_remove_topic_offsets(draft: Draft, request: RemoveTopicOffsets) -> None:
    """Take away what a deleted topic left; unlike an operator's deletion, it does not ask who reads the topic.

    Source: protocol.md section 10.4; Kafka's ``GroupCoordinatorService.onPartitionsDeleted``.
    """
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    outcomes = []
    for candidate in request.candidates:
        found = stored.get((candidate.topic, candidate.partition))
        if found is None:
            outcome = KEPT_GONE
        elif found.commit_version != candidate.commit_version:
            outcome = KEPT_COMMITTED_SINCE
        else:
            remove_offset(draft, found, "topic_deleted", request.change_id)
            outcome = REMOVED
        outcomes.append(CandidateOutcome(candidate.topic, candidate.partition, outcome))
    draft.reply(request.token, OffsetsExpired(tuple(outcomes)))


def decide_retire(draft: Draft, request: RetireGroup) -> None:
    """Take an Empty group to Dead if no offset of it is left, and if it is still the one that was proposed."""
    outcome = _judge_retirement(draft.group, request)
    if outcome == RETIRED:
        _die(draft, "retired: empty, and no offset left")
    draft.reply(request.token, OffsetsExpired((CandidateOutcome("", -1, outcome),)))


def _judge_retirement(group: Group, request: RetireGroup) -> str:
    """Return what becomes of the group.

    When its last offset has expired, handshake ids do not hold it up (RT-07, RT-11). A proposal is a look from
    outside, which does not see them: whoever holds one is about to join, and the next proposal comes soon.
    """
    if not group.exists or group.state is DEAD:
        return KEPT_GONE
    if not is_of_no_use(group.state, has_offsets=request.has_offsets):
        return KEPT_NOT_EMPTY if group.state is not EMPTY else KEPT_HAS_OFFSETS
    if request.seen is not None and request.seen != (group.generation, group.state_since_ms):
        return KEPT_WOKE
    return KEPT_JOINING if request.seen is not None and group.pending_member_ids else RETIRED


def remove_offset(draft: Draft, offset: StoredOffset, cause: str, change_id: str) -> None:
    """Let an offset go to the archive."""
    draft.emit_offset(OffsetRemoved(draft.now.wall_ms, offset, cause, change_id))


def _die(draft: Draft, cause: str) -> None:
    for member_id in draft.group.pending_member_ids:
        draft.stop(DeadlineKind.HANDSHAKE, member_id)
    draft.emit(GroupDied(draft.now.wall_ms, cause))
