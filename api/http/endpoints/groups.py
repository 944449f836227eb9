"""Endpoints for groups: list, describe, find the coordinator, delete, rebalance, remove a member, reload.

Source: http-api.md "Operator requests", "Lists".
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from litestar import delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import Struct

from api.http import LISTENER
from api.http.consumer_json import AssignmentJson, PartitionsOfTopic, assignment_json
from api.http.cursors import Name, page_after, page_of, read_cursor
from api.http.fast_path import REQUEST
from api.http.fields import (
    GroupId,
    LongPageLimit,
    PageLimit,
    RequiredReason,
    RequiredReasonParam,
    StatesParam,
    state_names,
)
from api.http.limits import LONG_PAGE_MAX
from api.http.request_context import CurrentRequest, RequestContext
from api.http.rows import response_of
from api.http.times import instant_or_none
from coordinator_core.admin import groups as admin_groups
from coordinator_core.protocol.consumer_protocol import CONSUMER, TopicPartitions
from coordinator_core.protocol.states import DEAD, EMPTY, STABLE
from coordinator_core.queries.groups import GroupFilter, ListedGroup, known, read_groups
from coordinator_core.runtime.views import GroupView, MemberView

TAGS: Final = ["Operators: groups"]


class ReasonBody(Struct, forbid_unknown_fields=True):
    """The operator's reason."""

    reason: RequiredReason


# -- list -------------------------------------------------------------------------------------------


class NodeResponse(Struct):
    """The node that serves a group; null if none does."""

    node_id: str | None


class GroupResponse(Struct):
    """A group in a list."""

    group_id: str
    state: str
    protocol_type: str | None
    generation: int
    member_count: int
    rebalances_last_hour: int
    coordinator: NodeResponse


class GroupsResponse(Struct):
    """A page of groups by id; `next_cursor` is null on the last page."""

    groups: list[GroupResponse]
    next_cursor: str | None


@get("/v1/groups", tags=TAGS, opt={REQUEST: "ListGroups"})
async def list_groups(
    context: CurrentRequest,
    states: StatesParam = None,
    prefix: FromQuery[str] = "",
    protocol_type: FromQuery[str] = "",
    limit: PageLimit = 100,
    cursor: FromQuery[str] = "",
) -> GroupsResponse:
    """List groups by id; deleted groups, which are in history, only with state=Dead."""
    after = read_cursor(cursor, tuple[Name])
    group_filter = GroupFilter(
        states=state_names(states),
        prefix=prefix,
        protocol_type=protocol_type or None,
        after=after[0] if after else None,
        limit=limit + 1,
    )
    found = await _own_groups(context, group_filter)
    page, next_cursor = page_of(found, lambda each: (each.group_id,), limit)
    return GroupsResponse([_to_response(each) for each in page], next_cursor)


async def _own_groups(context: RequestContext, group_filter: GroupFilter) -> list[ListedGroup]:
    """List the groups that the token covers, in the order of their ids: its prefixes are sorted and do not overlap."""
    if context.identity is None:
        return await context.query(read_groups, group_filter)
    found: list[ListedGroup] = []
    for prefix in context.identity.prefixes_within(group_filter.prefix):
        if len(found) < group_filter.limit:
            narrowed = replace(group_filter, prefix=prefix, patterns=context.covered_groups)
            found += await context.query(read_groups, narrowed)
    return found[: group_filter.limit]


def _to_response(row: ListedGroup) -> GroupResponse:
    return response_of(GroupResponse, row, coordinator=NodeResponse(row.node_id))


# -- describe ---------------------------------------------------------------------------------------


class CoordinatorResponse(Struct):
    """The node that owns the shard of a group; id and URL are null if none does."""

    node_id: str | None
    url: str | None
    epoch: int


