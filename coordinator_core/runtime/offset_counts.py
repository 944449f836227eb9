"""Counts of the committed offsets of groups, for the limit `group_max_offsets`.

The node knows by how many offsets a group has grown at most, since each checkpoint begins anew. A group is counted in
the table when it may have reached its limit by that, and while it is beyond it. So a group can be beyond its limit by
what it commits between two rounds, and by `UNCOUNTED_MAX` offsets.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import structlog

from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.clock import Threads
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.runtime.shard import Shard
from coordinator_core.state_store.interface import RuntimeStore, StoreError

log = structlog.get_logger("muster.runtime")

COUNT_INTERVAL_S: Final = 5.0
"""How often the loop counts."""
UNCOUNTED_MAX: Final = 1_000
"""By how many offsets a group grows at least before it is counted."""
GROUPS_PER_QUERY: Final = 500


class OffsetCounts:
    """The loop that counts the offsets of growing groups."""

    def __init__(
        self,
        store: RuntimeStore,
        threads: Threads,
        shards: Callable[[], Iterable[Shard]],
        settings_of: Callable[[str], GroupSettings],
    ) -> None:
        self._store = store
        self._threads = threads
        self._shards = shards
        self._settings_of = settings_of

    async def run(self) -> None:
        """Count at every interval, without end."""
        while True:
            await asyncio.sleep(COUNT_INTERVAL_S)
            try:
                await self.count()
            except StoreError as error:
                log.warning("offset_count_failed", reason=str(error))

    async def count(self) -> None:
        """Count the groups that are due; yields to the event loop after every shard.

        Raises:
            StoreError: the database cannot be reached.
        """
        for shard in list(self._shards()):
            due = [group_context for group_context in shard.groups.values() if self._is_due(group_context)]
            for start in range(0, len(due), GROUPS_PER_QUERY):
                await self._count(due[start : start + GROUPS_PER_QUERY])
            await asyncio.sleep(0)

    def _is_due(self, group_context: GroupContext) -> bool:
        uncounted, counted = group_context.uncounted_offsets, group_context.offset_count
        if uncounted <= UNCOUNTED_MAX and not counted:
            return False
        limit = self._settings_of(group_context.group.group_id).group_max_offsets
        return counted > limit or uncounted > max(UNCOUNTED_MAX, limit - counted if counted else 0)

    async def _count(self, due: list[GroupContext]) -> None:
        uncounted = [group_context.uncounted_offsets for group_context in due]
        group_ids = [group_context.group.group_id for group_context in due]
        counts = await self._threads.read(partial(self._store.count_offsets, group_ids))
        for group_context, before in zip(due, uncounted, strict=True):
            group_context.offset_count = counts.get(group_context.group.group_id, 0)
            group_context.uncounted_offsets -= before
