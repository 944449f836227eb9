"""A node is ready when it would serve: it reaches a database of the right schema, and owns shards if any are left.

Whoever asks makes the node look: the answer is what the database said just now, not what it said a while ago. However
many ask, one look is under way at a time.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.runtime.history import Read
from coordinator_core.runtime.views import Readiness
from coordinator_core.store.interface import Store

PATIENCE_S: Final = 1.0
"""How long the database has to answer."""

LACKS_PARTITIONS: Final = "history tables lack partitions of their own, and their default partitions fill"


def quarantine_notice(groups: int) -> str:
    """Return the sentence about groups that are not served; the node is ready all the same."""
    counted = "1 group is" if groups == 1 else f"{groups} groups are"
    return f"{counted} quarantined, and not served: muster groups quarantined lists them"


class Inspection:
    """Looks at the database on behalf of whoever asks whether the node serves."""

    def __init__(self, store: Store, read: Read, oldest_schema: str, failure: Callable[[], str | None]) -> None:
        """Prepare.

        Args:
            store: the database.
            read: how it is asked.
            oldest_schema: the revision that the program was written for; "" takes any.
            failure: why the node's last renewal failed; None when it did not.
        """
        self._store = store
        self._read = read
        self._oldest_schema = oldest_schema
        self._failure = failure
        self._look: asyncio.Task[Readiness] | None = None

    async def look(self) -> Readiness:
        """Say what is wrong with the database, or what to look after."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_now(), name="muster-inspection")
        return await asyncio.shield(self._look)

    async def _look_now(self) -> Readiness:
        failure = self._failure()
        if failure is not None:
            return _unready(f"the database cannot be reached: {failure}")
        try:
            async with asyncio.timeout(PATIENCE_S):
                schema, is_lacking = await self._read(self._ask_store)
        except CoordinatorNotAvailable as error:
            return _unready(error.detail)
        except TimeoutError:
            return _unready(f"the database did not answer within {PATIENCE_S:g} s")
        if (schema or "") < self._oldest_schema:
            found = "no schema" if schema is None else f"schema {schema}"
            return _unready(f"the database has {found} and this node needs {self._oldest_schema}: run muster migrate")
        return Readiness(is_ready=True, reasons=(LACKS_PARTITIONS,) if is_lacking else ())

    def _ask_store(self) -> tuple[str | None, bool]:
        return self._store.schema(), self._store.lacks_history_partitions()


def _unready(reason: str) -> Readiness:
    return Readiness(is_ready=False, reasons=(reason,))
