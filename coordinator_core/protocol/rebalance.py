"""The rebalance engine: how a join phase starts, is extended, and ends; how members are added and taken out.

A join phase from Empty is an *initial window* (it gathers newcomers and never ends early); any other is
*ordinary* (it ends as soon as everyone has joined, and at its limit). The steps here work on a `Draft`, and the
decisions in `join`, `sync`, `leave` and `expiry` are made of them.

Source: protocol.md section 9; Kafka's ``GroupCoordinator.prepareRebalance``, ``onCompleteJoin``, ``onExpireHeartbeat``.
"""

from collections import Counter
from dataclasses import replace

from coordinator_core.protocol.consumer_protocol import CONSUMER, topics_of
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import RebalanceInProgress, UnknownMemberId
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    GenerationStarted,
    GroupEmptied,
    JoinParked,
    MemberRemoved,
    PhaseRetimed,
    RebalanceStarted,
    Removal,
    Trigger,
    WindowExtended,
)
from coordinator_core.protocol.replies import Joined, JoinedMember
from coordinator_core.protocol.requests import DeadlineKind, Token
from coordinator_core.protocol.settings import Context
from coordinator_core.protocol.states import COMPLETING, EMPTY, MAY_REBALANCE, PREPARING, STABLE

LIMIT_AGAIN_MIN_MS = 1_000
"""The least that a limit is when silent static members are waited for once more; one of nothing would spin."""

# -- a join phase starts -------------------------------------------------------------------------------


def start_rebalance(draft: Draft, trigger: Trigger, member_id: str | None = None, reason: str | None = None) -> None:
    """Start a join phase, if the state allows one; it ends here and now where there is nobody to wait for."""
    if draft.group.state not in MAY_REBALANCE:
        return
    if draft.group.state is COMPLETING:
        _send_syncs_back(draft)
    draft.stop(DeadlineKind.SYNC)
    limit_ms = rebalance_limit_ms(draft.group, draft.context)
    timeout_ms = draft.context.settings.rebalance_timeout_ms
    started = RebalanceStarted(
        draft.now.wall_ms, draft.now.node_ms, trigger, member_id, reason, timeout_ms, window_ms=None
    )
    if draft.group.state is EMPTY:
        _open_initial_window(draft, started, limit_ms)
    else:
        draft.emit(started)
        draft.start(DeadlineKind.JOIN, limit_ms)
        if limit_ms == 0:
            end_join_phase(draft)
        else:
            end_join_phase_if_complete(draft)


def _send_syncs_back(draft: Draft) -> None:
    for member_id, token in draft.group.parked_syncs.items():
        draft.reply(token, RebalanceInProgress("the group is rebalancing"))
        restart_session(draft, member_id)


def _open_initial_window(draft: Draft, started: RebalanceStarted, limit_ms: int) -> None:
    window_ms = draft.context.settings.group_initial_rebalance_delay_ms
    draft.emit(replace(started, window_ms=window_ms, remaining_ms=max(limit_ms - window_ms, 0)))
    draft.start(DeadlineKind.JOIN, window_ms)
    if window_ms == 0:
        end_join_phase(draft)


def rebalance_limit_ms(group: Group, context: Context) -> int:
    """Return how long a phase may last: the largest timeout of present members, or what is put in force."""
    if not group.members:
        return 0
    if context.settings.rebalance_timeout_ms is not None:
        return context.settings.rebalance_timeout_ms
    return max(member.rebalance_timeout_ms for member in group.members.values())


# -- a join phase goes on, or ends -----------------------------------------------------------------------


def end_window(draft: Draft) -> None:
    """End an initial window: open another if newcomers came and there is time left, else end the phase."""
    group = draft.group
    if group.has_newcomers and group.remaining_ms > 0:
        next_ms = min(draft.context.settings.group_initial_rebalance_delay_ms, group.remaining_ms)
        draft.emit(WindowExtended(next_ms, group.remaining_ms - next_ms))
        draft.start(DeadlineKind.JOIN, next_ms)
    else:
        end_join_phase(draft)


def end_join_phase_if_complete(draft: Draft) -> None:
    """End an ordinary join phase early if everyone has joined; an initial window never ends early."""
    group = draft.group
    if group.state is PREPARING and group.window_ms is None and group.has_everyone_joined():
        end_join_phase(draft)


def end_join_phase(draft: Draft) -> None:
    """End a join phase: absent dynamic members go, and the rest are a new generation."""
    for member in [m for m in draft.group.members.values() if not m.is_static]:
        if member.member_id not in draft.group.parked_joins:
            remove_member(draft, member.member_id, Removal.REBALANCE_TIMEOUT)
    group = draft.group
    if not group.members:
        draft.emit(GroupEmptied(draft.now.wall_ms, group.generation + 1))
        draft.stop(DeadlineKind.JOIN)
    elif not group.parked_joins:
        _wait_for_silent_static_members(draft)
    else:
        _start_generation(draft)


