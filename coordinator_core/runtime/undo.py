"""Undo a change, except where something newer was stored since. An undo is a change itself.

What is undone:

* offsets of one group (a reset, a deletion of offsets or of the group): at once, by a decision of the group;
* offsets of many groups (an applied run, a deleted topic): by a run, applied by the owners of the shards;
* settings: at once, key by key.

Other changes cannot be undone.

Source: http-api.md "Undoing a change"; maintenance.md "Undo".
"""

from collections.abc import Mapping
from functools import partial

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import RestoreOffsets
from coordinator_core.protocol.responses import Answer, RestoreOffsetsResponse
from coordinator_core.runtime.admin_context import AdminContext
from coordinator_core.runtime.change_payloads import reset_to_restore, restored_json, to_restore
from coordinator_core.runtime.changes import CannotUndo, Change, ChangeNotFound, ChangeRecorder
from coordinator_core.store.change_actions import ChangeAction
from coordinator_core.store.interface import NotUndoable
from coordinator_core.store.rows import ChangeRow, Json, RecordedChange
from coordinator_core.store.runs import RunStatus

OF_ONE_GROUP = frozenset({ChangeAction.RESET_OFFSETS, ChangeAction.DELETE_OFFSETS, ChangeAction.DELETE_GROUP})
OF_MANY_GROUPS = frozenset({ChangeAction.APPLY_RUN, ChangeAction.DELETE_TOPIC})
NOT_UNDOABLE: Mapping[str, str] = {
    ChangeAction.FORCE_REBALANCE: "a rebalance has happened",
    ChangeAction.REMOVE_MEMBER: "a removed member joins again by itself",
    ChangeAction.PUT_TOPIC: "a topic's partitions can only grow",
    ChangeAction.DELETE_LOG_ENDS: "the next report of an end brings it back",
    ChangeAction.REJECT_RUN: "nothing was removed; propose the run again",
    ChangeAction.DROP_PARTITION: "its rows are in the archive; history_restore restores them",
    ChangeAction.RESTORE_PARTITION: "its rows are in their table; history_archive may archive them again",
    ChangeAction.START_INCARNATION: "generations never decrease",
    ChangeAction.UNDO: "an undo cannot be undone; repeat the change that it undid",
}
"""Action → why it cannot be undone."""


async def find_undoable(admin_context: AdminContext, change_id: str, change: Change) -> ChangeRow:
    """Return the change to undo.

    Raises:
        ChangeNotFound: there is none.
        CannotUndo: changes of its kind cannot be undone, or another change has undone it.
    """
    found = await admin_context.read(partial(admin_context.store.change, change_id))
    if found is None:
        raise ChangeNotFound(f"there is no change {change_id}")
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


async def undo_in_store(admin_context: AdminContext, undone: ChangeRow, change: Change) -> ChangeRow:
    """Undo settings in the store, or begin a run that restores archived offsets."""
    change_row = change.row(ChangeAction.UNDO, undone.group_id, admin_context.wall_ms())
    is_run = undone.action in OF_MANY_GROUPS
    undo = admin_context.store.begin_undo if is_run else admin_context.store.undo_settings
    try:
        return await admin_context.read(partial(undo, undone.change_id, change_row))
    except NotUndoable as refusal:
        raise CannotUndo(str(refusal)) from refusal


async def undo_in_group(admin_context: AdminContext, undone: ChangeRow, change: Change) -> ChangeRow:
    """Undo a change of one group's offsets."""
    group_id = undone.group_id or ""
    arguments = {"undoes": undone.change_id}
    async with admin_context.serving_shard(group_id).locked(group_id) as submit:
        earlier = await admin_context.recorded_change(change, ChangeAction.UNDO, group_id, arguments)
        if earlier is not None:
            return earlier
        await find_undoable(admin_context, undone.change_id, change)
        request = await admin_context.read(partial(_request, admin_context, group_id, undone, change))
        describe = partial(_describe, {**arguments, "action": undone.action})
        recorder = ChangeRecorder(change, ChangeAction.UNDO, group_id, request.token, describe, undoes=undone.change_id)
        await submit(request.token, request, recorder.extra_rows)
    recorded = await admin_context.recorded_change(change, ChangeAction.UNDO, group_id, arguments)
    assert recorded is not None, "the change was stored with the decision"
    return recorded


def _request(admin_context: AdminContext, group_id: str, undone: ChangeRow, change: Change) -> RestoreOffsets:
    archived = admin_context.store.archived_offsets(undone.change_id, group_id)
    is_reset = undone.action == ChangeAction.RESET_OFFSETS
    offsets = reset_to_restore(undone, archived) if is_reset else tuple(map(to_restore, archived))
    partitions = [(one.topic, one.partition) for one in offsets]
    stored = admin_context.store.stored_offsets(group_id, partitions) if partitions else []
    return RestoreOffsets(admin_context.new_token(), offsets, tuple(stored), change.change_id)


def _describe(recorded: Mapping[str, Json], _before: Group, _after: Group, answer: Answer) -> tuple[Json, Json]:
    assert isinstance(answer, RestoreOffsetsResponse)
    return None, {**recorded, **restored_json(answer)}
