"""SyncGroup: the leader brings the assignment, and each member receives its own part.

Source: protocol.md section 6; Kafka's ``GroupCoordinator.doSyncGroup``.
"""

from coordinator_core.protocol.checks import check_alive, check_generation, check_group_id, check_member
from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.errors import (
    InconsistentGroupProtocol,
    InvalidRequest,
    RebalanceInProgress,
    UnknownMemberId,
)
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.rebalance import restart_session
from coordinator_core.protocol.records import AssignmentAccepted, SyncParked, SyncReceived
from coordinator_core.protocol.reevaluate import rebalance_if_topics_changed
from coordinator_core.protocol.requests import DeadlineKind, SyncGroup
from coordinator_core.protocol.responses import SyncGroupResponse
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.protocol.states import GroupState


def decide_sync(draft: Draft, request: SyncGroup) -> None:
    """Decide a sync: park a follower's until the leader's arrives; answer at once in Stable."""
    group = draft.group
    check_group_id(group)
    check_alive(group)
    check_member(group, request.member_id, request.group_instance_id)
    check_generation(group, request.generation)
    _check_protocol(group, request)
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress("the group is rebalancing; an assignment sent now is void")
        case GroupState.COMPLETING_REBALANCE:
            _sync_completing(draft, request)
        case GroupState.STABLE:
            _answer(draft, request.member_id, request.token)
            _record_sync(draft, request.member_id)
        case _:
            raise UnknownMemberId("the group has no members")


def _check_protocol(group: Group, request: SyncGroup) -> None:
    """Compare the named protocol with the group's; a group without one is left to the state check."""
    if request.protocol_type is not None and group.protocol_type not in {None, request.protocol_type}:
        raise InconsistentGroupProtocol(f"the group's protocol type is {group.protocol_type!r}")
    if request.protocol_name is not None and group.protocol_name not in {None, request.protocol_name}:
        raise InconsistentGroupProtocol(f"the group's protocol is {group.protocol_name!r}")


def _check_assignment_sizes(request: SyncGroup, settings: GroupSettings) -> None:
    limit = settings.member_assignment_max_bytes
    for member_id, assignment in request.assignments:
        if len(assignment) > limit:
            raise InvalidRequest(
                f"the assignment of {member_id} has {len(assignment)} bytes, and may have {limit}"
                " (member_assignment_max_bytes)"
            )


def _sync_completing(draft: Draft, request: SyncGroup) -> None:
    if request.member_id == draft.group.leader_id:
        _accept_assignment(draft, request)
    else:
        _park(draft, request)


def _park(draft: Draft, request: SyncGroup) -> None:
    superseded = draft.group.parked_syncs.get(request.member_id)
    if superseded is not None:
        draft.reply(superseded, RebalanceInProgress("a newer sync of this member took its place"))
    draft.emit(SyncParked(draft.now.wall_ms, request.member_id, request.token))
    _stop_sync_timeout_if_complete(draft)


def _accept_assignment(draft: Draft, request: SyncGroup) -> None:
    """Accept the leader's assignment: members that it does not name own nothing; ids of non-members are dropped."""
    _check_assignment_sizes(request, draft.context.settings)
    given = dict(request.assignments)
    members = draft.group.members
    waiting = draft.group.oldest_first(draft.group.parked_syncs.insert(request.member_id, request.token))
    superseded = draft.group.parked_syncs.get(request.member_id)
    if superseded is not None:
        draft.reply(superseded, RebalanceInProgress("a newer sync of this member took its place"))
    draft.emit(
        AssignmentAccepted(
            draft.now.wall_ms,
            draft.group.generation,
            tuple((member_id, given.get(member_id, b"")) for member_id in members),
            omitted_members=tuple(member_id for member_id in members if member_id not in given),
        )
    )
    _record_sync(draft, request.member_id)
    for member_id, token in waiting:
        _answer(draft, member_id, token)
    rebalance_if_topics_changed(draft)


def _answer(draft: Draft, member_id: str, token: int) -> None:
    group = draft.group
    assignment = group.members[member_id].assignment
    draft.reply(token, SyncGroupResponse(group.protocol_type or "", group.protocol_name or "", assignment))
    restart_session(draft, member_id)


def _record_sync(draft: Draft, member_id: str) -> None:
    if member_id in draft.group.pending_syncs:
        draft.emit(SyncReceived(draft.now.wall_ms, member_id))
        _stop_sync_timeout_if_complete(draft)


def _stop_sync_timeout_if_complete(draft: Draft) -> None:
    if not draft.group.pending_syncs:
        draft.stop(DeadlineKind.SYNC)