def _wait_for_silent_static_members(draft: Draft) -> None:
    """Give the phase its whole limit again: nobody is there who could lead."""
    limit_ms = max(rebalance_limit_ms(draft.group, draft.context), LIMIT_AGAIN_MIN_MS)
    draft.emit(PhaseRetimed(draft.now.node_ms, draft.context.settings.rebalance_timeout_ms))
    draft.start(DeadlineKind.JOIN, limit_ms)


def _start_generation(draft: Draft) -> None:
    joins = dict(draft.group.parked_joins)
    protocol_name = choose_protocol(draft.group)
    draft.emit(
        GenerationStarted(
            at_ms=draft.now.wall_ms,
            node_ms=draft.now.node_ms,
            timeout_ms=draft.context.settings.rebalance_timeout_ms,
            generation=draft.group.generation + 1,
            protocol_name=protocol_name,
            leader_id=_elect_leader(draft.group),
            subscribed_topics=_subscribed_topics(draft.group, protocol_name),
            topics_version=draft.context.topics_version,
        )
    )
    draft.stop(DeadlineKind.JOIN)
    draft.start(DeadlineKind.SYNC, rebalance_limit_ms(draft.group, draft.context))
    for member_id in draft.group.members:
        restart_session(draft, member_id)
    for member_id, token in joins.items():
        draft.reply(token, joined(draft.group, draft.context, member_id), member_id)


def _elect_leader(group: Group) -> str:
    """Return the incumbent if it joined again, else the longest-standing member that did."""
    if group.leader_id in group.parked_joins:
        return group.leader_id
    return next(member_id for member_id in group.members if member_id in group.parked_joins)


def choose_protocol(group: Group) -> str:
    """Return the protocol with most votes among those that everyone offers; of equals, the first by name."""
    candidates = group.candidate_protocols()
    votes = Counter(member.vote(candidates) for member in group.members.values())
    return min(votes, key=lambda name: (-votes[name], name))


def _subscribed_topics(group: Group, protocol_name: str) -> frozenset[str] | None:
    """Return what members subscribe to together, or None where it is unknown."""
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        subscribed = topics_of(member.metadata_for(protocol_name))
        if subscribed is None:
            return None
        topics |= subscribed
    return frozenset(topics)


def joined(group: Group, context: Context, member_id: str) -> Joined:
    """Return what a member is told of the present generation; its leader sees everybody's metadata."""
    member = group.members[member_id]
    session_ms = context.settings.session_in_force_ms(member.session_timeout_ms)
    override_ms = context.settings.rebalance_timeout_ms
    return Joined(
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name or "",
        leader_id=group.leader_id or "",
        member_id=member_id,
        members=member_list(group) if member_id == group.leader_id else (),
        skip_assignment=False,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=context.settings.heartbeat_in_force_ms(session_ms),
        rebalance_timeout_ms=member.rebalance_timeout_ms if override_ms is None else override_ms,
    )


def member_list(group: Group) -> tuple[JoinedMember, ...]:
    """Return every member with its metadata for the chosen protocol, the longest-standing first."""
    return tuple(
        JoinedMember(member.member_id, member.group_instance_id, member.metadata_for(group.protocol_name))
        for member in group.members.values()
    )


# -- members come, wait and go ---------------------------------------------------------------------------


def park_join(draft: Draft, member_id: str, token: Token) -> None:
    """Let a join wait for the end of the phase; an earlier one of the same member is answered now."""
    overtaken = draft.group.parked_joins.get(member_id)
    if overtaken is not None:
        draft.reply(overtaken, RebalanceInProgress("a newer join of this member took its place"), member_id)
    draft.emit(JoinParked(draft.now.wall_ms, member_id, token))


def remove_member(draft: Draft, member_id: str, removal: Removal, reason: str | None = None) -> None:
    """Take a member out, and let whatever it has parked go. The caller decides what that means for the phase."""
    group = draft.group
    for token in (group.parked_joins.get(member_id), group.parked_syncs.get(member_id)):
        if token is not None:
            draft.reply(token, UnknownMemberId("the member was removed from the group"))
    draft.stop(DeadlineKind.MEMBER, member_id)
    draft.emit(MemberRemoved(draft.now.wall_ms, member_id, removal, reason))


def settle_after_removal(draft: Draft, trigger: Trigger, member_id: str, reason: str | None = None) -> None:
    """Go on without those who were removed: end the phase under way if it waited for them, or start one."""
    if draft.group.state is PREPARING:
        end_join_phase_if_complete(draft)
    elif draft.group.state in {STABLE, COMPLETING}:
        start_rebalance(draft, trigger, member_id, reason)


def restart_session(draft: Draft, member_id: str) -> None:
    """Give a member its whole session timeout from now."""
    member: Member = draft.group.members[member_id]
    session_ms = draft.context.settings.session_in_force_ms(member.session_timeout_ms)
    draft.start(DeadlineKind.MEMBER, session_ms, member_id)
