"""An undo takes a change back as far as nothing newer stands there, and is a change itself.

What it comes to depends on what the change did:

* offsets of one group (a reset, a deletion of offsets or of the group): decided by the group, at once;
* offsets of many groups (an applied run, a deleted topic): a run of its own, worked off by the owners of the shards;
* settings: key by key, at once;
* anything else cannot be taken back, and says so.

Source: http-api.md "Taking a change back"; maintenance.md "Taking it back".
"""

from collections.abc import Mapping
from functools import partial

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import Answer, OffsetsRestored
from coordinator_core.protocol.requests import RestoreOffsets
from coordinator_core.runtime.act import Act, CannotUndo, ChangeUnknown, Noting
from coordinator_core.runtime.desk import Desk
from coordinator_core.runtime.notes import reset_to_restore, restored_json, to_restore
from coordinator_core.store.actions import Action
from coordinator_core.store.interface import NotUndoable
from coordinator_core.store.rows import ChangeRow, Json, RecordedChange
from coordinator_core.store.runs import RunStatus

OF_ONE_GROUP = frozenset({Action.RESET_OFFSETS, Action.DELETE_OFFSETS, Action.DELETE_GROUP})
OF_MANY_GROUPS = frozenset({Action.APPLY_RUN, Action.DELETE_TOPIC})
WHY_NOT: Mapping[str, str] = {
    Action.FORCE_REBALANCE: "a rebalance has happened",
    Action.REMOVE_MEMBER: "a member that was put out joins again by itself",
    Action.PUT_TOPIC: "a topic's partitions can only grow",
    Action.DELETE_LOG_ENDS: "the next report of an end brings it back",
    Action.REJECT_RUN: "nothing was taken; propose it again",
    Action.DROP_PARTITION: "its rows lie in the archive; history_restore brings them back",
    Action.RESTORE_PARTITION: "its rows stand in their table; history_archive may take them away again",
    Action.START_INCARNATION: "generations never fall",
    Action.UNDO: "an undo is not undone; do again what it took back",
}
"""Action → why it cannot be taken back."""


async def find_undoable(desk: Desk, change_id: str, act: Act) -> ChangeRow:
    """Return the change to take back.

    Raises:
        ChangeUnknown: there is none.
        CannotUndo: it is of a kind that cannot be taken back, or somebody else has done it.
    """
    found = await desk.read(partial(desk.store.change, change_id))
    if found is None:
        raise ChangeUnknown(f"there is no change {change_id}")
    change = found.change
    if change.action not in OF_ONE_GROUP | OF_MANY_GROUPS | {Action.PUT_SETTINGS}:
        raise CannotUndo(f"a change {change.action} cannot be undone: {WHY_NOT.get(change.action, 'nobody knows how')}")
    status_before = (change.before or {}).get("status", RunStatus.PROPOSED)
    if change.action == Action.APPLY_RUN and status_before != RunStatus.PROPOSED:
        raise CannotUndo("it took nothing: the run was applied by another change")
    _check_not_undone(found, act)
    return change


def _check_not_undone(found: RecordedChange, act: Act) -> None:
    if found.undone_at_ms is not None and found.undone_by != act.change_id:
        raise CannotUndo(f"it was undone already, by the change {found.undone_by}")


async def undo_in_store(desk: Desk, undone: ChangeRow, act: Act) -> ChangeRow:
    """Take back what the store can by itself: settings; or begin a run that takes back what was archived."""
    change = act.change(Action.UNDO, undone.group_id, desk.wall_ms())
    is_run = undone.action in OF_MANY_GROUPS
    undo = desk.store.begin_undo if is_run else desk.store.undo_settings
    try:
        return await desk.read(partial(undo, undone.change_id, change))
    except NotUndoable as refusal:
        raise CannotUndo(str(refusal)) from refusal


async def undo_in_group(desk: Desk, undone: ChangeRow, act: Act) -> ChangeRow:
    """Take back what happened to the offsets of one group."""
    group_id = undone.group_id or ""
    what = {"undoes": undone.change_id}
    async with desk.serving(group_id).holding(group_id) as ask:
        made = await desk.made(act, Action.UNDO, group_id, what)
        if made is not None:
            return made
        await find_undoable(desk, undone.change_id, act)
        request = await desk.read(partial(_request, desk, group_id, undone, act))
        tell = partial(_tell, {**what, "action": undone.action})
        noting = Noting(act, Action.UNDO, group_id, request.token, tell, undoes=undone.change_id)
        await ask(request.token, request, noting.beside)
    noted = await desk.made(act, Action.UNDO, group_id, what)
    assert noted is not None, "the change was stored with the decision"
    return noted


def _request(desk: Desk, group_id: str, undone: ChangeRow, act: Act) -> RestoreOffsets:
    taken = desk.store.archived_offsets(undone.change_id, group_id)
    is_reset = undone.action == Action.RESET_OFFSETS
    offsets = reset_to_restore(undone, taken) if is_reset else tuple(map(to_restore, taken))
    partitions = [(one.topic, one.partition) for one in offsets]
    stored = desk.store.stored_offsets(group_id, partitions) if partitions else []
    return RestoreOffsets(desk.new_token(), offsets, tuple(stored), act.change_id)


def _tell(what: Mapping[str, Json], _before: Group, _after: Group, answer: Answer) -> tuple[Json, Json]:
    assert isinstance(answer, OffsetsRestored)
    return None, {**what, **restored_json(answer)}
