"""Reports of log ends: gathered from trusted commits as they are decided, and stored about once a second.

Rules:

* A report is the log end that a trusted reporter sends, or the offset that it commits if that is greater. A commit
  without a log end does not renew the report's age.
* A crash loses the reports of the last second; the next commit repeats them.
* While the database fails, reports wait: one entry a partition.
* Log ends are deleted with their topic, or because they are wrong. Every deletion raises `Versions.log_end_deletions`.
  A node that reads a new count discards all reports that it has gathered, and the store refuses reports that were
  gathered under an earlier count, so no report restores a deleted log end.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from coordinator_core.protocol.records import OffsetsCommitted, Record
from coordinator_core.runtime.clock import Threads
from coordinator_core.state_store.interface import OutcomeUnknown, RuntimeStore, StoreUnavailable
from coordinator_core.state_store.log_ends import NEVER_REPORTED_MS, LogEndReport

log = structlog.get_logger("muster.runtime")

FLUSH_S: Final = 1.0
RENEWALS_PER_AGE: Final = 10
"""How often within its maximum age a repeated report of the same log end is stored."""
ROWS_PER_FLUSH: Final = 10_000
"""Reports that one statement stores."""
STORED_MAX: Final = 200_000
"""Partitions that are remembered as stored; beyond it all are forgotten, and stored again with their next report."""

Partition = tuple[str, int]
Seen = tuple[int, int]
"""A log end offset, and when it was last reported."""


class LogEndReports:
    """The reports of this node's commits that are not stored yet."""

    def __init__(self, store: RuntimeStore, threads: Threads, max_age_ms: Callable[[], int]) -> None:
        self._store = store
        self._threads = threads
        self._max_age_ms = max_age_ms
        self._deletions = 0
        self._waiting: dict[Partition, Seen] = {}
        self._stored: dict[Partition, Seen] = {}

    def observe(self, records: Iterable[Record], trusted_topic_prefixes: tuple[str, ...]) -> None:
        """Gather the reports of a trusted reporter's commits, in topics with one of these prefixes."""
        waiting, stored, last_topic, is_trusted = self._waiting, self._stored, None, False
        for record in records:
            if not isinstance(record, OffsetsCommitted):
                continue
            for one in record.offsets:
                topic, offset = one.topic, one.offset
                if topic is not last_topic:
                    last_topic, is_trusted = topic, topic.startswith(trusted_topic_prefixes)
                if not is_trusted:
                    continue
                key = topic, one.partition
                if one.log_end_offset is not None:
                    self._add(key, max(offset, one.log_end_offset), record.at_ms)
                elif (known := waiting.get(key)) is not None:
                    if offset > known[0]:
                        waiting[key] = offset, known[1]
                elif (known := stored.get(key)) is None or offset > known[0]:
                    waiting[key] = offset, NEVER_REPORTED_MS

    def observe_log_ends(self, log_ends: Mapping[Partition, int], at_ms: int) -> None:
        """Gather log ends that were read from a mirrored cluster at one time."""
        for partition, end in log_ends.items():
            self._add(partition, end, at_ms)

    def _add(self, key: Partition, end: int, at_ms: int) -> None:
        known = self._waiting.get(key)
        if known is not None:
            if end >= known[0]:
                self._waiting[key] = (end, max(at_ms, known[1]))
            return
        known = self._stored.get(key)
        if known is None or end > known[0] or (end == known[0] and at_ms - known[1] >= self._renew_ms()):
            self._waiting[key] = (end, at_ms)

    def _renew_ms(self) -> int:
        """Return the age after which a repeated report is stored."""
        return self._max_age_ms() // RENEWALS_PER_AGE

    def forget_deleted(self, deletions: int) -> None:
        """Discard all reports that were gathered before the last deletion; the count does not name the topic."""
        if deletions != self._deletions:
            self._deletions = deletions
            self._waiting.clear()
            self._stored.clear()

    async def run(self) -> None:
        """Store waiting reports once a second, without end."""
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def flush(self) -> None:
        """Store waiting reports; those that the database does not store remain."""
        deletions, waiting = self._deletions, list(self._waiting.items())
        for place in range(0, len(waiting), ROWS_PER_FLUSH):
            batch = waiting[place : place + ROWS_PER_FLUSH]
            reports = [LogEndReport(*key, *seen) for key, seen in batch]
            try:
                is_stored = await self._threads.read(partial(self._store.report_log_ends, reports, deletions))
            except (StoreUnavailable, OutcomeUnknown) as error:
                log.warning("log_end_write_failed", partitions=len(waiting) - place, reason=str(error))
                return
            if not is_stored or deletions != self._deletions:
                return  # the next renewal reads the new count
            self._note_stored(batch)

    def _note_stored(self, batch: Sequence[tuple[Partition, Seen]]) -> None:
        """Remember stored reports; what was reported meanwhile remains waiting."""
        if len(self._stored) + len(batch) > STORED_MAX:
            self._stored.clear()
        for key, seen in batch:
            self._stored[key] = seen
            if self._waiting.get(key) == seen:
                del self._waiting[key]
