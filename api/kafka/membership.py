"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

import asyncio
from typing import Any, Final

from api.kafka import hot_responses
from api.kafka.messages import NUL, milliseconds
from api.kafka.request import KafkaRequest, check_text
from api.shared.limits import (
    CLIENT_ID_MAX_CHARS,
    INSTANCE_ID_MAX_CHARS,
    LEAVING_MEMBERS_MAX,
    MEMBER_ID_MAX_CHARS,
    PROTOCOL_NAME_MAX_CHARS,
    PROTOCOLS_MAX,
    REASON_MAX_CHARS,
)
from api.shared.member_ids import new_member_id
from coordinator_core.protocol.errors import (
    CoordinatorError,
    InconsistentGroupProtocol,
    InvalidRequest,
    MemberIdRequired,
)
from coordinator_core.protocol.requests import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    SupportedProtocol,
    SyncGroup,
)
from coordinator_core.protocol.responses import Answer, JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse

KNOWN_MEMBER_IDS_FROM: Final = 4
"""The first version of JoinGroup whose clients join again with the member id that they are given (KIP-394)."""
SKIP_ASSIGNMENT_FROM: Final = 9
"""The first version of JoinGroup whose leaders understand that the assignment stands (KIP-814)."""
PROTOCOL_NAMED_FROM: Final = 5
"""The first version of SyncGroup that has to name the protocol and its type (KIP-559)."""
SEVERAL_MEMBERS_FROM: Final = 3
"""The first version of LeaveGroup with several members."""


# -- join -------------------------------------------------------------------------------------------


async def join_group(request: KafkaRequest) -> bytes:
    """Join the next generation; the response waits until all members have joined."""
    message, version = request.message, request.version
    request.is_long_poll = True
    try:
        request.authorize("JoinGroup", message.group_id)
        answer = await request.coordinate(message.group_id, _join(request), JoinGroupResponse)
    except CoordinatorError as error:
        member_id = error.member_id if isinstance(error, MemberIdRequired) else message.member_id
        return hot_responses.join_group(version, request.failed(error), member_id)
    return hot_responses.join_group(
        version,
        0,
        answer.member_id,
        generation=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        members=answer.members,
    )


def _join(request: KafkaRequest) -> JoinGroup:
    message, version = request.message, request.version
    instance_id = _instance_id(message)
    if instance_id == "":
        raise InvalidRequest("group_instance_id is empty")
    client_id = request.client_id.replace(NUL, "")[:CLIENT_ID_MAX_CHARS]
    session_timeout_ms = milliseconds(message.session_timeout)
    check_text("member_id", message.member_id, MEMBER_ID_MAX_CHARS)
    check_text("protocol_type", message.protocol_type, PROTOCOL_NAME_MAX_CHARS)
    return JoinGroup(
        token=request.coordinator.new_token(),
        member_id=message.member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=request.client_host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=max(0, milliseconds(message.rebalance_timeout)) if version >= 1 else session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=_protocols(message.protocols),
        new_member_id=new_member_id(client_id, instance_id),
        require_known_member_id=version >= KNOWN_MEMBER_IDS_FROM,
        supports_skip_assignment=version >= SKIP_ASSIGNMENT_FROM,
        reason=_reason(message),
    )


def _protocols(offered: tuple[Any, ...]) -> tuple[SupportedProtocol, ...]:
    if len(offered) > PROTOCOLS_MAX:
        raise InvalidRequest(f"{len(offered)} protocols; one request may have {PROTOCOLS_MAX}")
    for each in offered:
        check_text("a protocol's name", each.name, PROTOCOL_NAME_MAX_CHARS)
    supported = {each.name: SupportedProtocol(each.name, each.metadata) for each in offered}
    if len(supported) < len(offered):
        raise InvalidRequest("a protocol is offered twice")
    return tuple(supported.values())


def _instance_id(message: Any) -> str | None:  # noqa: ANN401  # a member in any version
    """Return the instance id of a static member; older versions have none."""
    instance_id: str | None = getattr(message, "group_instance_id", None)
    check_text("group_instance_id", instance_id, INSTANCE_ID_MAX_CHARS)
    return instance_id


