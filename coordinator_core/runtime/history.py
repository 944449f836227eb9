"""The ledger is read from the database, whoever serves the group: any node may answer."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from coordinator_core.protocol.errors import GroupIdNotFound
from coordinator_core.store.history import (
    ListedRebalance,
    Moment,
    OwnedSpan,
    PositionThen,
    RebalancePlace,
    TransitionPlace,
)
from coordinator_core.store.interface import Store
from coordinator_core.store.rows import RebalanceMemberRow, TransitionRow
from coordinator_core.store.stay_lists import ListedStay, StayFilter, StayPlace

T = TypeVar("T")


class Read(Protocol):
    """How a blocking read is called: beside the loop, its failures told as the callers' own errors."""

    async def __call__(self, call: Callable[[], T]) -> T:
        """Return what the call returns."""
        ...


class History:
    """What was, of groups that stand and of groups that are gone.

    Every question raises `GroupIdNotFound` about a group that nobody ever saw.
    """

    def __init__(self, store: Store, read: Read) -> None:
        self._store = store
        self._read = read

    async def rebalances(self, group_id: str, after: RebalancePlace | None, limit: int) -> list[ListedRebalance]:
        """Return at most `limit` rebalances after a place, the newest first and the one under way before it."""
        return await self._known(group_id, await self._read(partial(self._store.rebalances, group_id, after, limit)))

    async def rebalance_members(self, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
        """Return everybody's part in a rebalance that is over, who was waited for longest first."""
        read = partial(self._store.rebalance_members, group_id, rebalance_id)
        return await self._known(group_id, await self._read(read))

    async def transitions(self, group_id: str, after: TransitionPlace | None, limit: int) -> list[TransitionRow]:
        """Return at most `limit` changes of the group's state after a place, the newest first."""
        return await self._known(group_id, await self._read(partial(self._store.transitions, group_id, after, limit)))

    async def stays(self, which: StayFilter, after: StayPlace | None, limit: int) -> list[ListedStay]:
        """Return at most `limit` of members' stays after a place, the newest first."""
        return await self._known(which.group_id, await self._read(partial(self._store.stays, which, after, limit)))

    async def as_of(self, moment: Moment) -> tuple[list[OwnedSpan], list[PositionThen]]:
        """Return who held which partitions at a moment, and what was committed."""
        owned = await self._known(moment.group_id, await self._read(partial(self._store.ownership, moment)))
        return owned, await self._read(partial(self._store.positions, moment))

    async def _known(self, group_id: str, found: list[T]) -> list[T]:
        """Return what was found, if only because the group is known and there is nothing."""
        if not found and not await self._read(partial(self._store.knows, group_id)):
            raise GroupIdNotFound("nobody has ever seen this group")
        return found
