"""Undo a change, except where something newer was stored since. An undo is a change itself.

What is undone:

* offsets of one group (a reset, a deletion of offsets or of the group): at once, by a decision of the group;
* offsets of many groups (an applied run, a deleted topic): by a run, applied by the owners of the shards;
* settings: at once, key by key.

Other changes cannot be undone.

Source: http-api.md "Undoing a change"; maintenance.md "Undo".
"""

from collections.abc import Callable, Mapping
from functools import partial

from coordinator_core.admin.change_payloads import (
    RestoredOffsets,
    left_or_restored,
    reset_to_restore,
    restored_json,
)
from coordinator_core.admin.changes import CannotUndo, Change, ChangeRecorder, find_change, recorded_change
from coordinator_core.admin.settings import owned_group
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import RestoreOffsets
from coordinator_core.protocol.responses import Answer, RestoreOffsetsResponse
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.interface import NotUndoable, Store
from coordinator_core.state_store.rows import ChangeRow, Json, RecordedChange
from coordinator_core.state_store.runs import RunStatus

OF_ONE_GROUP = frozenset({ChangeAction.RESET_OFFSETS, ChangeAction.DELETE_OFFSETS, ChangeAction.DELETE_GROUP})
OF_MANY_GROUPS = frozenset({ChangeAction.APPLY_RUN, ChangeAction.DELETE_TOPIC})
NOT_UNDOABLE: Mapping[str, str] = {
    ChangeAction.FORCE_REBALANCE: "a rebalance has happened",
    ChangeAction.REMOVE_MEMBER: "a removed member joins again by itself",
    ChangeAction.RELOAD_GROUP: "a reload changes no row",
    ChangeAction.PUT_TOPIC: "a topic's partitions can only grow",
    ChangeAction.DELETE_LOG_ENDS: "the next report of an end brings it back",
    ChangeAction.REJECT_RUN: "nothing was removed; propose the run again",
    ChangeAction.EXPIRE_RUN: "nothing was removed; propose the run again",
    ChangeAction.DROP_PARTITION: "its rows are in the archive; history_restore restores them",
    ChangeAction.RESTORE_PARTITION: "its rows are in their table; history_archive may archive them again",
    ChangeAction.START_INCARNATION: "generations never decrease",
    ChangeAction.ISSUE_TOKEN: "muster tokens revoke ends the token",
    ChangeAction.EXPIRE_TOKEN: "muster tokens expire sets another time",
    ChangeAction.REVOKE_TOKEN: "a token is revoked for good; issue another one",
    ChangeAction.UNDO: "an undo cannot be undone; repeat the change that it undid",
}
"""Action → why it cannot be undone."""


async def undo_change(coordinator: Coordinator, change_id: str, change: Change) -> ChangeRow:
    """Undo a change, except where something newer was stored since.

    Returns:
        The undo as it was recorded; its `after` lists what was restored.

    Raises:
        ChangeNotFound: there is no such change.
        CannotUndo: it cannot be undone, or not any more.
        NonEmptyGroup: members read every topic that it would restore; stop them first.
        InvalidRequest: a restored setting would conflict with the other settings.
    """
    undone = await _find_undoable(coordinator, change_id, change)
    if undone.action == ChangeAction.PUT_SETTINGS:
        async with coordinator.metadata_cache.changing:
            with owned_group(coordinator, undone.group_id):
                return await _undo_settings(coordinator, undone, change)
    earlier = await _recorded_undo(coordinator, undone, change)
    if earlier is not None:
        return earlier
    if undone.action in OF_ONE_GROUP:
        return await _undo_in_group(coordinator, undone, change)
    recorded = await _undo_in_store(coordinator, undone, change, coordinator.store.begin_undo)
    assert recorded is not None, "it depends on no settings"
    await coordinator.refresh_settings()
    coordinator.wake_maintenance()
    return recorded


async def _undo_settings(coordinator: Coordinator, undone: ChangeRow, change: Change) -> ChangeRow:
    """Undo a change of settings; once more if other settings were changed meanwhile."""
    recorded = None
    while recorded is None:
        await coordinator.refresh_settings()
        checked = coordinator.metadata_cache.versions
        earlier = await _recorded_undo(coordinator, undone, change)
        if earlier is not None:
            return earlier
        restorable = await coordinator.read(partial(coordinator.store.restorable_settings, undone))
        coordinator.metadata_cache.check_change(undone.group_id, restorable)
        stored = partial(coordinator.store.undo_settings, checked=checked)
        recorded = await _undo_in_store(coordinator, undone, change, stored)
    await coordinator.refresh_settings()
    return recorded


