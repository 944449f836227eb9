"""A desk is what every operation on groups works at: the store to read from, and the shards that decide."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from coordinator_core.protocol.requests import Token
from coordinator_core.runtime.act import Act, check_same
from coordinator_core.runtime.quarantine import Quarantine
from coordinator_core.runtime.shard import Shard
from coordinator_core.store.actions import Action
from coordinator_core.store.interface import Store
from coordinator_core.store.rows import ChangeRow, Json

T = TypeVar("T")


class Reading(Protocol):
    """Calls the store on a thread of its own; what it raises, callers may see."""

    async def __call__(self, call: Callable[[], T]) -> T:
        """Return what the call returns."""
        ...


@dataclass(frozen=True, slots=True)
class Desk:
    """What operations share."""

    store: Store
    read: Reading
    new_token: Callable[[], Token]
    serving: Callable[[str], Shard]
    """Returns the shard of a group, if this node certainly owns it and the group is not quarantined."""
    wall_ms: Callable[[], int]
    log_end_max_age_ms: Callable[[], int]
    loaded_shard: Callable[[str], Shard]
    """Returns the shard of a group, be the group quarantined or not."""
    quarantine: Quarantine

    async def made(
        self, act: Act, action: Action, group_id: str | None, what: Mapping[str, Json] | None = None
    ) -> ChangeRow | None:
        """Return the change that this very act has made before, if it has.

        Raises:
            KeyTaken: its id belongs to another act.
        """
        found = await self.read(partial(self.store.change, act.change_id))
        return None if found is None else check_same(found, action, group_id, what or {})
