"""Endpoints of the group membership protocol: join, sync, heartbeat, leave.

Source: http-api.md "Member lifecycle".
"""

from collections.abc import Coroutine
from functools import partial
from typing import Annotated, Any, Final

from litestar import post
from litestar.params import JSONBody
from msgspec import Meta, Struct

from api.http.consumer_json import (
    AssignmentJson,
    SubscriptionJson,
    assignment_bytes,
    assignment_json,
    subscription_bytes,
    subscription_json,
)
from api.http.fast_path import LONG_POLL, REQUEST, SUBMITTED, Submitted
from api.http.fields import (
    ClientId,
    Generation,
    GroupId,
    InstanceId,
    MemberId,
    ProtocolName,
    Reason,
    RebalanceTimeoutMs,
    SessionTimeoutMs,
    WaitMs,
)
from api.http.request_context import CurrentRequest, RequestContext, limit_wait
from api.shared.errors import NO_ERROR
from api.shared.limits import LEAVING_MEMBERS_MAX, PROTOCOLS_MAX
from api.shared.member_ids import new_member_id
from api.shared.turns import convert_all
from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.requests import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    SupportedProtocol,
    SyncGroup,
)
from coordinator_core.protocol.responses import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    SyncGroupResponse,
)

TAGS: Final = ["Agents: membership"]

# -- join -------------------------------------------------------------------------------------------


class ProtocolBody(Struct, forbid_unknown_fields=True):
    """A protocol (assignor) that the member supports, with its metadata."""

    name: ProtocolName
    metadata: SubscriptionJson | str = ""


class JoinRequestBody(Struct, forbid_unknown_fields=True):
    """A request to join the next generation of the group."""

    member_id: MemberId
    client_id: ClientId
    session_timeout_ms: SessionTimeoutMs
    rebalance_timeout_ms: RebalanceTimeoutMs
    protocol_type: ProtocolName
    protocols: Annotated[list[ProtocolBody], Meta(max_length=PROTOCOLS_MAX)]
    group_instance_id: InstanceId | None = None
    require_known_member_id: bool = True
    reason: Reason | None = None
    max_wait_ms: WaitMs | None = None


class MemberResponse(Struct):
    """A member of the generation, for the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: SubscriptionJson | str


class JoinResponseBody(Struct):
    """The member's generation; `members` is empty except for the leader, and the times are the effective ones."""

    generation: int
    protocol_type: str
    protocol_name: str
    leader: str
    member_id: str
    skip_assignment: bool
    members: list[MemberResponse]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int


def submit_join(context: RequestContext, group_id: str, data: JoinRequestBody) -> Submitted[JoinResponseBody]:
    """Submit a join to the coordinator."""
    request = _join_request(context, data)
    waiting_as = data.member_id or request.new_member_id
    pending = context.submit_long_poll(group_id, request)
    limit_wait(pending, data.max_wait_ms, waiting_as)
    return Submitted(pending, partial(_respond_to_join, context, group_id, data))


@post(
    "/v1/groups/{group_id:str}/join",
    status_code=200,
    tags=TAGS,
    opt={REQUEST: "JoinGroup", LONG_POLL: True, SUBMITTED: submit_join},
)
async def join(context: CurrentRequest, group_id: GroupId, data: JSONBody[JoinRequestBody]) -> JoinResponseBody:
    """Join the next generation of the group; the response may wait until all members have joined."""
    return await submit_join(context, group_id, data).body(context)


def _join_request(context: RequestContext, data: JoinRequestBody) -> JoinGroup:
    return JoinGroup(
        token=context.coordinator.new_token(),
        member_id=data.member_id,
        group_instance_id=data.group_instance_id,
        client_id=data.client_id,
        client_host=context.client_host,
        session_timeout_ms=data.session_timeout_ms,
        rebalance_timeout_ms=data.rebalance_timeout_ms,
        protocol_type=data.protocol_type,
        protocols=_supported_protocols(data),
        new_member_id=new_member_id(data.client_id, data.group_instance_id),
        require_known_member_id=data.require_known_member_id,
        reason=data.reason,
    )


