"""Groups as operators see them: list, describe, coordinator, delete, force a rebalance, put a member out.

Source: http-api.md "For operators".
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from litestar import delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import Struct

from api.http.call import Call, ThisCall
from api.http.cursors import Name, read_cursor, write_cursor
from api.http.express import REQUEST
from api.http.fields import GivenReason, GroupId, PageLimit, ReasonNeeded, StatesAsked
from api.http.times import instant, instant_or_none
from api.http.translation import AssignmentJson, PartitionsOfTopic, assignment_shown
from coordinator_core.protocol.consumer_protocol import CONSUMER, TopicPartitions
from coordinator_core.protocol.errors import GroupIdNotFound
from coordinator_core.protocol.states import DEAD, EMPTY, STABLE, GroupState
from coordinator_core.runtime.views import GroupView, MemberView
from coordinator_core.store.rows import GroupFilter, ListedGroup

TAGS: Final = ["Operators: groups"]
STATE_NAMES: Final = {state.lower(): str(state) for state in GroupState}


class ReasonBody(Struct, forbid_unknown_fields=True):
    """The operator's reason."""

    reason: GivenReason


# -- list -------------------------------------------------------------------------------------------


class NodeShown(Struct):
    """Who serves a group; None while nobody does."""

    node_id: str | None


class GroupShown(Struct):
    """A group in a list."""

    group_id: str
    state: str
    protocol_type: str | None
    generation: int
    member_count: int
    coordinator: NodeShown


class GroupsAnswer(Struct):
    """A page of groups by id; `next_cursor` asks for the next one, and is null on the last."""

    groups: list[GroupShown]
    next_cursor: str | None


@get("/v1/groups", tags=TAGS, opt={REQUEST: "ListGroups"})
async def list_groups(
    call: ThisCall,
    states: StatesAsked = None,
    prefix: FromQuery[str] = "",
    protocol_type: FromQuery[str] = "",
    limit: PageLimit = 100,
    cursor: FromQuery[str] = "",
) -> GroupsAnswer:
    """List groups by id; Dead ones, from history, only with state=Dead."""
    place = read_cursor(cursor, tuple[Name])
    which = GroupFilter(
        states=frozenset(STATE_NAMES.get(name.lower(), name) for name in states or () if name),
        prefix=prefix,
        protocol_type=protocol_type or None,
        after=place[0] if place else None,
        limit=limit + 1,
    )
    found = await _own_groups(call, which)
    page = found[:limit]
    next_cursor = write_cursor(page[-1].group_id) if len(found) > limit else None
    return GroupsAnswer([_listed(each) for each in page], next_cursor)


async def _own_groups(call: Call, which: GroupFilter) -> list[ListedGroup]:
    """List the caller's own groups; ids are in order, and so are prefixes none of which begins another."""
    if call.identity is None:
        return await call.coordinator.list_groups(which)
    found: list[ListedGroup] = []
    for prefix in call.identity.prefixes_within(which.prefix):
        if len(found) < which.limit:
            found += await call.coordinator.list_groups(replace(which, prefix=prefix))
    return found[: which.limit]


def _listed(row: ListedGroup) -> GroupShown:
    return GroupShown(
        row.group_id, row.state, row.protocol_type, row.generation, row.member_count, NodeShown(row.node_id)
    )


# -- describe ---------------------------------------------------------------------------------------


class CoordinatorShown(Struct):
    """Who serves a group's shard; None while nobody does."""

    node_id: str | None
    url: str | None
    epoch: int


class MemberDescribed(Struct):
    """A member as its coordinator sees it now."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_heartbeat_at: datetime | None
    assignment: AssignmentJson | str | None
    """Null while the group is not Stable; base64 where it cannot be read."""
    owned_partitions: list[PartitionsOfTopic] | None
    """During a rebalance those that the member owned last; null where assignments cannot be read."""
    awaiting: Literal["join", "sync"] | None
    """The member's parked request: it is ready, and waits for other members."""
    awaited: Literal["join", "sync"] | None
    """The request of the member that the group waits for."""


class GroupDescribed(Struct, kw_only=True):
    """A group as its coordinator sees it now; the defaults are those of a Dead one."""

    group_id: str
    state: str = DEAD
    state_since: datetime | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    shard_id: int
    coordinator: CoordinatorShown
    members: list[MemberDescribed] = []
    pending_members: int = 0
    waiting_for: list[str] = []
    waiting_until: datetime | None = None
    config: dict[str, int | str | None]


@get("/v1/groups/{group_id:str}", tags=TAGS, opt={REQUEST: "DescribeGroups"})
async def describe_group(call: ThisCall, group_id: GroupId) -> GroupDescribed:
    """Describe a group: its members, who is waited for and until when, and the settings in force."""
    view = call.coordinator.describe(group_id)
    if view is not None:
        return _described(call, view)
    described = _dead(call, group_id)
    if await call.coordinator.has_offsets(group_id):
        described.state = EMPTY  # offsets that were put there by hand are a simple group's
    elif not await call.coordinator.was_seen(group_id):
        raise GroupIdNotFound("nobody has ever seen this group")
    return described


