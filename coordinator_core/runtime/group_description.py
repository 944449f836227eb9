"""Describe a group from memory: its state, its ledger and its timers.

Source: protocol.md section 11, with D-5: assignments are shown while the group is Stable, ownership always.
"""

from collections.abc import Set as AbstractSet
from typing import Literal

from coordinator_core.protocol.consumer_protocol import CONSUMER, TopicPartitions, partitions_of
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.requests import Deadline, DeadlineKind
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.timers import GroupTimer
from coordinator_core.runtime.views import GroupView, MemberView
from coordinator_core.state_store.member_sessions import NEXT_HEARTBEAT


def describe_group(shard: Shard, group_id: str, context: Context, now: Now) -> GroupView | None:
    """Return a group of this shard, or None if there is no such group."""
    group_context = shard.groups.get(group_id)
    if group_context is None or not group_context.group.exists:
        return None
    group = group_context.group
    waiting_for = () if group_context.ledger.is_mirrored else tuple(group.waiting_for())
    awaited = frozenset(waiting_for)
    return GroupView(
        group_id=group_id,
        state=group.state,
        state_since_ms=group.state_since_ms,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name if group.state is STABLE else None,
        leader_id=group.leader_id,
        members=tuple(
            _member(shard, group_context, member, awaited, context, now) for member in group.members.values()
        ),
        pending_member_count=len(group.pending_member_ids),
        waiting_for=waiting_for,
        waiting_until_ms=_waiting_until_ms(shard, group, now),
        settings=context.settings,
    )


def _member(
    shard: Shard, group_context: GroupContext, member: Member, awaited: AbstractSet[str], context: Context, now: Now
) -> MemberView:
    group = group_context.group
    return MemberView(
        member=member,
        subscription=member.metadata_for(group.protocol_name) if group.state is STABLE else b"",
        last_heartbeat_at_ms=_last_heartbeat_ms(shard, group, member, context, now),
        parked_request=_awaiting(group, member.member_id),
        missing_request=_awaited(group) if member.member_id in awaited else None,
        owned=_owned(group_context, member),
    )


def _awaited(group: Group) -> Literal["join", "sync"]:
    return "join" if group.state is PREPARING else "sync"


def _owned(group_context: GroupContext, member: Member) -> tuple[TopicPartitions, ...] | None:
    """Return the partitions that the member owns by the ledger, which keeps them throughout a rebalance."""
    is_unread = member.assignment and partitions_of(member.assignment) is None
    if group_context.group.protocol_type != CONSUMER or is_unread:
        return None
    owned: dict[str, list[int]] = {}
    for each in group_context.ledger.ownership.get(member.member_id, ()):
        owned.setdefault(each.topic, []).extend(each.partitions)
    return tuple(TopicPartitions(topic, tuple(sorted(numbers))) for topic, numbers in sorted(owned.items()))


def _awaiting(group: Group, member_id: str) -> Literal["join", "sync"] | None:
    if member_id in group.parked_joins:
        return "join"
    return "sync" if member_id in group.parked_syncs else None


def _last_heartbeat_ms(shard: Shard, group: Group, member: Member, context: Context, now: Now) -> int | None:
    """Return when the member's session was last restarted: its deadline, less the timeout that it was set with."""
    timer = GroupTimer(group.group_id, Deadline(DeadlineKind.SESSION, member.member_id))
    due_ms = shard.timers.due_at_ms(timer)
    if due_ms is None or member.is_new:
        return None
    session = shard.groups[group.group_id].ledger.sessions.get(member.member_id)
    if session is None or session.gap_start_ms == NEXT_HEARTBEAT:
        session_ms = context.settings.effective_session_timeout_ms(member.session_timeout_ms)
    else:
        session_ms = session.session_timeout_ms
    return min(now.wall_ms, now.wall_ms - now.node_ms + due_ms - session_ms)


def _waiting_until_ms(shard: Shard, group: Group, now: Now) -> int | None:
    kinds = {PREPARING: DeadlineKind.JOIN, COMPLETING: DeadlineKind.SYNC}
    kind = kinds.get(group.state)
    if kind is None:
        return None
    due_ms = shard.timers.due_at_ms(GroupTimer(group.group_id, Deadline(kind)))
    return None if due_ms is None else now.wall_ms - now.node_ms + due_ms
