"""Log ends from trusted reporters, for all groups: one row per partition, and one per minute in its history."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.state_store.log_ends import LogEndReport
from coordinator_core.state_store.postgres.arrays import Arrays
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import as_ms
from coordinator_core.state_store.postgres.upserts import run
from coordinator_core.state_store.tables import log_end_offsets

_REPORTS: Final = Arrays(*(log_end_offsets.c[name] for name in ("topic", "partition", "log_end_offset", "reported_at")))

_REPORT: Final = f"""
WITH given AS MATERIALIZED ({_REPORTS.source}),
past AS (
    INSERT INTO log_end_history (topic, partition, at, log_end_offset)
    SELECT topic, partition, stored.reported_at, stored.log_end_offset
    FROM given JOIN log_end_offsets AS stored USING (topic, partition)
    WHERE stored.reported_at < date_trunc('minute', given.reported_at) AND stored.log_end_offset <= given.log_end_offset
    ON CONFLICT DO NOTHING
)
INSERT INTO log_end_offsets AS stored (topic, partition, log_end_offset, reported_at, first_reported_at)
SELECT topic, partition, given.log_end_offset, given.reported_at, given.reported_at
FROM given LEFT JOIN log_end_offsets AS known USING (topic, partition)
WHERE given.reported_at > 'epoch' OR known.topic IS NOT NULL
ORDER BY topic, partition
ON CONFLICT (topic, partition) DO UPDATE SET
    log_end_offset = greatest(stored.log_end_offset, excluded.log_end_offset),
    reported_at = CASE WHEN excluded.log_end_offset < stored.log_end_offset THEN stored.reported_at
        ELSE greatest(stored.reported_at, excluded.reported_at) END
"""  # noqa: S608 - every name comes from tables.py
"""A report becomes the last one, and that before it the past of its minute, unless it is below the stored log end."""


_DELETIONS: Final = "SELECT log_end_deletions FROM versions FOR SHARE"
"""A deletion locks the row exclusively, so reports are either stored before it, or see the new count."""


def report_log_ends(transaction: Transaction, reports: Sequence[LogEndReport], deletions: int) -> bool:
    """Store reported log ends, in the order of their keys, so that two nodes do not deadlock."""
    if transaction.execute(_DELETIONS).scalar_one() != deletions:
        return False
    run(transaction, _REPORT, _REPORTS, sorted(reports))
    return True


def read_log_ends(transaction: Transaction, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
    """Return the highest reported log end of each partition of these topics."""
    ends = log_end_offsets.c
    wanted = select(ends.topic, ends.partition, as_ms(ends.reported_at), ends.log_end_offset)
    rows = transaction.execute(wanted.where(ends.topic.in_(topics)))
    return {(topic, partition): LogEnd(at_ms, offset) for topic, partition, at_ms, offset in rows}


def delete_log_ends(transaction: Transaction, topic: str, partition: int | None = None) -> dict[int, LogEnd]:
    """Delete the log ends of a topic, or of one partition; return them.

    Their history stays, but is older than the next `first_reported_at`, so it no longer counts. The caller holds the
    lock on the row of `versions`, and raises `log_end_deletions`.
    """
    ends = log_end_offsets.c
    deletion = delete(log_end_offsets).where(ends.topic == topic)
    if partition is not None:
        deletion = deletion.where(ends.partition == partition)
    rows = transaction.execute(deletion.returning(ends.partition, as_ms(ends.reported_at), ends.log_end_offset))
    return {partition: LogEnd(at_ms, offset) for partition, at_ms, offset in rows}
