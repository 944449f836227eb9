"""Operations of operators on one group: delete it, rebalance it, reload it, remove a member.

Source: http-api.md "Operator requests"; ARCHITECTURE.md "The path of a request".
"""

from functools import partial

from coordinator_core.admin.change_payloads import group_json, offsets_json
from coordinator_core.admin.changes import Change, ChangeRecorder, recorded_change
from coordinator_core.admin.offsets import MAX_DELETED
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import DeleteGroup, ForceRebalance, RemoveMember, StoredOffset
from coordinator_core.protocol.responses import Answer
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.quarantine import ReloadRefused
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.row_checks import UnreadableRow
from coordinator_core.state_store.rows import Json


async def delete_group(
    coordinator: Coordinator, group_id: str, change: Change, *, max_deleted: int = MAX_DELETED
) -> None:
    """Delete an Empty group and its offsets, which go to the archive under the change.

    Raises:
        InvalidRequest: it has more than `max_deleted` offsets.
        GroupIdNotFound: there is no such group.
        NonEmptyGroup: it has members; stop them first.
    """
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        if await recorded_change(coordinator, change, ChangeAction.DELETE_GROUP, group_id) is not None:
            return
        listed = partial(coordinator.store.fetch_offsets, group_id, limit=max_deleted + 1)
        if len(await coordinator.read(listed)) > max_deleted:
            raise InvalidRequest(f"the group has more than {max_deleted} offsets: delete those of its topics before")
        stored = await coordinator.read(partial(coordinator.store.stored_offsets, group_id, None))
        token = coordinator.new_token()
        recorder = ChangeRecorder(
            change, ChangeAction.DELETE_GROUP, group_id, token, partial(_describe_group_deletion, stored)
        )
        await submit(token, DeleteGroup(token, tuple(stored), change.change_id), recorder.extra_rows)


def _describe_group_deletion(stored: list[StoredOffset], before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    before_json = {**group_json(before), "protocol_type": before.protocol_type, **offsets_json(stored)}
    return before_json, {"state": str(after.state), "archived": len(stored)}


async def force_rebalance(coordinator: Coordinator, group_id: str, change: Change) -> None:
    """Start a rebalance; one that is in progress goes on.

    Raises:
        GroupIdNotFound: there is no such group.
        InvalidRequest: it has no members.
    """
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        if await recorded_change(coordinator, change, ChangeAction.FORCE_REBALANCE, group_id) is not None:
            return
        token = coordinator.new_token()
        recorder = ChangeRecorder(change, ChangeAction.FORCE_REBALANCE, group_id, token, _describe_states)
        await submit(token, ForceRebalance(token, change.reason or ""), recorder.extra_rows)


def _describe_states(before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    return group_json(before), group_json(after)


async def reload_group(coordinator: Coordinator, group_id: str, change: Change) -> None:
    """Reload a quarantined group from its rows, after an operator has repaired or deleted them.

    Raises:
        ReloadRefused: the group is not quarantined, or its rows still cannot be loaded.
    """
    async with coordinator.quarantine.reloading:
        await _reload_group(coordinator, group_id, change)


async def _reload_group(coordinator: Coordinator, group_id: str, change: Change) -> None:
    shard = coordinator.loaded_shard(group_id)
    if await recorded_change(coordinator, change, ChangeAction.RELOAD_GROUP, group_id) is not None:
        return
    quarantined = coordinator.quarantine.get(group_id)
    if quarantined is None:
        raise ReloadRefused("the group is not quarantined, so there is nothing to reload")
    stored = await coordinator.read(partial(coordinator.store.load_group, group_id))
    token = coordinator.new_token()
    recorder = ChangeRecorder(
        change, ChangeAction.RELOAD_GROUP, group_id, token, partial(_describe_reload, quarantined.reason)
    )
    try:
        await shard.reload(group_id, stored, token, recorder.extra_rows)
    except UnreadableRow as failure:
        raise ReloadRefused(f"the group remains quarantined: {failure}") from failure


def _describe_reload(reason: str, _before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    return {"quarantined": reason}, group_json(after)


async def remove_member(coordinator: Coordinator, group_id: str, member_id: str, change: Change) -> None:
    """Remove a member as if it had left.

    Raises:
        GroupIdNotFound: there is no such group.
        InvalidRequest: it has no such member.
    """
    arguments = {"member_id": member_id}
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        if await recorded_change(coordinator, change, ChangeAction.REMOVE_MEMBER, group_id, arguments) is not None:
            return
        token = coordinator.new_token()
        recorder = ChangeRecorder(
            change, ChangeAction.REMOVE_MEMBER, group_id, token, partial(_describe_removal, member_id)
        )
        await submit(token, RemoveMember(token, member_id, change.reason or ""), recorder.extra_rows)


def _describe_removal(member_id: str, before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    member = before.members[member_id]
    removed_member = {
        "member_id": member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
    }
    return {**removed_member, **group_json(before)}, {"member_id": member_id, **group_json(after)}
