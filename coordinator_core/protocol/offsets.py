"""Deletion of committed offsets: by operators, with their group or topic, and by retention.

The group holds no offsets, so each request brings those in the store now; the driver reads them while it holds the
group (ARCHITECTURE.md "The path of a request"). Every removed offset is archived under the id of the change.

Source: protocol.md sections 10.3, 10.4 and 11.
"""

from coordinator_core.protocol.checks import check_group_exists, check_group_id
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
from coordinator_core.protocol.responses import (
    CandidateOutcome,
    DeleteOffsetsResponse,
    EmptyResponse,
    ExpireOffsetsResponse,
    PartitionResult,
)
from coordinator_core.protocol.retention import GroupFacts, OffsetFacts, is_expired, is_unused
from coordinator_core.protocol.states import DEAD, EMPTY

EXPIRED = "expired"
REMOVED = "removed"
KEPT_ALREADY_GONE = "already_gone"
KEPT_COMMITTED_SINCE = "committed_since"
KEPT_NOT_DUE = "not_due"
RETIRED = "retired"
KEPT_NOT_EMPTY = "not_empty"
KEPT_HAS_OFFSETS = "has_offsets"
KEPT_REACTIVATED = "woke_since"
KEPT_JOINING = "being_joined"


def decide_delete_offsets(draft: Draft, request: DeleteOffsets) -> None:
    """Delete offsets, except of topics that members subscribe to; a dry run only reports."""
    check_group_id(draft.group)
    _check_deletable(draft.group if request.is_dry_run else _create_if_offsets_exist(draft, request.stored), request)
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    results = []
    for topic, partition in request.partitions:
        error = _deletion_error(draft, topic, partition, is_stored=(topic, partition) in stored)
        found = stored.pop((topic, partition), None) if error is None else None
        if found is not None and not request.is_dry_run:
            remove_offset(draft, found, "deleted", request.change_id)
        results.append(PartitionResult(topic, partition, error))
    draft.reply(request.token, DeleteOffsetsResponse(tuple(results)))


def _check_deletable(group: Group, request: DeleteOffsets) -> None:
    """Refuse a group that does not exist or whose subscription is unknown; a dry run creates no group."""
    if not group.exists and request.stored:
        return
    check_group_exists(group)
    if group.state is not EMPTY and group.protocol_type != CONSUMER:
        raise NonEmptyGroup("the group has members, and what they read is not known")


def _deletion_error(draft: Draft, topic: str, partition: int, *, is_stored: bool) -> CoordinatorError | None:
    """Return why an offset is kept; a stored one can be deleted even if its partition is beyond the known count."""
    if not is_stored and not draft.context.has_partition(topic, partition):
        return UnknownTopicOrPartition(f"{topic} has no partition {partition}")
    if is_subscribed(draft.group, topic):
        return GroupSubscribedToTopic(f"a live group reads {topic}")
    return None


def _create_if_offsets_exist(draft: Draft, stored: tuple[StoredOffset, ...]) -> Group:
    """Return the group, created as a simple group if offsets exist without one.

    Source: protocol.md section 13.
    """
    if not draft.group.exists and stored:
        draft.emit(GroupCreated(draft.now.wall_ms))
    return draft.group


def is_subscribed(group: Group, topic: str) -> bool:
    """Return whether members subscribe to a topic; an unknown subscription counts as one to every topic."""
    if not group.exists or group.state is EMPTY:
        return False
    return group.protocol_type != CONSUMER or group.subscribed_topics is None or topic in group.subscribed_topics


def decide_delete_group(draft: Draft, request: DeleteGroup) -> None:
    """Delete an Empty group: it becomes Dead, and its offsets are archived."""
    check_group_exists(_create_if_offsets_exist(draft, request.stored))
    if draft.group.state is not EMPTY:
        raise NonEmptyGroup("the group has members")
    for offset in request.stored:
        remove_offset(draft, offset, "group_deleted", request.change_id)
    _mark_dead(draft, "deleted")
    draft.reply(request.token, EmptyResponse())


