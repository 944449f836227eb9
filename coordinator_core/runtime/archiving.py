"""Days of history that lie in the archive leave Postgres one by one; whichever node is free takes the next.

History belongs to no shard, so nobody owns this work: a day that one node decides about is passed over by the others.
Somebody who reads a table for long keeps a day of it where it is; then this rests for a while, since each try holds up
who writes history.

Source: ARCHITECTURE.md "Maintenance proposes; the coordinator disposes".
"""

from collections.abc import Callable
from functools import partial

import structlog

from coordinator_core.runtime.clock import Threads
from coordinator_core.store.dropping import HasCopy
from coordinator_core.store.interface import Store, StoreError

log = structlog.get_logger("muster.runtime")

REST_MS = 30_000
"""How long nothing is tried after a day could not be dropped."""


class Archiving:
    """Drops days that were copied."""

    def __init__(self, store: Store, threads: Threads, node_ms: Callable[[], int], has_copy: HasCopy) -> None:
        self._drop_next = partial(store.drop_archived, has_copy)
        self._threads = threads
        self._node_ms = node_ms
        self._rests_until_ms = 0

    async def work_off(self) -> None:
        """Decide about every day that applying runs name, as long as nobody is in the way."""
        if self._node_ms() < self._rests_until_ms:
            return
        try:
            while (day := await self._threads.read(self._drop_next)) is not None:
                log.info("history_day_decided", **day._asdict())
        except StoreError as error:
            self._rests_until_ms = self._node_ms() + REST_MS
            log.warning("history_not_dropped", why=str(error))
