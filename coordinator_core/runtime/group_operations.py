"""Operations of operators on one group: each locks the group, is decided, and is stored with its row of `changes`.

An operation that was made before under the same change id returns the recorded response. The group is locked meanwhile,
so of two concurrent requests with the same id the second finds the first.

Source: http-api.md "Operator requests"; ARCHITECTURE.md "The path of a request".
"""

from functools import partial

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import DeleteGroup, DeleteOffsets, ForceRebalance, RemoveMember, StoredOffset
from coordinator_core.protocol.responses import Answer, DeleteOffsetsResponse
from coordinator_core.runtime.admin_context import AdminContext
from coordinator_core.runtime.change_payloads import deleted_json, group_json, offsets_json, recorded_deletion, removed
from coordinator_core.runtime.changes import Change, ChangeRecorder
from coordinator_core.runtime.quarantine import ReloadRefused
from coordinator_core.runtime.shard import no_extra_rows
from coordinator_core.store.change_actions import ChangeAction
from coordinator_core.store.row_checks import UnreadableRow
from coordinator_core.store.rows import Json


async def dry_run_delete_offsets(
    admin_context: AdminContext, group_id: str, topic: str, partition: int | None
) -> DeleteOffsetsResponse:
    """Return what a deletion of offsets would do; nothing is stored."""
    async with admin_context.serving_shard(group_id).locked(group_id) as submit:
        request = await _deletion(admin_context, group_id, topic, partition, None)
        answer = await submit(request.token, request, no_extra_rows)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


async def delete_offsets(
    admin_context: AdminContext, group_id: str, topic: str, partition: int | None, change: Change
) -> DeleteOffsetsResponse:
    """Delete a topic's offsets, or that of one partition; they go to the archive under the change."""
    arguments = {"topic": topic, "partition": partition}
    async with admin_context.serving_shard(group_id).locked(group_id) as submit:
        earlier = await admin_context.recorded_change(change, ChangeAction.DELETE_OFFSETS, group_id, arguments)
        if earlier is not None:
            return recorded_deletion(earlier)
        request = await _deletion(admin_context, group_id, topic, partition, change)
        describe = partial(_describe_deletion, arguments, request.stored)
        recorder = ChangeRecorder(change, ChangeAction.DELETE_OFFSETS, group_id, request.token, describe)
        answer = await submit(request.token, request, recorder.extra_rows)
    assert isinstance(answer, DeleteOffsetsResponse)
    return answer


async def _deletion(
    admin_context: AdminContext, group_id: str, topic: str, partition: int | None, change: Change | None
) -> DeleteOffsets:
    """Return the deletion with the stored offsets; without a change it is a dry run."""
    wanted = None if partition is None else [(topic, partition)]
    stored = await admin_context.read(partial(admin_context.store.stored_offsets, group_id, wanted))
    of_topic = tuple(offset for offset in stored if offset.topic == topic)
    return DeleteOffsets(
        token=admin_context.new_token(),
        partitions=tuple(wanted or [(offset.topic, offset.partition) for offset in of_topic]),
        stored=of_topic,
        change_id="" if change is None else change.change_id,
        is_dry_run=change is None,
    )


def _describe_deletion(
    arguments: Json, stored: tuple[StoredOffset, ...], _before: Group, _after: Group, answer: Answer
) -> tuple[Json, Json] | None:
    assert isinstance(answer, DeleteOffsetsResponse)
    if answer.is_refused:
        return None
    return offsets_json(removed(stored, answer)), {**arguments, **deleted_json(answer)}


async def delete_group(admin_context: AdminContext, group_id: str, change: Change) -> None:
    """Delete an Empty group and its offsets, which go to the archive under the change."""
    async with admin_context.serving_shard(group_id).locked(group_id) as submit:
        if await admin_context.recorded_change(change, ChangeAction.DELETE_GROUP, group_id) is not None:
            return
        stored = await admin_context.read(partial(admin_context.store.stored_offsets, group_id, None))
        token = admin_context.new_token()
        recorder = ChangeRecorder(
            change, ChangeAction.DELETE_GROUP, group_id, token, partial(_describe_group_deletion, stored)
        )
        await submit(token, DeleteGroup(token, tuple(stored), change.change_id), recorder.extra_rows)


def _describe_group_deletion(stored: list[StoredOffset], before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    before_json = {**group_json(before), "protocol_type": before.protocol_type, **offsets_json(stored)}
    return before_json, {"state": str(after.state), "archived": len(stored)}


async def force_rebalance(admin_context: AdminContext, group_id: str, change: Change) -> None:
    """Start a rebalance; one that is under way goes on."""
    async with admin_context.serving_shard(group_id).locked(group_id) as submit:
        if await admin_context.recorded_change(change, ChangeAction.FORCE_REBALANCE, group_id) is not None:
            return
        token = admin_context.new_token()
        recorder = ChangeRecorder(change, ChangeAction.FORCE_REBALANCE, group_id, token, _describe_states)
        await submit(token, ForceRebalance(token, change.reason or ""), recorder.extra_rows)


def _describe_states(before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    return group_json(before), group_json(after)


async def reload_group(admin_context: AdminContext, group_id: str, change: Change) -> None:
    """Reload a quarantined group from its rows."""
    shard = admin_context.loaded_shard(group_id)
    if await admin_context.recorded_change(change, ChangeAction.RELOAD_GROUP, group_id) is not None:
        return
    quarantined = admin_context.quarantine.get(group_id)
    if quarantined is None:
        raise ReloadRefused("the group is not quarantined, so there is nothing to reload")
    stored = await admin_context.read(partial(admin_context.store.load_group, group_id))
    token = admin_context.new_token()
    recorder = ChangeRecorder(
        change, ChangeAction.RELOAD_GROUP, group_id, token, partial(_describe_reload, quarantined.reason)
    )
    try:
        await shard.reload(group_id, stored, token, recorder.extra_rows)
    except UnreadableRow as failure:
        raise ReloadRefused(f"the group remains quarantined: {failure}") from failure


def _describe_reload(reason: str, _before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    return {"quarantined": reason}, group_json(after)


async def remove_member(admin_context: AdminContext, group_id: str, member_id: str, change: Change) -> None:
    """Remove a member as if it had left."""
    arguments = {"member_id": member_id}
    async with admin_context.serving_shard(group_id).locked(group_id) as submit:
        if await admin_context.recorded_change(change, ChangeAction.REMOVE_MEMBER, group_id, arguments) is not None:
            return
        token = admin_context.new_token()
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