def _reason(message: Any) -> str | None:  # noqa: ANN401  # a join, or a member that leaves, in any version
    """Return the reason of a client as far as it is stored; older versions have none."""
    reason: str | None = getattr(message, "reason", None)
    return None if reason is None else reason.replace("\x00", "")[:REASON_MAX_CHARS]


# -- sync -------------------------------------------------------------------------------------------


async def sync_group(request: KafkaRequest) -> bytes:
    """Get the member's assignment; the response waits for the leader's."""
    message, version = request.message, request.version
    request.is_long_poll = True
    try:
        request.authorize("SyncGroup", message.group_id)
        if version >= PROTOCOL_NAMED_FROM and None in {message.protocol_type, message.protocol_name}:
            raise InconsistentGroupProtocol(f"version {version} has to name the protocol and its type")
        sync = SyncGroup(
            token=request.coordinator.new_token(),
            generation=message.generation_id,
            member_id=message.member_id,
            group_instance_id=_instance_id(message),
            protocol_type=getattr(message, "protocol_type", None),
            protocol_name=getattr(message, "protocol_name", None),
            assignments=tuple((each.member_id, each.assignment) for each in message.assignments),
        )
        answer = await request.coordinate(message.group_id, sync, SyncGroupResponse)
    except CoordinatorError as error:
        return hot_responses.sync_group(version, request.failed(error))
    return hot_responses.sync_group(version, 0, answer.protocol_type, answer.protocol_name, answer.assignment)


# -- heartbeat --------------------------------------------------------------------------------------


async def heartbeat(request: KafkaRequest) -> bytes:
    """Keep the member's session alive; the response waits for the group's writes."""
    try:
        answer: Answer | CoordinatorError = await request.with_deadline(submit_heartbeat(request))
    except CoordinatorError as error:
        answer = error
    return respond_to_heartbeat(request, answer)


def submit_heartbeat(request: KafkaRequest) -> asyncio.Future[Answer]:
    """Submit a heartbeat; raises CoordinatorError if it is refused."""
    message, coordinator = request.message, request.coordinator
    request.authorize("Heartbeat", message.group_id)
    beat = Heartbeat(coordinator.new_token(), message.generation_id, message.member_id, _instance_id(message))
    return coordinator.submit(message.group_id, beat)


def respond_to_heartbeat(request: KafkaRequest, answer: Answer | CoordinatorError) -> bytes:
    """Return the response to a heartbeat."""
    code = request.failed(answer) if isinstance(answer, CoordinatorError) else 0
    return hot_responses.heartbeat(request.version, code)


# -- leave ------------------------------------------------------------------------------------------


async def leave_group(request: KafkaRequest) -> bytes:
    """Remove members at once; each has a result of its own."""
    message, version = request.message, request.version
    try:
        request.authorize("LeaveGroup", message.group_id)
        leave = LeaveGroup(request.coordinator.new_token(), _leaving(message, version))
        answer = await request.coordinate(message.group_id, leave, LeaveGroupResponse)
    except CoordinatorError as error:
        return hot_responses.leave_group(version, request.failed(error))
    results = [
        (member_id, instance_id, 0 if error is None else request.failed(error))
        for member_id, instance_id, error in answer.members
    ]
    error_code = 0 if version >= SEVERAL_MEMBERS_FROM else results[0][2]
    return hot_responses.leave_group(version, error_code, results)


def _leaving(message: Any, version: int) -> tuple[LeavingMember, ...]:  # noqa: ANN401  # in any version
    if version < SEVERAL_MEMBERS_FROM:
        return (LeavingMember(message.member_id),)
    if len(message.members) > LEAVING_MEMBERS_MAX:
        raise InvalidRequest(f"{len(message.members)} members; one request may have {LEAVING_MEMBERS_MAX}")
    return tuple(LeavingMember(each.member_id, _instance_id(each), _reason(each)) for each in message.members)
