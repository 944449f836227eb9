"""The rebalance engine: starts, extends and ends join phases; parks and removes members.

A join phase from Empty runs for the *initial rebalance delay*, which gathers new members and never ends early. Any
other phase is *ordinary*: it ends as soon as every member has joined, and at its limit. The functions here work on a
`Draft`; the decisions in `join`, `sync`, `leave` and `expiry` are composed of them.

Source: protocol.md section 9; Kafka's ``GroupCoordinator.prepareRebalance``, ``onCompleteJoin``, ``onExpireHeartbeat``.
"""

from collections import Counter

from msgspec.structs import replace

from coordinator_core.protocol.consumer_protocol import CONSUMER, topics_of
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import RebalanceInProgress, UnknownMemberId
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    GenerationStarted,
    GroupEmptied,
    InitialDelayExtended,
    JoinParked,
    MemberRemoved,
    PhaseTimeoutReset,
    RebalanceStarted,
    RemovalReason,
    Trigger,
)
from coordinator_core.protocol.requests import DeadlineKind, Token
from coordinator_core.protocol.responses import JoinGroupResponse, JoinGroupResponseMember
from coordinator_core.protocol.settings import Context
from coordinator_core.protocol.states import COMPLETING, EMPTY, MAY_REBALANCE, PREPARING, STABLE

EXTENDED_TIMEOUT_MIN_MS = 1_000
"""The minimum limit of a repeated wait for absent static members; with 0 the phase would loop."""

# -- a join phase starts -------------------------------------------------------------------------------


def start_rebalance(draft: Draft, trigger: Trigger, member_id: str | None = None, reason: str | None = None) -> None:
    """Start a join phase, if the state allows one; it ends at once if no member has to be waited for."""
    if draft.group.state not in MAY_REBALANCE:
        return
    if draft.group.state is COMPLETING:
        _reject_parked_syncs(draft)
    draft.stop(DeadlineKind.SYNC)
    limit_ms = effective_rebalance_timeout_ms(draft.group, draft.context)
    timeout_ms = draft.context.settings.rebalance_timeout_ms
    started = RebalanceStarted(
        draft.now.wall_ms, draft.now.node_ms, trigger, member_id, reason, timeout_ms, initial_delay_ms=None
    )
    if draft.group.state is EMPTY:
        _start_initial_delay(draft, started, limit_ms)
    else:
        draft.emit(started)
        draft.start(DeadlineKind.JOIN, limit_ms)
        if limit_ms == 0:
            complete_join_phase(draft)
        else:
            maybe_complete_join_phase(draft)


def _reject_parked_syncs(draft: Draft) -> None:
    for member_id, token in draft.group.oldest_first(draft.group.parked_syncs):
        draft.reply(token, RebalanceInProgress("the group is rebalancing"))
        restart_session(draft, member_id)


def _start_initial_delay(draft: Draft, started: RebalanceStarted, limit_ms: int) -> None:
    initial_delay_ms = draft.context.settings.group_initial_rebalance_delay_ms
    draft.emit(
        replace(started, initial_delay_ms=initial_delay_ms, remaining_delay_ms=max(limit_ms - initial_delay_ms, 0))
    )
    draft.start(DeadlineKind.JOIN, initial_delay_ms)
    if initial_delay_ms == 0:
        complete_join_phase(draft)


def effective_rebalance_timeout_ms(group: Group, context: Context) -> int:
    """Return the limit of a phase: the setting, or else the largest timeout among present members."""
    if not group.members:
        return 0
    if context.settings.rebalance_timeout_ms is not None:
        return context.settings.rebalance_timeout_ms
    return max(member.rebalance_timeout_ms for member in group.members.values())


# -- a join phase goes on, or ends -----------------------------------------------------------------------


def end_initial_delay(draft: Draft) -> None:
    """Extend the initial rebalance delay if new members joined and time remains, else end the phase."""
    group = draft.group
    if group.has_new_members and group.remaining_delay_ms > 0:
        next_ms = min(draft.context.settings.group_initial_rebalance_delay_ms, group.remaining_delay_ms)
        draft.emit(InitialDelayExtended(next_ms, group.remaining_delay_ms - next_ms))
        draft.start(DeadlineKind.JOIN, next_ms)
    else:
        complete_join_phase(draft)


def maybe_complete_join_phase(draft: Draft) -> None:
    """End an ordinary join phase early if every member has joined; the initial rebalance delay never ends early."""
    group = draft.group
    if group.state is PREPARING and group.initial_delay_ms is None and group.has_all_members_joined():
        complete_join_phase(draft)


def complete_join_phase(draft: Draft) -> None:
    """End a join phase: absent dynamic members are removed, and the others form a new generation."""
    for member_id in draft.group.absent_members():
        if not draft.group.members[member_id].is_static:
            remove_member(draft, member_id, RemovalReason.REBALANCE_TIMEOUT)
    group = draft.group
    if not group.members:
        draft.emit(GroupEmptied(draft.now.wall_ms, group.next_generation))
        draft.stop(DeadlineKind.JOIN)
    elif not group.parked_joins:
        _extend_for_absent_static_members(draft)
    else:
        _start_generation(draft)