async def _recorded_undo(coordinator: Coordinator, undone: ChangeRow, change: Change) -> ChangeRow | None:
    arguments = {"undoes": undone.change_id}
    return await recorded_change(coordinator, change, ChangeAction.UNDO, undone.group_id, arguments)


async def _find_undoable(coordinator: Coordinator, change_id: str, change: Change) -> ChangeRow:
    """Return the change to undo.

    Raises:
        ChangeNotFound: there is none.
        CannotUndo: changes of its kind cannot be undone, or another change has undone it.
    """
    found = await find_change(coordinator, change_id)
    change_row = found.change
    if change_row.action not in OF_ONE_GROUP | OF_MANY_GROUPS | {ChangeAction.PUT_SETTINGS}:
        raise CannotUndo(
            f"a change {change_row.action} cannot be undone: {NOT_UNDOABLE.get(change_row.action, 'unsupported')}"
        )
    status_before = (change_row.before or {}).get("status", RunStatus.PROPOSED)
    if change_row.action == ChangeAction.APPLY_RUN and status_before != RunStatus.PROPOSED:
        raise CannotUndo("it removed nothing: the run was applied by another change")
    _check_not_undone(found, change)
    return change_row


def _check_not_undone(found: RecordedChange, change: Change) -> None:
    if found.undone_at_ms is not None and found.undone_by_change_id != change.change_id:
        raise CannotUndo(f"it was already undone by the change {found.undone_by_change_id}")


async def _undo_in_store(
    coordinator: Coordinator, undone: ChangeRow, change: Change, undo_stored: Callable[[str, ChangeRow], object]
) -> ChangeRow | None:
    """Undo settings in the store, or begin a run that restores archived offsets; None: the store did nothing."""
    change_row = change.row(ChangeAction.UNDO, undone.group_id, coordinator.wall_ms())
    try:
        await coordinator.read(partial(undo_stored, undone.change_id, change_row))
    except NotUndoable as refusal:
        raise CannotUndo(str(refusal)) from refusal
    return await _recorded_undo(coordinator, undone, change)


async def _undo_in_group(coordinator: Coordinator, undone: ChangeRow, change: Change) -> ChangeRow:
    """Undo a change of one group's offsets."""
    group_id = undone.group_id or ""
    arguments = {"undoes": undone.change_id}
    async with coordinator.serving_shard(group_id).locked(group_id) as submit:
        earlier = await recorded_change(coordinator, change, ChangeAction.UNDO, group_id, arguments)
        if earlier is not None:
            return earlier
        await _find_undoable(coordinator, undone.change_id, change)
        request = await coordinator.read(partial(_request, coordinator, group_id, undone, change))
        describe = partial(_describe, {**arguments, "action": undone.action})
        recorder = ChangeRecorder(change, ChangeAction.UNDO, group_id, request.token, describe, undoes=undone.change_id)
        await submit(request.token, request, recorder.extra_rows)
    recorded = await recorded_change(coordinator, change, ChangeAction.UNDO, group_id, arguments)
    assert recorded is not None, "the change was stored with the decision"
    return recorded


def _request(coordinator: Coordinator, group_id: str, undone: ChangeRow, change: Change) -> RestoreOffsets:
    archived = coordinator.store.archived_offsets(undone.change_id, group_id)
    is_reset = undone.action == ChangeAction.RESET_OFFSETS
    offsets = reset_to_restore(undone, archived) if is_reset else tuple(one.to_restore() for one in archived)
    partitions = [(one.topic, one.partition) for one in offsets]
    stored = coordinator.store.stored_offsets(group_id, partitions) if partitions else []
    if is_reset:
        offsets = left_or_restored(offsets, stored, _restored(coordinator.store, group_id))
    return RestoreOffsets(coordinator.new_token(), offsets, tuple(stored), change.change_id)


def _restored(store: Store, group_id: str) -> RestoredOffsets:
    """Return what undos of changes of the group may have committed, by any node's clock."""
    return {
        (one.topic, one.partition, one.offset, undone.undone_at_ms): one.committed_at_ms
        for undone in store.undone_changes(group_id)
        for one in store.archived_offsets(undone.change.change_id, group_id)
        if undone.undone_at_ms is not None
    }


def _describe(recorded: Mapping[str, Json], _before: Group, _after: Group, answer: Answer) -> tuple[Json, Json]:
    assert isinstance(answer, RestoreOffsetsResponse)
    return None, {**recorded, **restored_json(answer)}
