"""Inference: what happened to a mirrored group, from what its log says now and what was known of it.

Rules:

* What is known already has no records, so the log may be read again from any earlier position.
* A generation of the classic protocol is written when its assignment is accepted. The end of its join phase is in it;
  its start is not: the rebalance starts when a poll has seen it first, and with that end if none has. That of a group
  of the consumer protocol has its start, when the epoch was raised.
* A polled rebalance has no trigger until its generation is known. One that led to none was abandoned: the
  coordinator of the group moved to another broker.
* The trigger is inferred: from a static member that was replaced, then from members that are gone, new members,
  subscriptions that changed, and partitions that were added. Otherwise the leader has rejoined; a group of the consumer
  protocol has none, and its topics have changed.
* Whether a member that is gone left or expired is not in the log.

Pure: no clock, no I/O. Source: docs/mirror.md "What is inferred".
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from coordinator_core.protocol.consumer_protocol import CONSUMER, partitions_of, topics_of
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    GroupFound,
    MemberJoined,
    MemberMoved,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    RebalanceStarted,
    RemovalReason,
    StateObserved,
    Trigger,
    TriggerInferred,
)
from coordinator_core.protocol.requests import SupportedProtocol
from coordinator_core.protocol.states import COMPLETING, EMPTY, PREPARING, STABLE, GroupState
from mirror.observed import ObservedGroup, ObservedMember

REBALANCING: Final = frozenset({PREPARING, COMPLETING})
"""The states that a poll shows; the log has the others."""
DELETED_UPSTREAM: Final = "deleted or expired in the mirrored cluster"
"""The cause of a mirrored group's end."""
_GONE: Final = RemovalReason.LEFT_OR_EXPIRED


class _Cause(NamedTuple):
    trigger: Trigger
    member_id: str | None
    """The member that it is about, if it is about one."""


def infer(draft: Draft, seen: ObservedGroup, appended_ms: int) -> None:
    """Record what happened to a group until its log says this.

    Args:
        draft: the group as known, the current time, and the topic metadata.
        seen: what the log says.
        appended_ms: wall time of the broker when it was written.
    """
    if not draft.group.exists:
        draft.emit(GroupCreated(_started_ms(seen, _joined_ms(seen, appended_ms))))
    for member in moved_members(draft.group, seen):
        draft.emit(MemberMoved(member.member_id, member.client_id, member.client_host))
    if not seen.members:
        _empty(draft, seen, appended_ms)
    elif not is_known(draft.group, seen):
        replaced = _replacement(draft.group, seen, appended_ms)
        if replaced is not None:
            draft.emit(replaced)
        else:
            _rebalance(draft, seen, appended_ms)


def find(draft: Draft, seen: ObservedGroup, appended_ms: int) -> None:
    """Record a group that the log has from before it was read."""
    since_ms = _joined_ms(seen, appended_ms)
    members = tuple(
        replace(_member(member, seen, since_ms), is_new=False, in_generation=True) for member in seen.members
    )
    draft.emit(
        GroupFound(
            at_ms=since_ms,
            generation=seen.generation,
            protocol_type=seen.protocol_type or None,
            protocol_name=seen.protocol_name,
            leader_id=seen.leader_id,
            subscribed_topics=_subscribed_topics(seen),
            topics_version=draft.context.topics_version,
            members=members,
        )
    )


def enter(draft: Draft, state: GroupState | None, at_ms: int) -> None:
    """Record the state in which a poll saw a group, as far as it was not known.

    Args:
        draft: the group as known.
        state: PreparingRebalance or CompletingRebalance; None: neither.
        at_ms: wall time of this node.
    """
    known = draft.group.state
    at_ms = max(at_ms, draft.group.state_since_ms)
    if state is known or (state is None and known not in REBALANCING):
        return
    if state is None:
        draft.emit(StateObserved(at_ms, draft.group.state_before_join_phase))
        return
    if known not in REBALANCING or state is PREPARING:
        _begin(draft, _Cause(Trigger.UNKNOWN, None), at_ms, is_inferred=False)
    if state is COMPLETING:
        draft.emit(StateObserved(at_ms, COMPLETING))


def create_simple(draft: Draft, at_ms: int) -> None:
    """Record a group that the log knows by its commits only."""
    if not draft.group.exists:
        draft.emit(GroupCreated(at_ms))


def end(draft: Draft, deleted_ms: int) -> None:
    """Record the end of a group that was deleted or has expired; its offsets have been removed before."""
    if draft.group.exists:
        if draft.group.state is not EMPTY:
            _leave_without_members(draft, draft.group.generation, deleted_ms, deleted_ms, is_inferred=True)
        draft.emit(GroupDied(deleted_ms, DELETED_UPSTREAM))