class DescribedMemberResponse(Struct):
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_heartbeat_at: datetime | None
    assignment: AssignmentJson | str | None
    """Null unless the group is Stable; base64 if it cannot be decoded."""
    owned_partitions: list[PartitionsOfTopic] | None
    """During a rebalance, the partitions that the member owned before; null if assignments cannot be decoded."""
    parked_request: Literal["join", "sync"] | None
    """The parked request of the member, which is ready and waits for other members."""
    missing_request: Literal["join", "sync"] | None
    """The request that the group waits for from the member."""


class DescribedGroupResponse(Struct, kw_only=True):
    """A group with its members; the defaults are those of a Dead group."""

    group_id: str
    state: str = DEAD
    state_since: datetime | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    shard_id: int
    coordinator: CoordinatorResponse
    members: list[DescribedMemberResponse] = []
    """A page of the members by member id."""
    next_cursor: str | None = None
    """Null on the last page of members."""
    pending_members: int = 0
    waiting_for: list[str] = []
    waiting_until: datetime | None = None
    config: dict[str, int | str | None]


@get("/v1/groups/{group_id:str}", tags=TAGS, opt={REQUEST: "DescribeGroups"})
async def describe_group(
    context: CurrentRequest, group_id: GroupId, limit: LongPageLimit = LONG_PAGE_MAX, cursor: FromQuery[str] = ""
) -> DescribedGroupResponse:
    """Describe a group: its members, the members that it waits for and until when, and its effective settings."""
    after = read_cursor(cursor, tuple[Name])
    view = context.coordinator.describe(group_id)
    if view is not None:
        members = sorted(view.members, key=_place_of_member)
        return _describe(context, view, *page_after(members, _place_of_member, after, limit))
    described = _dead(context, group_id)
    if await context.coordinator.has_offsets(group_id):
        described.state = EMPTY  # a simple group: offsets without members
    else:
        await context.query(known, group_id, [])
    return described


def _place_of_member(view: MemberView) -> tuple[str]:
    return (view.member.member_id,)


def _describe(
    context: RequestContext, view: GroupView, members: Sequence[MemberView], next_cursor: str | None
) -> DescribedGroupResponse:
    described = _dead(context, view.group_id)
    described.state = view.state
    described.state_since = instant_or_none(view.state_since_ms)
    described.generation = view.generation
    described.protocol_type = view.protocol_type
    described.protocol_name = view.protocol_name
    described.leader = view.leader_id
    described.members = [_member(view, each) for each in members]
    described.next_cursor = next_cursor
    described.pending_members = view.pending_member_count
    described.waiting_for = list(view.waiting_for)
    described.waiting_until = instant_or_none(view.waiting_until_ms)
    return described


def _dead(context: RequestContext, group_id: str) -> DescribedGroupResponse:
    """Return the description of a group without a state: its id, shard, coordinator and settings."""
    owner = context.coordinator.find_coordinator(group_id)
    effective = context.coordinator.metadata_cache.effective_settings(group_id)
    return DescribedGroupResponse(
        group_id=group_id,
        shard_id=owner.shard_id,
        coordinator=response_of(CoordinatorResponse, owner, url=owner.listeners.get(LISTENER)),
        config={key: setting.value for key, setting in effective.items()},
    )


def _member(view: GroupView, member_view: MemberView) -> DescribedMemberResponse:
    member = member_view.member
    return response_of(
        DescribedMemberResponse,
        member,
        last_heartbeat_at=instant_or_none(member_view.last_heartbeat_at_ms),
        assignment=_assignment(view, member.assignment),
        owned_partitions=_owned_partitions(member_view.owned),
        parked_request=member_view.parked_request,
        missing_request=member_view.missing_request,
    )


def _owned_partitions(owned: Sequence[TopicPartitions] | None) -> list[PartitionsOfTopic] | None:
    return None if owned is None else [PartitionsOfTopic(topic, list(partitions)) for topic, partitions in owned]