def _extend_for_absent_static_members(draft: Draft) -> None:
    """Restart the phase's limit, as no member is present that could lead."""
    limit_ms = max(effective_rebalance_timeout_ms(draft.group, draft.context), EXTENDED_TIMEOUT_MIN_MS)
    draft.emit(PhaseTimeoutReset(draft.now.node_ms, draft.context.settings.rebalance_timeout_ms))
    draft.start(DeadlineKind.JOIN, limit_ms)


def _start_generation(draft: Draft) -> None:
    joins = draft.group.oldest_first(draft.group.parked_joins)
    protocol_name = select_protocol(draft.group)
    draft.emit(
        GenerationStarted(
            at_ms=draft.now.wall_ms,
            node_ms=draft.now.node_ms,
            timeout_ms=draft.context.settings.rebalance_timeout_ms,
            generation=draft.group.next_generation,
            protocol_name=protocol_name,
            leader_id=_elect_leader(draft.group),
            subscribed_topics=_subscribed_topics(draft.group, protocol_name),
            topics_version=draft.context.topics_version,
        )
    )
    draft.stop(DeadlineKind.JOIN)
    draft.start(DeadlineKind.SYNC, effective_rebalance_timeout_ms(draft.group, draft.context))
    for member_id in draft.group.members:
        restart_session(draft, member_id)
    for member_id, token in joins:
        draft.reply(token, join_response(draft.group, draft.context, member_id), member_id)


def _elect_leader(group: Group) -> str:
    """Return the current leader if it rejoined, else the oldest member that did."""
    if group.leader_id is not None and group.leader_id in group.parked_joins:
        return group.leader_id
    return next(member_id for member_id in group.members if member_id in group.parked_joins)


def select_protocol(group: Group) -> str:
    """Return the protocol with most votes among those that every member supports; of equals, the first by name."""
    candidates = group.candidate_protocols()
    if len(candidates) == 1:
        return next(iter(candidates))
    votes = Counter(member.vote(candidates) for member in group.members.values())
    return min(votes, key=lambda name: (-votes[name], name))


def _subscribed_topics(group: Group, protocol_name: str) -> frozenset[str] | None:
    """Return the union of the members' subscriptions, or None if one is unknown."""
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for metadata in {member.metadata_for(protocol_name) for member in group.members.values()}:
        subscribed = topics_of(metadata)
        if subscribed is None:
            return None
        topics |= subscribed
    return frozenset(topics)


def join_response(group: Group, context: Context, member_id: str) -> JoinGroupResponse:
    """Return the join response for a member of the current generation; the leader's has all members' metadata."""
    member, settings, leader_id = group.members[member_id], context.settings, group.leader_id
    session_ms = settings.effective_session_timeout_ms(member.session_timeout_ms)
    override_ms = settings.rebalance_timeout_ms
    return JoinGroupResponse(
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name or "",
        leader_id=leader_id or "",
        member_id=member_id,
        members=member_list(group) if member_id == leader_id else (),
        skip_assignment=False,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=settings.effective_heartbeat_interval_ms(session_ms),
        rebalance_timeout_ms=member.rebalance_timeout_ms if override_ms is None else override_ms,
    )


def member_list(group: Group) -> tuple[JoinGroupResponseMember, ...]:
    """Return every member with its metadata for the chosen protocol, oldest first."""
    return tuple(
        JoinGroupResponseMember(member.member_id, member.group_instance_id, member.metadata_for(group.protocol_name))
        for member in group.members.values()
    )


# -- members come, wait and go ---------------------------------------------------------------------------


def park_join(draft: Draft, member_id: str, token: Token) -> None:
    """Park a join until the end of the phase; an earlier join of the same member is answered now."""
    superseded = draft.group.parked_joins.get(member_id)
    if superseded is not None:
        draft.reply(superseded, RebalanceInProgress("a newer join of this member took its place"), member_id)
    draft.emit(JoinParked(draft.now.wall_ms, member_id, token))


def remove_member(draft: Draft, member_id: str, removal_reason: RemovalReason, reason: str | None = None) -> None:
    """Remove a member and answer its parked requests. The caller decides how the phase goes on."""
    group = draft.group
    for token in (group.parked_joins.get(member_id), group.parked_syncs.get(member_id)):
        if token is not None:
            draft.reply(token, UnknownMemberId("the member was removed from the group"))
    draft.stop(DeadlineKind.SESSION, member_id)
    draft.emit(MemberRemoved(draft.now.wall_ms, member_id, removal_reason, reason))


def prepare_rebalance_or_complete_join(
    draft: Draft, trigger: Trigger, member_id: str, reason: str | None = None
) -> None:
    """Continue after removals: end the phase under way if it waited for the removed members, or start one."""
    if draft.group.state is PREPARING:
        maybe_complete_join_phase(draft)
    elif draft.group.state in {STABLE, COMPLETING}:
        start_rebalance(draft, trigger, member_id, reason)


def restart_session(draft: Draft, member_id: str) -> None:
    """Restart a member's session with its full timeout."""
    member: Member = draft.group.members[member_id]
    session_ms = draft.context.settings.effective_session_timeout_ms(member.session_timeout_ms)
    draft.start(DeadlineKind.SESSION, session_ms, member_id)