# -- what is known ---------------------------------------------------------------------------------------------


def is_known(group: Group, seen: ObservedGroup) -> bool:
    """Return whether the group is in this generation already, with these members and this assignment.

    A group that was polled in a rebalance is in the generation before it. What else differs, as after a change of the
    group's protocol, is known with the next generation.
    """
    if not seen.members:
        return group.exists and not group.members and group.generation == seen.generation
    if group.generation != seen.generation:
        return False
    known = {member.member_id: _owned(member.assignment) for member in group.members.values()}
    return known == {member.member_id: _owned(member.assignment) for member in seen.members}


def moved_members(group: Group, seen: ObservedGroup) -> list[ObservedMember]:
    """Return the members that are known with another client id or host."""
    return [
        member
        for member in seen.members
        if (known := group.members.get(member.member_id)) is not None
        and (known.client_id, known.client_host) != (member.client_id, member.client_host)
    ]


def _owned(assignment: bytes) -> object:
    """Return the partitions of an assignment in any order; the assignment itself if it cannot be decoded."""
    partitions = partitions_of(assignment)
    if partitions is None:
        return assignment
    return {(topic, number) for topic, numbers in partitions for number in numbers}


def _member(seen: ObservedMember, group: ObservedGroup, joined_ms: int) -> Member:
    return Member(
        member_id=seen.member_id,
        group_instance_id=seen.group_instance_id,
        client_id=seen.client_id,
        client_host=seen.client_host,
        session_timeout_ms=seen.session_timeout_ms,
        rebalance_timeout_ms=seen.rebalance_timeout_ms,
        protocols=_protocols(seen, group),
        joined_at_ms=joined_ms,
        assignment=seen.assignment,
    )


def _protocols(seen: ObservedMember, group: ObservedGroup) -> tuple[SupportedProtocol, ...]:
    return (SupportedProtocol(group.protocol_name or "", seen.subscription),)


def _joined_ms(seen: ObservedGroup, appended_ms: int) -> int:
    """Return the end of the join phase, which is never later than what was written after it."""
    return appended_ms if seen.state_since_ms is None else min(seen.state_since_ms, appended_ms)


def _started_ms(seen: ObservedGroup, joined_ms: int) -> int:
    """Return the start of the rebalance, which is the end of its join phase if it is not known."""
    return joined_ms if seen.started_ms is None else min(seen.started_ms, joined_ms)


# -- rebalances ------------------------------------------------------------------------------------------------


def _replacement(group: Group, seen: ObservedGroup, appended_ms: int) -> MemberReplaced | None:
    """Return the static member that has rejoined under a new id without a rebalance, as far as it is only one."""
    if group.state is not STABLE or group.generation != seen.generation or len(group.members) != len(seen.members):
        return None
    new = [member for member in seen.members if member.member_id not in group.members]
    if len(new) != 1 or new[0].group_instance_id is None:
        return None
    old_id = group.static_members.get(new[0].group_instance_id)
    if old_id is None or group.members[old_id].assignment != new[0].assignment:
        return None
    member = replace(_member(new[0], seen, appended_ms), is_new=False, in_generation=True)
    return MemberReplaced(appended_ms, old_id, member)


def _rebalance(draft: Draft, seen: ObservedGroup, appended_ms: int) -> None:
    """Rebalance from what is known to the observed generation."""
    joined_ms = _joined_ms(seen, appended_ms)
    departed = _departed(draft.group, seen)
    _start(draft, _cause(draft, seen), departed, _started_ms(seen, joined_ms), is_inferred=seen.started_ms is None)
    for member in seen.members:
        known = draft.group.members.get(member.member_id)
        if known is None:
            draft.emit(MemberJoined(replace(_member(member, seen, joined_ms), assignment=b""), seen.protocol_type))
        else:
            updated = (member.session_timeout_ms, member.rebalance_timeout_ms, _protocols(member, seen))
            if updated != (known.session_timeout_ms, known.rebalance_timeout_ms, known.protocols):
                draft.emit(MemberUpdated(member.member_id, *updated))
    draft.emit(
        GenerationStarted(
            at_ms=joined_ms,
            node_ms=draft.now.node_ms,
            timeout_ms=None,
            generation=seen.generation,
            protocol_name=seen.protocol_name or "",
            leader_id=seen.leader_id,
            subscribed_topics=_subscribed_topics(seen),
            topics_version=draft.context.topics_version,
        )
    )
    assignments = tuple((member.member_id, member.assignment) for member in seen.members)
    draft.emit(AssignmentAccepted(max(appended_ms, joined_ms), seen.generation, assignments))


