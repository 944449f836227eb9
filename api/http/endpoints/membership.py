"""Being a member over HTTP: join, sync, heartbeat, leave.

Source: http-api.md "The life of a member".
"""

from typing import Annotated, Final
from uuid import uuid4

from litestar import post
from litestar.params import JSONBody
from msgspec import Meta, Struct

from api.http.call import Call, ThisCall, within
from api.http.express import LONG_POLL, REQUEST
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
from api.http.limits import LEAVERS_MAX, PROTOCOLS_MAX
from api.http.reply import NO_ERROR
from api.http.translation import (
    AssignmentJson,
    SubscriptionJson,
    assignment_bytes,
    assignment_shown,
    subscription_bytes,
    subscription_shown,
)
from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.replies import Beaten, Joined, Left, Synced
from coordinator_core.protocol.requests import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    Offer,
    SyncGroup,
)

TAGS: Final = ["Agents: membership"]

# -- join -------------------------------------------------------------------------------------------


class OfferedProtocol(Struct, forbid_unknown_fields=True):
    """An assignor that the member can work with, and what it says under it."""

    name: ProtocolName
    metadata: SubscriptionJson | str = ""


class JoinBody(Struct, forbid_unknown_fields=True):
    """A wish to be in the group's next generation."""

    member_id: MemberId
    client_id: ClientId
    session_timeout_ms: SessionTimeoutMs
    rebalance_timeout_ms: RebalanceTimeoutMs
    protocol_type: ProtocolName
    protocols: Annotated[list[OfferedProtocol], Meta(max_length=PROTOCOLS_MAX)]
    group_instance_id: InstanceId | None = None
    require_known_member_id: bool = True
    reason: Reason | None = None
    max_wait_ms: WaitMs | None = None


class MemberShown(Struct):
    """A member as its leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: SubscriptionJson | str


class JoinAnswer(Struct):
    """A place in a generation; `members` is empty but for the leader, and the times are those in force."""

    generation: int
    protocol_type: str
    protocol_name: str
    leader: str
    member_id: str
    skip_assignment: bool
    members: list[MemberShown]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int


@post("/v1/groups/{group_id:str}/join", status_code=200, tags=TAGS, opt={REQUEST: "JoinGroup", LONG_POLL: True})
async def join(call: ThisCall, group_id: GroupId, data: JSONBody[JoinBody]) -> JoinAnswer:
    """Ask for a place in the group's next generation; the answer may wait for the whole rebalance."""
    request = _join_request(call, data)
    waiting_as = data.member_id or request.fresh_member_id
    answer = await within(call.ask(group_id, request, Joined), data.max_wait_ms, waiting_as)
    as_json = _reads_json(data, answer.protocol_name)
    is_opaque = answer.protocol_type == CONSUMER and not as_json
    call.door.opaque_readers.note(group_id, answer.member_id, is_opaque=is_opaque)
    return _join_answer(answer, as_json=as_json)


def _join_request(call: Call, data: JoinBody) -> JoinGroup:
    return JoinGroup(
        token=call.coordinator.new_token(),
        member_id=data.member_id,
        group_instance_id=data.group_instance_id,
        client_id=data.client_id,
        client_host=call.client_host,
        session_timeout_ms=data.session_timeout_ms,
        rebalance_timeout_ms=data.rebalance_timeout_ms,
        protocol_type=data.protocol_type,
        protocols=_offers(data),
        fresh_member_id=f"{data.group_instance_id or data.client_id}-{uuid4()}",
        require_known_member_id=data.require_known_member_id,
        reason=data.reason,
    )


def _offers(data: JoinBody) -> tuple[Offer, ...]:
    offers: dict[str, Offer] = {}
    for index, each in enumerate(data.protocols):
        if each.name in offers:
            raise InvalidRequest(f"protocols[{index}].name: {each.name} is offered twice")
        metadata = subscription_bytes(f"protocols[{index}].metadata", each.metadata, data.protocol_type)
        offers[each.name] = Offer(each.name, metadata)
    return tuple(offers.values())


def _reads_json(data: JoinBody, protocol_name: str) -> bool:
    """Tell whether the member sends JSON under the protocol that was chosen."""
    chosen = next((each for each in data.protocols if each.name == protocol_name), None)
    return chosen is not None and isinstance(chosen.metadata, SubscriptionJson)


def _join_answer(answer: Joined, *, as_json: bool) -> JoinAnswer:
    return JoinAnswer(
        generation=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader_id,
        member_id=answer.member_id,
        skip_assignment=answer.skip_assignment,
        members=[
            MemberShown(member_id, instance_id, subscription_shown(metadata, as_json=as_json))
            for member_id, instance_id, metadata in answer.members
        ],
        session_timeout_ms=answer.session_timeout_ms,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        rebalance_timeout_ms=answer.rebalance_timeout_ms,
    )