def _described(call: Call, view: GroupView) -> GroupDescribed:
    described = _dead(call, view.group_id)
    described.state = view.state
    described.state_since = instant_or_none(view.state_since_ms)
    described.generation = view.generation
    described.protocol_type = view.protocol_type
    described.protocol_name = view.protocol_name
    described.leader = view.leader_id
    described.members = [_member(view, each) for each in view.members]
    described.pending_members = view.pending_member_count
    described.waiting_for = list(view.waiting_for)
    described.waiting_until = instant_or_none(view.waiting_until_ms)
    return described


def _dead(call: Call, group_id: str) -> GroupDescribed:
    """Return what can be said of a group that is gone; settings and a shard it has all the same."""
    owner = call.coordinator.coordinator_of(group_id)
    in_force = call.coordinator.settings_in_force(group_id)
    return GroupDescribed(
        group_id=group_id,
        shard_id=owner.shard_id,
        coordinator=CoordinatorShown(owner.node_id, owner.url, owner.epoch),
        config={key: setting.value for key, setting in in_force.items()},
    )


def _member(view: GroupView, shown: MemberView) -> MemberDescribed:
    member = shown.member
    return MemberDescribed(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        last_heartbeat_at=instant_or_none(shown.last_heartbeat_at_ms),
        assignment=_assignment(view, member.assignment),
        owned_partitions=_owned_partitions(shown.owned),
        awaiting=shown.awaiting,
        awaited=shown.awaited,
    )


def _owned_partitions(owned: Sequence[TopicPartitions] | None) -> list[PartitionsOfTopic] | None:
    return None if owned is None else [PartitionsOfTopic(topic, list(partitions)) for topic, partitions in owned]


def _assignment(view: GroupView, assignment: bytes) -> AssignmentJson | str | None:
    """Show what a member holds; between two generations nobody can say."""
    if view.state is not STABLE or not assignment:
        return None
    return assignment_shown(assignment, as_json=view.protocol_type == CONSUMER)


# -- quarantine -------------------------------------------------------------------------------------


class QuarantinedShown(Struct):
    """A group that the node does not serve because its stored rows cannot be loaded."""

    group_id: str
    shard_id: int
    reason: str
    since: datetime


class QuarantineAnswer(Struct):
    """The quarantined groups of the node that is asked, by id."""

    groups: list[QuarantinedShown]


@get("/v1/quarantined-groups", tags=TAGS, opt={REQUEST: "ListQuarantinedGroups"})
async def list_quarantined_groups(call: ThisCall) -> QuarantineAnswer:
    """List the groups that this node does not serve because their stored rows cannot be loaded."""
    found = [each for each in call.coordinator.quarantined() if call.sees(each.group_id)]
    return QuarantineAnswer(
        [QuarantinedShown(each.group_id, each.shard_id, each.reason, instant(each.since_ms)) for each in found]
    )


@post("/v1/groups/{group_id:str}/reload", status_code=204, tags=TAGS, opt={REQUEST: "ReloadGroup"})
async def reload_group(call: ThisCall, group_id: GroupId, data: JSONBody[ReasonBody]) -> None:
    """Load a quarantined group again from its rows, which were repaired or deleted."""
    await call.coordinator.operators.reload_group(group_id, call.act(data.reason))


# -- coordinator ------------------------------------------------------------------------------------


class ShardOwnerShown(Struct):
    """Who serves a group's shard; None while nobody does."""

    shard_id: int
    node_id: str | None
    url: str | None
    epoch: int


@get("/v1/groups/{group_id:str}/coordinator", tags=["Agents: membership"], opt={REQUEST: "FindCoordinator"})
async def find_coordinator(call: ThisCall, group_id: GroupId) -> ShardOwnerShown:
    """Say which node serves a group; it need not exist yet."""
    owner = call.coordinator.coordinator_of(group_id)
    return ShardOwnerShown(owner.shard_id, owner.node_id, owner.url, owner.epoch)


# -- changes ----------------------------------------------------------------------------------------


@delete("/v1/groups/{group_id:str}", tags=TAGS, opt={REQUEST: "DeleteGroups"})
async def delete_group(call: ThisCall, group_id: GroupId, reason: ReasonNeeded) -> None:
    """Delete a group that has no members; its offsets go to the archive."""
    await call.coordinator.operators.delete_group(group_id, call.act(reason))


@post("/v1/groups/{group_id:str}/rebalance", status_code=204, tags=TAGS, opt={REQUEST: "ForceRebalance"})
async def force_rebalance(call: ThisCall, group_id: GroupId, data: JSONBody[ReasonBody]) -> None:
    """Make the group rebalance, as if its membership had changed."""
    await call.coordinator.operators.force_rebalance(group_id, call.act(data.reason))


@delete("/v1/groups/{group_id:str}/members/{member_id:str}", tags=TAGS, opt={REQUEST: "RemoveMember"})
async def remove_member(call: ThisCall, group_id: GroupId, member_id: FromPath[str], reason: ReasonNeeded) -> None:
    """Put a member out, as if it had left; it may join again."""
    await call.coordinator.operators.remove_member(group_id, member_id, call.act(reason))
