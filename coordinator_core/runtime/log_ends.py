"""Reports of log ends: gathered from trusted commits as they are decided, and stored about once a second.

Rules:

* What counts is an end that a trusted reporter names, and an offset that it commits: the log reaches both. A commit
  without an end does not renew the age of the end.
* Ends are observations: those of the last second are lost in a crash, and the next commit brings them again.
* A failing database keeps them waiting: one entry a partition, so that they are bounded by what is committed.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from coordinator_core.protocol.records import OffsetsCommitted, Record
from coordinator_core.runtime.clock import Threads
from coordinator_core.store.interface import OutcomeUnknown, Store, StoreUnavailable
from coordinator_core.store.log_ends import NEVER_REPORTED_MS, LogEndReport

log = structlog.get_logger("muster.runtime")

FLUSH_S: Final = 1.0
RENEWALS_PER_AGE: Final = 10
"""How often within its maximum age an end is stored again that is reported again."""
ROWS_PER_FLUSH: Final = 10_000
"""How many ends one statement stores."""
STORED_MAX: Final = 200_000
"""How many partitions are remembered as stored; past it all are forgotten, and stored again at their next report."""

Partition = tuple[str, int]
Seen = tuple[int, int]
"""An end, and when it was last reported."""


class LogEndReports:
    """The ends of logs that this node's commits have named and that are not stored yet."""

    def __init__(self, store: Store, threads: Threads, max_age_ms: int) -> None:
        self._store = store
        self._threads = threads
        self._renew_ms = max_age_ms // RENEWALS_PER_AGE
        self._waiting: dict[Partition, Seen] = {}
        self._stored: dict[Partition, Seen] = {}

    def observe(self, records: Iterable[Record], trusted_topics: tuple[str, ...]) -> None:
        """Take up what a trusted reporter committed, in topics that begin with one of these prefixes."""
        for record in records:
            if isinstance(record, OffsetsCommitted):
                self._observe(record, trusted_topics)

    def _observe(self, record: OffsetsCommitted, trusted_topics: tuple[str, ...]) -> None:
        waiting, stored, renew_ms = self._waiting, self._stored, self._renew_ms
        for topic, partition, offset, _, _, log_end_offset in record.offsets:
            if not topic.startswith(trusted_topics):
                continue
            end, at_ms = offset, NEVER_REPORTED_MS
            if log_end_offset is not None:
                end, at_ms = max(offset, log_end_offset), record.at_ms
            key = (topic, partition)
            known = waiting.get(key)
            if known is not None:
                if end >= known[0]:
                    waiting[key] = (end, max(at_ms, known[1]))
                continue
            known = stored.get(key)
            if known is None or end > known[0] or (end == known[0] and at_ms - known[1] >= renew_ms):
                waiting[key] = (end, at_ms)

    def forget(self, topics: frozenset[str]) -> None:
        """Drop what is known of topics that were deleted."""
        for known in (self._waiting, self._stored):
            for key in [key for key in known if key[0] in topics]:
                del known[key]

    async def run(self) -> None:
        """Store what waits, for ever."""
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def flush(self) -> None:
        """Store what waits; what the database does not take now waits on."""
        waiting, self._waiting = self._waiting, {}
        reports = [LogEndReport(*key, *seen) for key, seen in waiting.items()]
        for place in range(0, len(reports), ROWS_PER_FLUSH):
            try:
                await self._threads.read(partial(self._store.report_log_ends, reports[place : place + ROWS_PER_FLUSH]))
            except (StoreUnavailable, OutcomeUnknown) as error:
                log.warning("log_ends_not_stored", partitions=len(reports) - place, why=str(error))
                self._wait_on(reports[place:])
                return
        if len(self._stored) + len(waiting) > STORED_MAX:
            self._stored.clear()
        self._stored.update(waiting)

    def _wait_on(self, reports: Sequence[LogEndReport]) -> None:
        """Take reports back, beside what came meanwhile."""
        for topic, partition, end, at_ms in reports:
            newer = self._waiting.get((topic, partition))
            if newer is None or newer[0] < end:
                self._waiting[topic, partition] = (end, at_ms)
