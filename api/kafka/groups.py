"""ListGroups, DescribeGroups and DeleteGroups.

Lists of thousands of groups are made in turns and encoded in a thread, so that heartbeats come in between.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Final

from api.kafka.apis import ApiKey
from api.kafka.authorized_operations import of_group
from api.kafka.messages import Fields, encode
from api.kafka.request import KafkaRequest
from api.shared.authorization import REQUEST_RULES, authorize
from api.shared.turns import CONVERTED_AT_ONCE, convert_all
from coordinator_core.admin import groups as admin_groups
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorLoadInProgress, GroupIdNotFound
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.states import DEAD, STABLE
from coordinator_core.runtime.views import GroupView, MemberView

GROUP_TYPE: Final = "classic"
DELETED_AT_ONCE: Final = 64
"""How many groups of one request are deleted side by side, in few transactions."""
UNKNOWN_GROUP_IS_AN_ERROR_FROM: Final = 6
"""The first version of DescribeGroups that answers GROUP_ID_NOT_FOUND, beside the state Dead."""


async def list_groups(request: KafkaRequest) -> bytes:
    """List the groups that this node owns; clients ask every broker, and put the lists together.

    A list without groups that are being loaded, or whose leases are in doubt, would be short: clients ask again, as
    with Kafka.
    """
    message, version = request.message, request.version
    live = [group for shard in request.coordinator.serving_shards() for group in shard.live_groups()]
    try:
        authorize(request.identity, REQUEST_RULES["ListGroups"], None)
        if not request.coordinator.serves_all_shards():
            raise CoordinatorLoadInProgress("groups are being loaded, or their leases are in doubt")
        await request.with_deadline(request.begin_response(len(live)))
    except CoordinatorError as error:
        return encode(ApiKey.LIST_GROUPS, version, {"error_code": request.failed(error), "groups": ()})
    states = {each.lower() for each in getattr(message, "states_filter", ())}
    types = {each.lower() for each in getattr(message, "types_filter", ())}

    def listed(group: Group) -> Fields | None:
        if not request.can_access(group.group_id) or (states and group.state.lower() not in states):
            return None
        return {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type or "",
            "group_state": str(group.state),
            "group_type": GROUP_TYPE,
        }

    groups = [] if types and GROUP_TYPE not in types else await convert_all(live, listed)
    return await request.encode({"groups": list(filter(None, groups))})


async def describe_groups(request: KafkaRequest) -> bytes:
    """Describe groups with their members, each once."""
    group_ids = dict.fromkeys(request.message.groups)
    try:
        groups = await _described_in_turns(request, group_ids)
    except CoordinatorError as error:
        refusal = _refusal(request, error)
        groups = [{**_nothing(group_id), **refusal} for group_id in group_ids]
    return await request.encode({"groups": groups})


async def _described_in_turns(request: KafkaRequest, group_ids: Collection[str]) -> list[Fields]:
    """Describe groups when large requests of others have ended.

    Raises:
        CoordinatorNotAvailable: that was not before the deadline.
    """
    await request.with_deadline(request.begin_response(len(group_ids)))
    groups: list[Fields] = []
    members = in_this_turn = 0
    for group_id in group_ids:
        groups.append(_described(request, group_id))
        members += len(groups[-1]["members"])
        in_this_turn += 1 + len(groups[-1]["members"])
        if in_this_turn >= CONVERTED_AT_ONCE:
            in_this_turn = 0
            await asyncio.sleep(0)
    if members:
        await request.with_deadline(request.begin_response(members))
    return groups


def _described(request: KafkaRequest, group_id: str) -> Fields:
    nothing = _nothing(group_id)
    operations: dict[str, int] = {}
    """None of a group with an error, as in Kafka."""
    try:
        request.authorize("DescribeGroups", group_id)
        if getattr(request.message, "include_authorized_operations", False):
            operations["authorized_operations"] = of_group(request, group_id)
        view = request.coordinator.describe(group_id)
        if view is None or view.state is DEAD:
            nothing["group_state"] = str(DEAD)
            if request.version >= UNKNOWN_GROUP_IS_AN_ERROR_FROM:
                raise GroupIdNotFound(f"group {group_id} not found")
            return {**nothing, **operations}
    except CoordinatorError as error:
        return {**nothing, **_refusal(request, error)}
    return {
        **nothing,
        **operations,
        "group_state": str(view.state),
        "protocol_type": view.protocol_type or "",
        "protocol_data": (view.protocol_name or "") if view.state is STABLE else "",
        "members": [_member(view, each) for each in view.members],
    }


def _nothing(group_id: str) -> dict[str, Any]:
    return {"group_id": group_id, "group_state": "", "protocol_type": "", "protocol_data": "", "members": ()}


def _refusal(request: KafkaRequest, error: CoordinatorError) -> Fields:
    return {"error_code": request.failed(error), "error_message": error.detail}


def _member(group: GroupView, view: MemberView) -> Fields:
    """Describe a member: as in Kafka, its subscription while the group is Stable, and its last assignment."""
    member = view.member
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": f"/{member.client_host}",
        "member_metadata": view.subscription if group.state is STABLE else b"",
        "member_assignment": member.assignment,
    }


async def delete_groups(request: KafkaRequest) -> bytes:
    """Delete Empty groups with their offsets, which go to the archive; each once, as in Kafka."""
    results: list[Fields] = []
    wanted = list(dict.fromkeys(request.message.groups_names))
    for start in range(0, len(wanted), DELETED_AT_ONCE):
        async with asyncio.TaskGroup() as tasks:
            deletions = {
                group_id: tasks.create_task(_delete(request, group_id))
                for group_id in wanted[start : start + DELETED_AT_ONCE]
            }
        results += [{"group_id": group_id, "error_code": task.result()} for group_id, task in deletions.items()]
    return await request.encode({"results": results})


async def _delete(request: KafkaRequest, group_id: str) -> int:
    try:
        request.authorize("DeleteGroups", group_id)
        if request.coordinator.describe(group_id) is None and not await request.coordinator.has_offsets(group_id):
            raise GroupIdNotFound(f"group {group_id} not found")
        limit = request.node.limits.max_partitions_per_request
        await admin_groups.delete_group(request.coordinator, group_id, request.begin_change(), max_deleted=limit)
    except CoordinatorError as error:
        request.group_id = group_id  # those of other groups are under way
        return request.failed(error)
    return 0
