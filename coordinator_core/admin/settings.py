"""Changes of settings of a group or the cluster.

The node that owns a group changes its settings; any node changes those of the cluster.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from coordinator_core.admin.changes import Change, IdempotencyKeyConflict, recorded_change
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable
from coordinator_core.protocol.setting_rules import SettingValue, check_settings
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction


async def put_settings(
    coordinator: Coordinator, group_id: str | None, values: Mapping[str, SettingValue], change: Change
) -> None:
    """Change settings of a group or the cluster; effective on this node when it returns.

    The other nodes apply settings of the cluster at their next renewal; `Confirmations` lists those that have not.

    Raises:
        NotCoordinator: another node owns the group; nothing was changed.
        InvalidRequest: a key or value is invalid, or conflicts with the other settings.
    """
    check_settings(values, is_cluster=group_id is None)
    texts = {key: None if value is None else str(value) for key, value in values.items()}
    async with coordinator.metadata_cache.changing:
        with owned_group(coordinator, group_id):
            await _put_settings(coordinator, group_id, texts, change)


async def _put_settings(
    coordinator: Coordinator, group_id: str | None, texts: Mapping[str, str | None], change: Change
) -> None:
    """Change settings; once more if those that the change is checked against were changed meanwhile."""
    is_stored = False
    while not is_stored:
        await coordinator.refresh_settings()
        earlier = await recorded_change(coordinator, change, ChangeAction.PUT_SETTINGS, group_id)
        if earlier is not None:
            if earlier.after != texts:
                raise IdempotencyKeyConflict
            return
        coordinator.metadata_cache.check_change(group_id, texts)
        checked = coordinator.metadata_cache.versions
        change_row = change.row(ChangeAction.PUT_SETTINGS, group_id, coordinator.wall_ms())
        stored = partial(coordinator.store.put_settings, group_id, texts, change_row, checked)
        is_stored = await coordinator.read(stored)
    await coordinator.refresh_settings()


@contextmanager
def owned_group(coordinator: Coordinator, group_id: str | None) -> Iterator[None]:
    """Check before and after a change of settings that this node owns the group, if there is one.

    A node applies the newest settings after it has acquired a shard and before it serves it. So if the group moves
    after the second check, the change is effective at its new owner.

    Raises:
        CoordinatorError: this node does not own the group, and nothing was changed.
        CoordinatorNotAvailable: this node lost the group during the change, which may be stored.
    """
    if group_id is None:
        yield
        return
    coordinator.loaded_shard(group_id)
    yield
    try:
        coordinator.loaded_shard(group_id)
    except CoordinatorError as error:
        raise CoordinatorNotAvailable("this node lost the group during the change; repeat it") from error