def decide_expire_offsets(draft: Draft, request: ExpireOffsets) -> None:
    """Expire the candidates that are due by the full rule as of now; report why the others are kept."""
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    outcomes = []
    for candidate in request.candidates:
        found = stored.get((candidate.topic, candidate.partition))
        outcome = _expiry_outcome(draft, candidate, found)
        if found is not None and outcome == EXPIRED:
            remove_offset(draft, found, "expired", request.change_id)
        outcomes.append(CandidateOutcome(candidate.topic, candidate.partition, outcome))
    draft.reply(request.token, ExpireOffsetsResponse(tuple(outcomes)))


def _expiry_outcome(draft: Draft, candidate: ExpiryCandidate, found: StoredOffset | None) -> str:
    if found is None:
        return KEPT_ALREADY_GONE
    if found.commit_version != candidate.commit_version:
        return KEPT_COMMITTED_SINCE
    facts = OffsetFacts(found.topic, found.committed_at_ms, found.expires_at_ms)
    reason = is_expired(retention_facts_of(draft.group), facts, draft.context.settings.retention_ms, draft.now.wall_ms)
    return KEPT_NOT_DUE if reason is None else EXPIRED


def retention_facts_of(group: Group) -> GroupFacts:
    """Return the group's inputs to the retention rule; offsets without a group belong to a simple group."""
    if not group.exists:
        return GroupFacts(EMPTY, None, None, frozenset())
    return GroupFacts(group.state, group.protocol_type, group.state_since_ms, group.subscribed_topics)


def decide_remove_topic_offsets(draft: Draft, request: RemoveTopicOffsets) -> None:
    """Remove the offsets of a deleted topic; unlike a deletion by an operator, subscriptions do not matter.

    Source: protocol.md section 10.4; Kafka's ``GroupCoordinatorService.onPartitionsDeleted``.
    """
    stored = {(offset.topic, offset.partition): offset for offset in request.stored}
    outcomes = []
    for candidate in request.candidates:
        found = stored.get((candidate.topic, candidate.partition))
        if found is None:
            outcome = KEPT_ALREADY_GONE
        elif found.commit_version != candidate.commit_version:
            outcome = KEPT_COMMITTED_SINCE
        else:
            remove_offset(draft, found, "topic_deleted", request.change_id)
            outcome = REMOVED
        outcomes.append(CandidateOutcome(candidate.topic, candidate.partition, outcome))
    draft.reply(request.token, ExpireOffsetsResponse(tuple(outcomes)))


def decide_retire(draft: Draft, request: RetireGroup) -> None:
    """Retire an Empty group without offsets, if it is unchanged since it was proposed."""
    outcome = _retirement_outcome(draft.group, request)
    if outcome == RETIRED:
        _mark_dead(draft, "retired: empty, and no offset left")
    draft.reply(request.token, ExpireOffsetsResponse((CandidateOutcome("", -1, outcome),)))


def _retirement_outcome(group: Group, request: RetireGroup) -> str:
    """Return the outcome for the group.

    When the group's last offset has expired, pending members do not block the retirement (RT-07, RT-11). They block a
    proposed one: a proposal does not see pending members, they are about to join, and the next proposal comes soon.
    """
    if not group.exists or group.state is DEAD:
        return KEPT_ALREADY_GONE
    if not is_unused(group.state, has_offsets=request.has_offsets):
        return KEPT_NOT_EMPTY if group.state is not EMPTY else KEPT_HAS_OFFSETS
    if request.seen is not None and request.seen != (group.generation, group.state_since_ms):
        return KEPT_REACTIVATED
    return KEPT_JOINING if request.seen is not None and group.pending_member_ids else RETIRED


def remove_offset(draft: Draft, offset: StoredOffset, cause: str, change_id: str) -> None:
    """Remove an offset into the archive."""
    draft.emit_offset(OffsetRemoved(draft.now.wall_ms, offset, cause, change_id))


def _mark_dead(draft: Draft, cause: str) -> None:
    for member_id in draft.group.pending_member_ids:
        draft.stop(DeadlineKind.PENDING_MEMBER, member_id)
    draft.emit(GroupDied(draft.now.wall_ms, cause))