def _assignment(view: GroupView, assignment: bytes) -> AssignmentJson | str | None:
    """Return a member's assignment; None unless the group is Stable."""
    if view.state is not STABLE or not assignment:
        return None
    return assignment_json(assignment, as_json=view.protocol_type == CONSUMER)


# -- quarantine -------------------------------------------------------------------------------------


class QuarantinedGroupResponse(Struct):
    """A group that a node does not serve: its stored rows cannot be loaded, or it made its shard fail."""

    group_id: str
    shard_id: int
    reason: str
    since: datetime


class QuarantinedGroupsResponse(Struct):
    """A page of the quarantined groups of this node, by id; `next_cursor` is null on the last page."""

    groups: list[QuarantinedGroupResponse]
    next_cursor: str | None


@get("/v1/quarantined-groups", tags=TAGS, opt={REQUEST: "ListQuarantinedGroups"})
async def list_quarantined_groups(
    context: CurrentRequest, limit: LongPageLimit = LONG_PAGE_MAX, cursor: FromQuery[str] = ""
) -> QuarantinedGroupsResponse:
    """List the groups of this node whose stored rows cannot be loaded, or that made their shard fail."""
    after = read_cursor(cursor, tuple[Name])
    found = [each for each in context.coordinator.quarantined() if context.can_access(each.group_id)]
    page, next_cursor = page_after(found, lambda each: (each.group_id,), after, limit)
    return QuarantinedGroupsResponse([response_of(QuarantinedGroupResponse, each) for each in page], next_cursor)


@post("/v1/groups/{group_id:str}/reload", status_code=204, tags=TAGS, opt={REQUEST: "ReloadGroup"})
async def reload_group(context: CurrentRequest, group_id: GroupId, data: JSONBody[ReasonBody]) -> None:
    """Load a quarantined group again, after its rows were repaired or deleted."""
    await admin_groups.reload_group(context.coordinator, group_id, context.begin_change(data.reason))


# -- coordinator ------------------------------------------------------------------------------------


class ShardOwnerResponse(Struct):
    """The node that owns the shard of a group; id and URL are null if none does."""

    shard_id: int
    node_id: str | None
    url: str | None
    epoch: int


@get("/v1/groups/{group_id:str}/coordinator", tags=["Agents: membership"], opt={REQUEST: "FindCoordinator"})
async def find_coordinator(context: CurrentRequest, group_id: GroupId) -> ShardOwnerResponse:
    """Find the node that serves a group; the group need not exist."""
    owner = context.coordinator.find_coordinator(group_id)
    return response_of(ShardOwnerResponse, owner, url=owner.listeners.get(LISTENER))


# -- changes ----------------------------------------------------------------------------------------


@delete("/v1/groups/{group_id:str}", tags=TAGS, opt={REQUEST: "DeleteGroups"})
async def delete_group(context: CurrentRequest, group_id: GroupId, reason: RequiredReasonParam) -> None:
    """Delete a group without members, and archive its offsets."""
    await admin_groups.delete_group(
        context.coordinator,
        group_id,
        context.begin_change(reason),
        max_deleted=context.server.limits.max_partitions_per_request,
    )


@post("/v1/groups/{group_id:str}/rebalance", status_code=204, tags=TAGS, opt={REQUEST: "ForceRebalance"})
async def force_rebalance(context: CurrentRequest, group_id: GroupId, data: JSONBody[ReasonBody]) -> None:
    """Force a rebalance, as if the membership had changed."""
    await admin_groups.force_rebalance(context.coordinator, group_id, context.begin_change(data.reason))


@delete("/v1/groups/{group_id:str}/members/{member_id:str}", tags=TAGS, opt={REQUEST: "RemoveMember"})
async def remove_member(
    context: CurrentRequest, group_id: GroupId, member_id: FromPath[str], reason: RequiredReasonParam
) -> None:
    """Remove a member, as if it had left; it may join again."""
    await admin_groups.remove_member(context.coordinator, group_id, member_id, context.begin_change(reason))