# -- sync -------------------------------------------------------------------------------------------


class AssignmentOfMember(Struct, forbid_unknown_fields=True):
    """What the leader gives to one member."""

    member_id: MemberId
    assignment: AssignmentJson | str


class SyncBody(Struct, forbid_unknown_fields=True):
    """A wish for one's own assignment; only the leader brings some."""

    generation: Generation
    member_id: MemberId
    assignments: list[AssignmentOfMember]
    group_instance_id: InstanceId | None = None
    protocol_type: ProtocolName | None = None
    protocol_name: ProtocolName | None = None
    max_wait_ms: WaitMs | None = None


class SyncAnswer(Struct):
    """The member's own assignment."""

    protocol_type: str
    protocol_name: str
    assignment: AssignmentJson | str


@post("/v1/groups/{group_id:str}/sync", status_code=200, tags=TAGS, opt={REQUEST: "SyncGroup", LONG_POLL: True})
async def sync(call: ThisCall, group_id: GroupId, data: JSONBody[SyncBody]) -> SyncAnswer:
    """Ask for one's own assignment, which the leader brings; the answer may wait for the leader."""
    request = SyncGroup(
        token=call.coordinator.new_token(),
        generation=data.generation,
        member_id=data.member_id,
        group_instance_id=data.group_instance_id,
        protocol_type=data.protocol_type,
        protocol_name=data.protocol_name,
        assignments=_assignments(data),
    )
    answer = await within(call.ask(group_id, request, Synced), data.max_wait_ms, data.member_id)
    if data.assignments:
        as_json = isinstance(data.assignments[0].assignment, AssignmentJson)
    else:
        as_json = answer.protocol_type == CONSUMER and (group_id, data.member_id) not in call.door.opaque_readers
    return SyncAnswer(answer.protocol_type, answer.protocol_name, assignment_shown(answer.assignment, as_json=as_json))


def _assignments(data: SyncBody) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (each.member_id, assignment_bytes(f"assignments[{index}].assignment", each.assignment, data.protocol_type))
        for index, each in enumerate(data.assignments)
    )


# -- heartbeat --------------------------------------------------------------------------------------


class HeartbeatBody(Struct, forbid_unknown_fields=True):
    """A sign of life."""

    generation: Generation
    member_id: MemberId
    group_instance_id: InstanceId | None = None


class HeartbeatAnswer(Struct):
    """The times in force, which on-call may have changed."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


@post("/v1/groups/{group_id:str}/heartbeat", status_code=200, tags=TAGS, opt={REQUEST: "Heartbeat"})
async def heartbeat(call: ThisCall, group_id: GroupId, data: JSONBody[HeartbeatBody]) -> HeartbeatAnswer:
    """Say that the member lives, and learn whether it must join again."""
    request = Heartbeat(call.coordinator.new_token(), data.generation, data.member_id, data.group_instance_id)
    answer = await call.ask(group_id, request, Beaten)
    return HeartbeatAnswer(answer.session_timeout_ms, answer.heartbeat_interval_ms)


# -- leave ------------------------------------------------------------------------------------------


class LeaverBody(Struct, forbid_unknown_fields=True):
    """Who goes: a member, or (member_id "") whoever has the instance id."""

    member_id: MemberId
    group_instance_id: InstanceId | None = None
    reason: Reason | None = None


class LeaveBody(Struct, forbid_unknown_fields=True):
    """Members that go; each has a result of its own."""

    members: Annotated[list[LeaverBody], Meta(max_length=LEAVERS_MAX)]


class LeaverShown(Struct):
    """What became of one; `code` is NONE when it is gone."""

    member_id: str
    group_instance_id: str | None
    code: str


class LeaveAnswer(Struct):
    """One result an entry, in the order asked."""

    members: list[LeaverShown]


@post("/v1/groups/{group_id:str}/leave", status_code=200, tags=TAGS, opt={REQUEST: "LeaveGroup"})
async def leave(call: ThisCall, group_id: GroupId, data: JSONBody[LeaveBody]) -> LeaveAnswer:
    """Take members out of the group at once, rather than after their sessions."""
    leavers = tuple(Leaver(each.member_id, each.group_instance_id, each.reason) for each in data.members)
    answer = await call.ask(group_id, LeaveGroup(call.coordinator.new_token(), leavers), Left)
    return LeaveAnswer(
        [
            LeaverShown(member_id, instance_id, NO_ERROR if error is None else error.code)
            for member_id, instance_id, error in answer.members
        ]
    )
