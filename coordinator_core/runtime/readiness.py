"""Readiness checks: whether the database is reachable, has the right schema, and stores what the node writes.

Every check queries the database, so its result is current. Concurrent checks share one query. A database that answers
queries may store nothing, as with a full disk, so the outcomes of the node's own writes count as well.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.runtime.clock import Clock, StoreReader
from coordinator_core.runtime.views import Readiness
from coordinator_core.state_store.interface import RuntimeStore, StoreError
from coordinator_core.state_store.schema_revision import SchemaRevision, schema_advice

DATABASE_TIMEOUT_S: Final = 1.0
"""The time limit of a check."""

FAILURES_MAX: Final = 3
"""How many transactions have to fail in a row until the node is not ready."""
FAILURES_EXPIRE_MS: Final = 30_000
"""How long failures count: a node that is not ready may get no request, whose write would show that writes succeed."""

LACKS_PARTITIONS: Final = "history tables lack partitions for coming days, so rows go to the default partitions"


def quarantine_notice(groups: int) -> str:
    """Return the sentence about quarantined groups, with which the node is still ready."""
    counted = "1 group is" if groups == 1 else f"{groups} groups are"
    return f"{counted} quarantined, and not served: muster groups quarantined lists them"


class FailureStreak:
    """The failures of one kind of transaction since the last one that succeeded."""

    def __init__(self, what: str, clock: Clock) -> None:
        """Start without a failure; `what` is the first half of the reason, such as "writes fail"."""
        self._what = what
        self._clock = clock
        self._count = 0
        self._last_ms = 0
        self._summary = ""
        self.is_repeated = False
        """Whether the last transaction failed as the one before it did, whose failure was logged."""

    def add(self, error: StoreError) -> None:
        """Count a failure."""
        self.is_repeated = self._count > 0 and error.summary == self._summary
        self._count += 1
        self._last_ms = self._clock.now().node_ms
        self._summary = error.summary

    def end(self) -> None:
        """Forget all failures, since a transaction has succeeded."""
        self._count = 0
        self.is_repeated = False

    def reason(self) -> str | None:
        """Return why the node is not ready; None after too few failures, or if the last one is long ago."""
        is_recent = self._clock.now().node_ms - self._last_ms < FAILURES_EXPIRE_MS
        return f"{self._what}: {self._summary}" if self._count >= FAILURES_MAX and is_recent else None


class ReadinessCheck:
    """Checks the database of a node."""

    def __init__(
        self,
        store: RuntimeStore,
        read: StoreReader,
        own_schema: str,
        failure: Callable[[], str | None],
        streaks: Sequence[FailureStreak] = (),
    ) -> None:
        """Create the check.

        Args:
            store: the database.
            read: calls the store on a reader thread.
            own_schema: the newest schema revision that the program knows; "" accepts any.
            failure: returns why the last renewal failed; None if it succeeded.
            streaks: the failures of the node's own transactions.
        """
        self._store = store
        self._read = read
        self._own_schema = own_schema
        self._failure = failure
        self._streaks = streaks
        self._check_task: asyncio.Task[Readiness] | None = None

    async def check(self) -> Readiness:
        """Return whether the database is usable, and what is wrong with it or needs attention."""
        if self._check_task is None or self._check_task.done():
            self._check_task = asyncio.create_task(self._check_now(), name="muster-readiness")
        return await asyncio.shield(self._check_task)

    async def _check_now(self) -> Readiness:
        failure = self._failure()
        if failure is not None:
            return _unready(f"leases cannot be renewed: {failure}")
        try:
            async with asyncio.timeout(DATABASE_TIMEOUT_S):
                schema, is_lacking = await self._read(self._ask_store)
        except CoordinatorNotAvailable as error:
            return _unready(error.detail)
        except TimeoutError:
            return _unready(f"the database did not answer within {DATABASE_TIMEOUT_S:g} s")
        advice = schema_advice(schema, self._own_schema)
        if advice is not None:
            found = "no schema" if schema is None else f"schema {schema.revision}"
            return _unready(f"the database has {found} and this node needs {self._own_schema}: {advice}")
        if failing := tuple(reason for streak in self._streaks if (reason := streak.reason()) is not None):
            return Readiness(is_ready=False, reasons=failing)
        return Readiness(is_ready=True, reasons=(LACKS_PARTITIONS,) if is_lacking else ())

    def _ask_store(self) -> tuple[SchemaRevision | None, bool]:
        return self._store.schema(), self._store.lacks_history_partitions()


def _unready(reason: str) -> Readiness:
    return Readiness(is_ready=False, reasons=(reason,))
