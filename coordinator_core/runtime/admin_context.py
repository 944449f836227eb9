"""Dependencies shared by the admin operations: the store, and the node's shards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from coordinator_core.protocol.requests import Token
from coordinator_core.runtime.changes import Change, check_same_change
from coordinator_core.runtime.history import StoreReader
from coordinator_core.runtime.quarantine import Quarantine
from coordinator_core.runtime.shard import Shard
from coordinator_core.store.change_actions import ChangeAction
from coordinator_core.store.interface import Store
from coordinator_core.store.rows import ChangeRow, Json


@dataclass(frozen=True, slots=True)
class AdminContext:
    """What the admin operations need of their node."""

    store: Store
    read: StoreReader
    new_token: Callable[[], Token]
    serving_shard: Callable[[str], Shard]
    """Returns the shard of a group; raises CoordinatorError unless this node serves the group."""
    wall_ms: Callable[[], int]
    log_end_max_age_ms: Callable[[], int]
    loaded_shard: Callable[[str], Shard]
    """Returns the shard of a group that this node owns, even if the group is quarantined."""
    quarantine: Quarantine

    async def recorded_change(
        self, change: Change, action: ChangeAction, group_id: str | None, arguments: Mapping[str, Json] | None = None
    ) -> ChangeRow | None:
        """Return the recorded row if this change was made before, else None.

        Raises:
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        found = await self.read(partial(self.store.change, change.change_id))
        return None if found is None else check_same_change(found, action, group_id, arguments or {})