def _empty(draft: Draft, seen: ObservedGroup, appended_ms: int) -> None:
    """Leave the group without members, in the observed generation."""
    emptied_ms = _joined_ms(seen, appended_ms)
    if not is_known(draft.group, seen):
        started_ms = _started_ms(seen, emptied_ms)
        _leave_without_members(draft, seen.generation, started_ms, emptied_ms, is_inferred=seen.started_ms is None)


def _leave_without_members(
    draft: Draft, generation: int, started_ms: int, emptied_ms: int, *, is_inferred: bool
) -> None:
    departed = list(draft.group.members)
    # A generation without members that nothing was known of: a member joined, and was gone before it was assigned.
    cause = _Cause(_GONE.trigger, departed[0]) if departed else _Cause(Trigger.MEMBER_JOINED, None)
    _start(draft, cause, departed, started_ms, is_inferred=is_inferred)
    if draft.group.state is COMPLETING:
        draft.emit(StateObserved(emptied_ms, PREPARING))
    draft.emit(GroupEmptied(emptied_ms, generation))


def _start(draft: Draft, cause: _Cause, departed: Iterable[str], at_ms: int, *, is_inferred: bool) -> None:
    """Start the rebalance, unless a poll has seen its start, after the members that are gone."""
    for member_id in departed:
        draft.emit(MemberRemoved(at_ms, member_id, _GONE))
    if draft.group.state in REBALANCING:
        draft.emit(TriggerInferred(at_ms, cause.trigger, cause.member_id))
    else:
        _begin(draft, cause, at_ms, is_inferred=is_inferred)


def _begin(draft: Draft, cause: _Cause, at_ms: int, *, is_inferred: bool) -> None:
    draft.emit(
        RebalanceStarted(
            at_ms=at_ms,
            node_ms=draft.now.node_ms,
            trigger=cause.trigger,
            member_id=cause.member_id,
            client_reason=None,
            timeout_ms=None,
            initial_delay_ms=None,
            is_start_inferred=is_inferred,
        )
    )


def _departed(group: Group, seen: ObservedGroup) -> list[str]:
    present = {member.member_id for member in seen.members}
    return [member_id for member_id in group.members if member_id not in present]


def _cause(draft: Draft, seen: ObservedGroup) -> _Cause:
    """Return why the group has rebalanced, as far as its members show it."""
    group = draft.group
    departed = _departed(group, seen)
    new = [member for member in seen.members if member.member_id not in group.members]
    replaced = next((member for member in new if member.group_instance_id in group.static_members), None)
    if replaced is not None:
        return _Cause(Trigger.STATIC_MEMBER_REPLACED, replaced.member_id)
    if departed:
        return _Cause(_GONE.trigger, departed[0])
    if new:
        return _Cause(Trigger.MEMBER_JOINED, new[0].member_id)
    changed = next((member for member in seen.members if _has_new_subscription(group, member)), None)
    if changed is not None:
        return _Cause(Trigger.SUBSCRIPTION_CHANGED, changed.member_id)
    if _has_new_partitions(draft) or (seen.leader_id is None and not seen.is_polled):
        return _Cause(Trigger.PARTITIONS_CHANGED, None)
    if seen.leader_id is None:
        return _Cause(Trigger.UNKNOWN, None)
    return _Cause(Trigger.LEADER_REJOINED, seen.leader_id)


def _has_new_subscription(group: Group, member: ObservedMember) -> bool:
    """Return whether a member's topics have changed; the other contents of a subscription change by themselves."""
    before = group.members[member.member_id].metadata_for(group.protocol_name)
    if group.protocol_type != CONSUMER:
        return before != member.subscription
    return topics_of(before) != topics_of(member.subscription)


def _has_new_partitions(draft: Draft) -> bool:
    """Return whether a topic of the group has got partitions since its last generation."""
    metadata = draft.context.topic_metadata
    known = (metadata.get(topic) for topic in draft.group.subscribed_topics or ())
    return any(topic is not None and topic.version > draft.group.topics_version for topic in known)


def _subscribed_topics(seen: ObservedGroup) -> frozenset[str] | None:
    if seen.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in seen.members:
        of_member = topics_of(member.subscription)
        if of_member is None:
            return None
        topics |= of_member
    return frozenset(topics)
