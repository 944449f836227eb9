"""What operators do to one group: each act holds the group, is decided, and is stored with its row of `changes`.

An act that was done before under the same id is answered from that row (`act`). The group is held meanwhile, so of
two alike that come at once the second finds the first.

Source: http-api.md "For operators"; ARCHITECTURE.md "Where a request goes".
"""

from functools import partial

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import Answer, OffsetsDeleted
from coordinator_core.protocol.requests import DeleteGroup, DeleteOffsets, ForceRebalance, RemoveMember, StoredOffset
from coordinator_core.runtime.act import Act, Noting
from coordinator_core.runtime.desk import Desk
from coordinator_core.runtime.notes import deleted_json, deletion_noted, group_json, offsets_json, removed
from coordinator_core.runtime.quarantine import ReloadRefused
from coordinator_core.runtime.shard import nothing_beside
from coordinator_core.store.actions import Action
from coordinator_core.store.row_checks import UnreadableRow
from coordinator_core.store.rows import Json


async def try_deletion(desk: Desk, group_id: str, topic: str, partition: int | None) -> OffsetsDeleted:
    """Tell what a deletion of offsets would do; nothing is stored."""
    async with desk.serving(group_id).holding(group_id) as ask:
        request = await _deletion(desk, group_id, topic, partition, None)
        answer = await ask(request.token, request, nothing_beside)
    assert isinstance(answer, OffsetsDeleted)
    return answer


async def delete_offsets(desk: Desk, group_id: str, topic: str, partition: int | None, act: Act) -> OffsetsDeleted:
    """Take a topic's offsets, or one of them, away; they go to the archive under the act's change."""
    what = {"topic": topic, "partition": partition}
    async with desk.serving(group_id).holding(group_id) as ask:
        made = await desk.made(act, Action.DELETE_OFFSETS, group_id, what)
        if made is not None:
            return deletion_noted(made)
        request = await _deletion(desk, group_id, topic, partition, act)
        tell = partial(_tell_deletion, what, request.stored)
        noting = Noting(act, Action.DELETE_OFFSETS, group_id, request.token, tell)
        answer = await ask(request.token, request, noting.beside)
    assert isinstance(answer, OffsetsDeleted)
    return answer


async def _deletion(desk: Desk, group_id: str, topic: str, partition: int | None, act: Act | None) -> DeleteOffsets:
    """Return the deletion with what stands there now; without an act it is a dry run."""
    wanted = None if partition is None else [(topic, partition)]
    stored = await desk.read(partial(desk.store.stored_offsets, group_id, wanted))
    of_topic = tuple(offset for offset in stored if offset.topic == topic)
    return DeleteOffsets(
        token=desk.new_token(),
        partitions=tuple(wanted or [(offset.topic, offset.partition) for offset in of_topic]),
        stored=of_topic,
        change_id="" if act is None else act.change_id,
        is_dry_run=act is None,
    )


def _tell_deletion(
    what: Json, stored: tuple[StoredOffset, ...], _before: Group, _after: Group, answer: Answer
) -> tuple[Json, Json] | None:
    assert isinstance(answer, OffsetsDeleted)
    if answer.is_refused:
        return None
    return offsets_json(removed(stored, answer)), {**what, **deleted_json(answer)}


async def delete_group(desk: Desk, group_id: str, act: Act) -> None:
    """Take an empty group away with its offsets, which go to the archive under the act's change."""
    async with desk.serving(group_id).holding(group_id) as ask:
        if await desk.made(act, Action.DELETE_GROUP, group_id) is not None:
            return
        stored = await desk.read(partial(desk.store.stored_offsets, group_id, None))
        token = desk.new_token()
        noting = Noting(act, Action.DELETE_GROUP, group_id, token, partial(_tell_end, stored))
        await ask(token, DeleteGroup(token, tuple(stored), act.change_id), noting.beside)


def _tell_end(stored: list[StoredOffset], before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    was = {**group_json(before), "protocol_type": before.protocol_type, **offsets_json(stored)}
    return was, {"state": str(after.state), "archived": len(stored)}


async def force_rebalance(desk: Desk, group_id: str, act: Act) -> None:
    """Start a rebalance because an operator wants one; one that is under way goes on."""
    async with desk.serving(group_id).holding(group_id) as ask:
        if await desk.made(act, Action.FORCE_REBALANCE, group_id) is not None:
            return
        token = desk.new_token()
        noting = Noting(act, Action.FORCE_REBALANCE, group_id, token, _tell_states)
        await ask(token, ForceRebalance(token, act.reason or ""), noting.beside)


def _tell_states(before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    return group_json(before), group_json(after)


async def reload_group(desk: Desk, group_id: str, act: Act) -> None:
    """Load a quarantined group again from its rows."""
    shard = desk.loaded_shard(group_id)
    if await desk.made(act, Action.RELOAD_GROUP, group_id) is not None:
        return
    quarantined = desk.quarantine.get(group_id)
    if quarantined is None:
        raise ReloadRefused("the group is not quarantined, so there is nothing to reload")
    stored = await desk.read(partial(desk.store.load_group, group_id))
    token = desk.new_token()
    noting = Noting(act, Action.RELOAD_GROUP, group_id, token, partial(_tell_reload, quarantined.reason))
    try:
        await shard.reload(group_id, stored, token, noting.beside)
    except UnreadableRow as failure:
        raise ReloadRefused(f"the group stays quarantined: {failure}") from failure


def _tell_reload(reason: str, _before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    return {"quarantined": reason}, group_json(after)


async def remove_member(desk: Desk, group_id: str, member_id: str, act: Act) -> None:
    """Put a member out as if it had left."""
    what = {"member_id": member_id}
    async with desk.serving(group_id).holding(group_id) as ask:
        if await desk.made(act, Action.REMOVE_MEMBER, group_id, what) is not None:
            return
        token = desk.new_token()
        noting = Noting(act, Action.REMOVE_MEMBER, group_id, token, partial(_tell_removal, member_id))
        await ask(token, RemoveMember(token, member_id, act.reason or ""), noting.beside)


def _tell_removal(member_id: str, before: Group, after: Group, _: Answer) -> tuple[Json, Json]:
    member = before.members[member_id]
    who = {
        "member_id": member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
    }
    return {**who, **group_json(before)}, {"member_id": member_id, **group_json(after)}
