"""JoinGroup: add a member, or rejoin one, for the next generation.

The checks come in Kafka's order (size before protocols). Then a request is one of four: a new dynamic member without
an id, a pending member with the id issued to it, a static member without its id, or a member that rejoins.

Source: protocol.md section 5; Kafka's ``GroupCoordinator.handleJoinGroup`` and below.
"""

from msgspec.structs import replace

from coordinator_core.protocol.checks import check_group_id, check_member
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    UnknownMemberId,
)
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.rebalance import (
    join_response,
    maybe_complete_join_phase,
    member_list,
    park_join,
    remove_member,
    restart_session,
    select_protocol,
    start_rebalance,
)
from coordinator_core.protocol.records import (
    GroupCreated,
    MemberJoined,
    MemberReplaced,
    MemberUpdated,
    PendingMemberAdded,
    PendingMemberRemoved,
    RemovalReason,
    Trigger,
)
from coordinator_core.protocol.requests import NO_MEMBER_ID, DeadlineKind, JoinGroup, metadata_bytes
from coordinator_core.protocol.responses import JoinGroupResponse
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.protocol.states import DEAD, EMPTY, PREPARING, STABLE


def decide_join(draft: Draft, request: JoinGroup) -> None:
    """Decide a join: park it, answer it, or refuse it."""
    check_group_id(draft.group)
    _check_session_timeout(request.session_timeout_ms, draft.context.settings)
    _check_metadata_size(draft.group, request, draft.context.settings)
    _create_group_if_missing(draft, request)
    if not _has_capacity(draft.group, request.member_id, draft.context.settings.group_max_size):
        _reject_over_max_size(draft, request)
        return
    if draft.group.state is DEAD:
        raise CoordinatorNotAvailable("the group has just been removed")
    _check_protocols(draft.group, request)
    if request.member_id != NO_MEMBER_ID:
        _join_with_id(draft, request)
    elif request.group_instance_id is not None:
        _join_static(draft, request)
    else:
        _join_new_member(draft, request)


# -- checks -----------------------------------------------------------------------------------------


def _check_session_timeout(requested_ms: int, settings: GroupSettings) -> None:
    low, high = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not low <= requested_ms <= high:
        raise InvalidSessionTimeout(f"session_timeout_ms is {requested_ms}, and must be from {low} to {high}")


def _check_metadata_size(group: Group, request: JoinGroup, settings: GroupSettings) -> None:
    """Limit the metadata of a member, and that of its group, all of which the leader's response holds.

    A member whose metadata does not grow passes, also after a limit was lowered.
    """
    size, limit = metadata_bytes(request.protocols), settings.member_metadata_max_bytes
    known = group.members.get(request.member_id or group.static_members.get(request.group_instance_id or "", ""))
    known_size = 0 if known is None else metadata_bytes(known.protocols)
    if size <= known_size:
        return
    if size > limit:
        raise InvalidRequest(
            f"the member's metadata has {size} bytes, and may have {limit} (member_metadata_max_bytes)"
        )
    total, limit = group.metadata_bytes - known_size + size, settings.group_metadata_max_bytes
    if total > limit:
        raise GroupMaxSizeReached(
            f"the metadata of the group's members would have {total} bytes, and may have {limit}"
            " (group_metadata_max_bytes)"
        )


def _create_group_if_missing(draft: Draft, request: JoinGroup) -> None:
    if draft.group.exists:
        return
    if request.member_id != NO_MEMBER_ID:
        raise UnknownMemberId("there is no such group")
    draft.emit(GroupCreated(draft.now.wall_ms))


def _has_capacity(group: Group, member_id: str, max_size: int) -> bool:
    """Return whether the size limit admits this member.

    Pending members do not count, and an Empty group always has capacity.
    """
    if group.state is PREPARING:
        return member_id in group.parked_joins or len(group.parked_joins) < max_size
    return member_id in group.members or len(group.members) < max_size


def _reject_over_max_size(draft: Draft, request: JoinGroup) -> None:
    """Refuse the join and remove its member or pending member: after a lower limit, the last to rejoin are removed."""
    limit = draft.context.settings.group_max_size
    draft.reply(request.token, GroupMaxSizeReached(f"the group is full at {limit} members"))
    member_id = request.member_id
    if member_id in draft.group.pending_member_ids:
        _remove_pending_member(draft, member_id)
    elif member_id in draft.group.members:
        remove_member(draft, member_id, RemovalReason.ADMIN, request.reason)
    maybe_complete_join_phase(draft)


def _check_protocols(group: Group, request: JoinGroup) -> None:
    if group.state is EMPTY:
        if not request.protocol_type or not request.protocols:
            raise InconsistentGroupProtocol("a protocol type and at least one protocol are needed")
        return
    if request.protocol_type != group.protocol_type:
        raise InconsistentGroupProtocol(f"the group's protocol type is {group.protocol_type!r}")
    member_count = len(group.members)
    if not any(group.supported_protocols.get(name, 0) == member_count for name, _ in request.protocols):
        raise InconsistentGroupProtocol("none of the protocols offered is supported by every member")


# -- new members --------------------------------------------------------------------------------------