def _supported_protocols(data: JoinRequestBody) -> tuple[SupportedProtocol, ...]:
    supported: dict[str, SupportedProtocol] = {}
    for index, each in enumerate(data.protocols):
        if each.name in supported:
            raise InvalidRequest(f"protocols[{index}].name: {each.name} is offered twice")
        metadata = subscription_bytes(f"protocols[{index}].metadata", each.metadata, data.protocol_type)
        supported[each.name] = SupportedProtocol(each.name, metadata)
    return tuple(supported.values())


def _uses_json(data: JoinRequestBody, protocol_name: str) -> bool:
    """Return whether the member sent JSON for the chosen protocol."""
    chosen = next((each for each in data.protocols if each.name == protocol_name), None)
    return chosen is not None and isinstance(chosen.metadata, SubscriptionJson)


def _respond_to_join(
    context: RequestContext, group_id: str, data: JoinRequestBody, answer: JoinGroupResponse
) -> JoinResponseBody | Coroutine[Any, Any, JoinResponseBody]:
    as_json = _uses_json(data, answer.protocol_name)
    uses_base64 = answer.protocol_type == CONSUMER and not as_json
    context.server.base64_members.record(group_id, answer.member_id, uses_base64=uses_base64)
    return _leader_response(answer, as_json=as_json) if answer.members else _join_response(answer, [])


async def _leader_response(answer: JoinGroupResponse, *, as_json: bool) -> JoinResponseBody:
    def of_member(member: JoinGroupResponseMember) -> MemberResponse:
        metadata = subscription_json(member.metadata, as_json=as_json)
        return MemberResponse(member.member_id, member.group_instance_id, metadata)

    return _join_response(answer, await convert_all(answer.members, of_member))


def _join_response(answer: JoinGroupResponse, members: list[MemberResponse]) -> JoinResponseBody:
    return JoinResponseBody(
        generation=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader_id,
        member_id=answer.member_id,
        skip_assignment=answer.skip_assignment,
        members=members,
        session_timeout_ms=answer.session_timeout_ms,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        rebalance_timeout_ms=answer.rebalance_timeout_ms,
    )


# -- sync -------------------------------------------------------------------------------------------


class MemberAssignment(Struct, forbid_unknown_fields=True):
    """The assignment of one member, computed by the leader."""

    member_id: MemberId
    assignment: AssignmentJson | str


class SyncRequestBody(Struct, forbid_unknown_fields=True):
    """A request for the member's own assignment; the leader sends the assignments of all members."""

    generation: Generation
    member_id: MemberId
    assignments: list[MemberAssignment]
    group_instance_id: InstanceId | None = None
    protocol_type: ProtocolName | None = None
    protocol_name: ProtocolName | None = None
    max_wait_ms: WaitMs | None = None


class SyncResponseBody(Struct):
    """The member's own assignment."""

    protocol_type: str
    protocol_name: str
    assignment: AssignmentJson | str


def submit_sync(context: RequestContext, group_id: str, data: SyncRequestBody) -> Submitted[SyncResponseBody]:
    """Submit a sync with few assignments to the coordinator."""
    assignments = [_assignment(data, each) for each in enumerate(data.assignments)]
    return _submit_sync(context, group_id, data, assignments)


def _submit_sync(
    context: RequestContext, group_id: str, data: SyncRequestBody, assignments: list[tuple[str, bytes]]
) -> Submitted[SyncResponseBody]:
    request = SyncGroup(
        token=context.coordinator.new_token(),
        generation=data.generation,
        member_id=data.member_id,
        group_instance_id=data.group_instance_id,
        protocol_type=data.protocol_type,
        protocol_name=data.protocol_name,
        assignments=tuple(assignments),
    )
    pending = context.submit_long_poll(group_id, request)
    limit_wait(pending, data.max_wait_ms, data.member_id)
    return Submitted(pending, partial(_respond_to_sync, context, group_id, data))


