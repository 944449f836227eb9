"""Drop days of history from Postgres that were copied to the archive.

History belongs to no shard, so every node does this work; each takes the next day that no other node is deciding. A
long read of a history table blocks the drop, and each attempt delays writers of history. So after a failure the node
waits before the next attempt.

Source: ARCHITECTURE.md "Maintenance".
"""

from collections.abc import Callable
from functools import partial

import structlog

from coordinator_core.runtime.clock import Threads
from coordinator_core.runtime.memory import end_if_out_of_memory
from coordinator_core.state_store.interface import RuntimeStore, StoreError
from coordinator_core.state_store.partition_drop import HasCopy

log = structlog.get_logger("muster.runtime")

RETRY_AFTER_MS = 30_000
"""How long the node waits after a failure."""


class HistoryArchiver:
    """Drops the days that applying `history_archive` runs name."""

    def __init__(self, store: RuntimeStore, threads: Threads, node_ms: Callable[[], int], has_copy: HasCopy) -> None:
        self._drop_next = partial(store.drop_archived, has_copy)
        self._threads = threads
        self._node_ms = node_ms
        self._retry_at_ms = 0

    async def process_pending(self) -> None:
        """Decide every day that applying runs name, until one fails; a failure is logged and not raised."""
        if self._node_ms() < self._retry_at_ms:
            return
        try:
            while (day := await self._threads.read(self._drop_next)) is not None:
                log.info("history_day_decided", **day._asdict())
        except Exception as error:  # any error concerns history only: runs on groups go on
            end_if_out_of_memory(error)
            self._retry_at_ms = self._node_ms() + RETRY_AFTER_MS
            log.warning("history_drop_failed", reason=str(error), exc_info=not isinstance(error, StoreError))