def _join_new_member(draft: Draft, request: JoinGroup) -> None:
    """Issue a pending member id, or add the member at once if the client does not require one."""
    member_id = request.new_member_id
    if not request.require_known_member_id:
        _add_member(draft, request, member_id)
        return
    limit = draft.context.settings.group_max_pending_members
    if len(draft.group.pending_member_ids) >= limit:
        raise GroupMaxSizeReached(f"{limit} member ids wait for their first join (group_max_pending_members)")
    draft.emit(PendingMemberAdded(member_id))
    draft.start(DeadlineKind.PENDING_MEMBER, request.session_timeout_ms, member_id)
    draft.reply(request.token, MemberIdRequired(member_id), member_id)


def _join_static(draft: Draft, request: JoinGroup) -> None:
    known_id = draft.group.static_members.get(request.group_instance_id or "")
    if known_id is None:
        _add_member(draft, request, request.new_member_id)
    else:
        _replace_static(draft, request, known_id)


def _add_member(draft: Draft, request: JoinGroup, member_id: str) -> None:
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        joined_at_ms=draft.now.wall_ms,
    )
    draft.emit(MemberJoined(member, request.protocol_type))
    draft.start(DeadlineKind.SESSION, draft.context.settings.group_new_member_join_timeout_ms, member_id)
    park_join(draft, member_id, request.token)
    _rebalance_for(draft, Trigger.MEMBER_JOINED, member_id, request.reason)


def _rebalance_for(draft: Draft, trigger: Trigger, member_id: str, reason: str | None) -> None:
    """Start a join phase for a parked join, or end the one under way if no other member is missing."""
    if draft.group.state is PREPARING:
        maybe_complete_join_phase(draft)
    else:
        start_rebalance(draft, trigger, member_id, reason)


# -- members that rejoin ----------------------------------------------------------------------------------


def _join_with_id(draft: Draft, request: JoinGroup) -> None:
    if request.member_id in draft.group.pending_member_ids:
        if request.group_instance_id is not None:
            raise InvalidRequest("a pending member id cannot be used with an instance id")
        _remove_pending_member(draft, request.member_id)
        _add_member(draft, request, request.member_id)
        return
    member = check_member(draft.group, request.member_id, request.group_instance_id)
    is_changed = member.protocols != request.protocols
    is_leader = member.member_id == draft.group.leader_id
    if draft.group.state is PREPARING or is_changed:
        _update_and_rebalance(draft, request, Trigger.SUBSCRIPTION_CHANGED)
    elif draft.group.state is STABLE and is_leader:
        _update_and_rebalance(draft, request, Trigger.LEADER_REJOINED)
    else:
        # Nothing changed: the response was lost, so it is sent again.
        draft.reply(request.token, join_response(draft.group, draft.context, member.member_id), member.member_id)


def _update_and_rebalance(draft: Draft, request: JoinGroup, trigger: Trigger) -> None:
    draft.emit(
        MemberUpdated(request.member_id, request.session_timeout_ms, request.rebalance_timeout_ms, request.protocols)
    )
    park_join(draft, request.member_id, request.token)
    _rebalance_for(draft, trigger, request.member_id, request.reason)


def _remove_pending_member(draft: Draft, member_id: str) -> None:
    draft.emit(PendingMemberRemoved(member_id))
    draft.stop(DeadlineKind.PENDING_MEMBER, member_id)


# -- static members without a member id ------------------------------------------------------------------------


def _replace_static(draft: Draft, request: JoinGroup, old_id: str) -> None:
    """Give the instance a new member id in place of the old one. Source: protocol.md section 5.2."""
    group = draft.group
    old_leader_id = group.leader_id
    _fence(draft, old_id)
    member = replace(
        group.members[old_id],
        member_id=request.new_member_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        is_new=False,
    )
    draft.emit(MemberReplaced(draft.now.wall_ms, old_id, member))
    draft.stop(DeadlineKind.SESSION, old_id)
    restart_session(draft, member.member_id)
    if draft.group.state is STABLE and select_protocol(draft.group) == draft.group.protocol_name:
        draft.reply(request.token, _rejoin_response(draft, request, member, old_leader_id), member.member_id)
    else:
        park_join(draft, member.member_id, request.token)
        _rebalance_for(draft, Trigger.STATIC_MEMBER_REPLACED, member.member_id, request.reason)


def _fence(draft: Draft, old_id: str) -> None:
    for parked in (draft.group.parked_joins, draft.group.parked_syncs):
        token = parked.get(old_id)
        if token is not None:
            draft.reply(token, FencedInstanceId("another process has joined with this instance id"), old_id)


def _rejoin_response(draft: Draft, request: JoinGroup, member: Member, old_leader_id: str | None) -> JoinGroupResponse:
    """Return the current generation; a returning leader monitors partition counts but must not assign again."""
    answer = join_response(draft.group, draft.context, member.member_id)
    if not request.supports_skip_assignment:
        return replace(answer, leader_id=old_leader_id or "", members=())
    if member.member_id == draft.group.leader_id:
        return replace(answer, members=member_list(draft.group), skip_assignment=True)
    return answer