@post(
    "/v1/groups/{group_id:str}/sync",
    status_code=200,
    tags=TAGS,
    opt={REQUEST: "SyncGroup", LONG_POLL: True, SUBMITTED: submit_sync},
)
async def sync(context: CurrentRequest, group_id: GroupId, data: JSONBody[SyncRequestBody]) -> SyncResponseBody:
    """Get the member's own assignment; the response may wait for the leader's assignments."""
    assignments = await convert_all(list(enumerate(data.assignments)), partial(_assignment, data))
    return await _submit_sync(context, group_id, data, assignments).body(context)


def _respond_to_sync(
    context: RequestContext, group_id: str, data: SyncRequestBody, answer: SyncGroupResponse
) -> SyncResponseBody:
    if data.assignments:
        as_json = isinstance(data.assignments[0].assignment, AssignmentJson)
    else:
        as_json = answer.protocol_type == CONSUMER and (group_id, data.member_id) not in context.server.base64_members
    return SyncResponseBody(
        answer.protocol_type, answer.protocol_name, assignment_json(answer.assignment, as_json=as_json)
    )


def _assignment(data: SyncRequestBody, indexed: tuple[int, MemberAssignment]) -> tuple[str, bytes]:
    index, given = indexed
    place = f"assignments[{index}].assignment"
    return given.member_id, assignment_bytes(place, given.assignment, data.protocol_type)


# -- heartbeat --------------------------------------------------------------------------------------


class HeartbeatRequestBody(Struct, forbid_unknown_fields=True):
    """A heartbeat of one member."""

    generation: Generation
    member_id: MemberId
    group_instance_id: InstanceId | None = None


class HeartbeatResponseBody(Struct):
    """The effective times, which an operator may have changed."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


def submit_heartbeat(
    context: RequestContext, group_id: str, data: HeartbeatRequestBody
) -> Submitted[HeartbeatResponseBody]:
    """Submit a heartbeat to the coordinator."""
    token = context.coordinator.new_token()
    request = Heartbeat(token, data.generation, data.member_id, data.group_instance_id)
    return Submitted(context.coordinator.submit(group_id, request), _respond_to_heartbeat)


def _respond_to_heartbeat(answer: HeartbeatResponse) -> HeartbeatResponseBody:
    return HeartbeatResponseBody(answer.session_timeout_ms, answer.heartbeat_interval_ms)


@post(
    "/v1/groups/{group_id:str}/heartbeat",
    status_code=200,
    tags=TAGS,
    opt={REQUEST: "Heartbeat", SUBMITTED: submit_heartbeat},
)
async def heartbeat(
    context: CurrentRequest, group_id: GroupId, data: JSONBody[HeartbeatRequestBody]
) -> HeartbeatResponseBody:
    """Keep the member's session alive; an error with action rejoin means that it must join again."""
    return await submit_heartbeat(context, group_id, data).body(context)


# -- leave ------------------------------------------------------------------------------------------


class LeavingMemberBody(Struct, forbid_unknown_fields=True):
    """A member to remove, named by member id, or by instance id with member_id ""."""

    member_id: MemberId
    group_instance_id: InstanceId | None = None
    reason: Reason | None = None


class LeaveRequestBody(Struct, forbid_unknown_fields=True):
    """The members that leave; each has a result of its own."""

    members: Annotated[list[LeavingMemberBody], Meta(max_length=LEAVING_MEMBERS_MAX)]


class LeavingMemberResponse(Struct):
    """The result for one member; `code` is NONE if it was removed."""

    member_id: str
    group_instance_id: str | None
    code: str


class LeaveResponseBody(Struct):
    """One result per entry, in the order of the request."""

    members: list[LeavingMemberResponse]


@post("/v1/groups/{group_id:str}/leave", status_code=200, tags=TAGS, opt={REQUEST: "LeaveGroup"})
async def leave(context: CurrentRequest, group_id: GroupId, data: JSONBody[LeaveRequestBody]) -> LeaveResponseBody:
    """Remove members from the group at once, rather than when their sessions time out."""
    leaving_members = tuple(LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in data.members)
    answer = await context.coordinate(
        group_id, LeaveGroup(context.coordinator.new_token(), leaving_members), LeaveGroupResponse
    )
    return LeaveResponseBody(
        [
            LeavingMemberResponse(member_id, instance_id, NO_ERROR if error is None else error.code)
            for member_id, instance_id, error in answer.members
        ]
    )
