"""History of groups, read from the database, so that any node answers."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from coordinator_core.protocol.errors import GroupIdNotFound
from coordinator_core.store.history import (
    ListedRebalance,
    Moment,
    OffsetAtTime,
    PartitionOwnership,
    RebalanceCursor,
    TransitionCursor,
)
from coordinator_core.store.interface import Store
from coordinator_core.store.member_session_lists import ListedMemberSession, MemberSessionCursor, MemberSessionFilter
from coordinator_core.store.rows import RebalanceMemberRow, TransitionRow

T = TypeVar("T")


class StoreReader(Protocol):
    """Calls the store on a reader thread; raises CoordinatorNotAvailable if the database cannot be reached."""

    async def __call__(self, call: Callable[[], T]) -> T:
        """Return what the call returns."""
        ...


class History:
    """The history of groups that exist and of groups that were deleted.

    Every method raises `GroupIdNotFound` if the group does not exist and has no history.
    """

    def __init__(self, store: Store, read: StoreReader, store_own_offsets: Callable[[str], Awaitable[None]]) -> None:
        self._store = store
        self._read = read
        self._store_own_offsets = store_own_offsets

    async def rebalances(self, group_id: str, after: RebalanceCursor | None, limit: int) -> list[ListedRebalance]:
        """Return at most `limit` rebalances after a cursor: the one under way, then newest first."""
        return await self._known(group_id, await self._read(partial(self._store.rebalances, group_id, after, limit)))

    async def rebalance_members(self, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
        """Return the members of a rebalance that ended, the one that was waited for longest first."""
        read = partial(self._store.rebalance_members, group_id, rebalance_id)
        return await self._known(group_id, await self._read(read))

    async def transitions(self, group_id: str, after: TransitionCursor | None, limit: int) -> list[TransitionRow]:
        """Return at most `limit` state transitions of the group after a cursor, newest first."""
        return await self._known(group_id, await self._read(partial(self._store.transitions, group_id, after, limit)))

    async def member_sessions(
        self, selected: MemberSessionFilter, after: MemberSessionCursor | None, limit: int
    ) -> list[ListedMemberSession]:
        """Return at most `limit` member sessions after a cursor, newest first."""
        return await self._known(
            selected.group_id, await self._read(partial(self._store.member_sessions, selected, after, limit))
        )

    async def as_of(self, moment: Moment) -> tuple[list[PartitionOwnership], list[OffsetAtTime]]:
        """Return the partition ownership and the committed offsets at a moment."""
        owned = await self._known(moment.group_id, await self._read(partial(self._store.ownership, moment)))
        await self._store_own_offsets(moment.group_id)
        return owned, await self._read(partial(self._store.offsets_at, moment))

    async def _known(self, group_id: str, found: list[T]) -> list[T]:
        """Return the rows found; raises GroupIdNotFound if there are none and the group is unknown."""
        if not found and not await self._read(partial(self._store.is_known_group, group_id)):
            raise GroupIdNotFound("the group does not exist and has no history")
        return found
