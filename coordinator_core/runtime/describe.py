"""Describing a group: what its coordinator has in memory, from the group, its ledger and its timers.

Source: protocol.md section 11, with D-5: assignments are shown while the group is Stable. Ownership is always known.
"""

from collections.abc import Set as AbstractSet
from typing import Literal

from coordinator_core.protocol.consumer_protocol import CONSUMER, TopicPartitions, partitions_of
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.requests import Deadline, DeadlineKind
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE
from coordinator_core.runtime.hosting import Hosted
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.timers import Armed
from coordinator_core.runtime.views import GroupView, MemberView
from coordinator_core.store.stays import NOT_HEARD


def describe_group(shard: Shard, group_id: str, context: Context, now: Now) -> GroupView | None:
    """Return a group of this shard, or None if there is no such group."""
    hosted = shard.groups.get(group_id)
    if hosted is None or not hosted.group.exists:
        return None
    group = hosted.group
    waiting_for = tuple(group.waiting_for())
    awaited = frozenset(waiting_for)
    return GroupView(
        group_id=group_id,
        state=group.state,
        state_since_ms=group.state_since_ms,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name if group.state is STABLE else None,
        leader_id=group.leader_id,
        members=tuple(_member(shard, hosted, member, awaited, context, now) for member in group.members.values()),
        pending_member_count=len(group.pending_member_ids),
        waiting_for=waiting_for,
        waiting_until_ms=_waiting_until_ms(shard, group, now),
        settings=context.settings,
    )


def _member(
    shard: Shard, hosted: Hosted, member: Member, awaited: AbstractSet[str], context: Context, now: Now
) -> MemberView:
    group = hosted.group
    return MemberView(
        member=member,
        subscription=member.metadata_for(group.protocol_name) if group.state is STABLE else b"",
        last_heartbeat_at_ms=_last_sign_of_life_ms(shard, group, member, context, now),
        awaiting=_awaiting(group, member.member_id),
        awaited=_awaited(group) if member.member_id in awaited else None,
        owned=_owned(hosted, member),
    )


def _awaited(group: Group) -> Literal["join", "sync"]:
    return "join" if group.state is PREPARING else "sync"


def _owned(hosted: Hosted, member: Member) -> tuple[TopicPartitions, ...] | None:
    """Return what the member owns by the ledger, which knows it throughout a rebalance."""
    is_unread = member.assignment and partitions_of(member.assignment) is None
    if hosted.group.protocol_type != CONSUMER or is_unread:
        return None
    owned: dict[str, list[int]] = {}
    for span in hosted.ledger.held.get(member.member_id, ()):
        owned.setdefault(span.topic, []).extend(span.partitions)
    return tuple(TopicPartitions(topic, tuple(sorted(numbers))) for topic, numbers in sorted(owned.items()))


def _awaiting(group: Group, member_id: str) -> Literal["join", "sync"] | None:
    if member_id in group.parked_joins:
        return "join"
    return "sync" if member_id in group.parked_syncs else None


def _last_sign_of_life_ms(shard: Shard, group: Group, member: Member, context: Context, now: Now) -> int | None:
    """Return when the member's session last began anew: its deadline, less the timeout under which that was set."""
    armed = Armed(group.group_id, Deadline(DeadlineKind.MEMBER, member.member_id))
    due_ms = shard.timers.due_at_ms(armed)
    if due_ms is None or member.is_new:
        return None
    stay = shard.groups[group.group_id].ledger.stays.get(member.member_id)
    if stay is None or stay.gap_began_ms == NOT_HEARD:
        session_ms = context.settings.session_in_force_ms(member.session_timeout_ms)
    else:
        session_ms = stay.session_timeout_ms
    return min(now.wall_ms, now.wall_ms - now.node_ms + due_ms - session_ms)


def _waiting_until_ms(shard: Shard, group: Group, now: Now) -> int | None:
    kinds = {PREPARING: DeadlineKind.JOIN, COMPLETING: DeadlineKind.SYNC}
    kind = kinds.get(group.state)
    if kind is None:
        return None
    due_ms = shard.timers.due_at_ms(Armed(group.group_id, Deadline(kind)))
    return None if due_ms is None else now.wall_ms - now.node_ms + due_ms
