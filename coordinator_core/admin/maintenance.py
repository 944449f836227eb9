"""Decisions of operators about maintenance runs; the owners of the shards carry them out."""

from functools import partial

from coordinator_core.admin.changes import Change, recorded_change
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.runs import RunRow


async def apply_run(coordinator: Coordinator, run_id: str, change: Change, candidates: int | None = None) -> RunRow:
    """Mark a run as applying; the owners of its shards decide its candidates. May be repeated.

    Args:
        coordinator: the coordinator of this node.
        run_id: the run.
        change: the operator's change.
        candidates: how many candidates the operator has seen; None: any number.

    Returns:
        The run. It is unchanged if it was applied or rejected before, or has another number of candidates.

    Raises:
        RunNotFound: there is no such run.
    """
    await recorded_change(coordinator, change, ChangeAction.APPLY_RUN, None, {"run_id": run_id})
    change_row = change.row(ChangeAction.APPLY_RUN, None, coordinator.wall_ms())
    run = await coordinator.read(partial(coordinator.store.begin_apply, run_id, change_row, candidates))
    coordinator.wake_maintenance()
    return run


async def reject_run(coordinator: Coordinator, run_id: str, change: Change) -> RunRow:
    """Mark a proposed run as rejected, so that it is never applied.

    Returns:
        The run; unchanged if it is applying or applied.

    Raises:
        RunNotFound: there is no such run.
    """
    await recorded_change(coordinator, change, ChangeAction.REJECT_RUN, None, {"run_id": run_id})
    change_row = change.row(ChangeAction.REJECT_RUN, None, coordinator.wall_ms())
    return await coordinator.read(partial(coordinator.store.reject, run_id, change_row))
