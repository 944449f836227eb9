"""The ends of logs that trusted reporters named, topic-wide: one row a partition, and one a minute in its history."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.store.log_ends import LogEndReport
from coordinator_core.store.positions import PastLogEnd, Stretch
from coordinator_core.store.postgres.arrays import Arrays
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.instants import as_ms
from coordinator_core.store.postgres.positions import STEPS, stretch_parameters
from coordinator_core.store.postgres.upserts import run
from coordinator_core.store.tables import log_end_offsets

_REPORTS: Final = Arrays(*(log_end_offsets.c[name] for name in ("topic", "partition", "log_end_offset", "reported_at")))

_REPORT: Final = f"""
WITH given AS MATERIALIZED ({_REPORTS.source}),
past AS (
    INSERT INTO log_end_history (topic, partition, at, log_end_offset)
    SELECT topic, partition, stored.reported_at, stored.log_end_offset
    FROM given JOIN log_end_offsets AS stored USING (topic, partition)
    WHERE stored.reported_at < date_trunc('minute', given.reported_at)
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
"""An end is as old as its last report; one that is lower than the stored end does not renew that."""


_DELETIONS: Final = "SELECT log_end_deletions FROM versions FOR SHARE"
"""A deletion locks the row for itself first, so reports are stored before it or see that it happened."""


def report_log_ends(transaction: Transaction, reports: Sequence[LogEndReport], deletions: int) -> bool:
    """Store the furthest ends; in the order of their keys, so that two nodes cannot wait for each other."""
    if transaction.execute(_DELETIONS).scalar_one() != deletions:
        return False
    run(transaction, _REPORT, _REPORTS, sorted(reports))
    return True


def read_log_ends(transaction: Transaction, topics: Sequence[str]) -> dict[tuple[str, int], LogEnd]:
    """Return the furthest end of each partition of these topics."""
    ends = log_end_offsets.c
    wanted = select(ends.topic, ends.partition, as_ms(ends.reported_at), ends.log_end_offset)
    rows = transaction.execute(wanted.where(ends.topic.in_(topics)))
    return {(topic, partition): LogEnd(at_ms, offset) for topic, partition, at_ms, offset in rows}


def delete_log_ends(transaction: Transaction, topic: str, partition: int | None = None) -> dict[int, LogEnd]:
    """Delete the ends of a topic's logs, or of one; return them. Their history is older than the next first report.

    The caller has locked the row of `versions`, and raises `log_end_deletions`.
    """
    ends = log_end_offsets.c
    deletion = delete(log_end_offsets).where(ends.topic == topic)
    if partition is not None:
        deletion = deletion.where(ends.partition == partition)
    rows = transaction.execute(deletion.returning(ends.partition, as_ms(ends.reported_at), ends.log_end_offset))
    return {partition: LogEnd(at_ms, offset) for partition, at_ms, offset in rows}


_PAST: Final = f"""
WITH partitions AS MATERIALIZED (
    SELECT topic, partition, log_end_offset, reported_at, first_reported_at
    FROM (
        SELECT topic, partition FROM offsets WHERE group_id = %(group_id)s
        UNION
        SELECT topic, partition FROM archived_offsets
        WHERE group_id = %(group_id)s AND archived_at >= to_timestamp(%(from_ms)s / 1000.0)
    ) AS committed
    JOIN log_end_offsets USING (topic, partition)
), {STEPS}
SELECT partitions.topic, partitions.partition, known.*
FROM partitions
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (is_late, at_ms / CASE WHEN is_late THEN %(step_ms)s ELSE %(early_step_ms)s END)
        at_ms, log_end_offset
    FROM (
        SELECT floor(extract(epoch FROM at) * 1000)::bigint AS at_ms, log_end_offset,
            floor(extract(epoch FROM at) * 1000)::bigint >= %(early_until_ms)s AS is_late
        FROM (
            SELECT last.*
            FROM steps
            CROSS JOIN LATERAL (
                SELECT at, log_end_offset
                FROM log_end_history
                WHERE topic = partitions.topic AND partition = partitions.partition
                    AND at >= greatest(steps.begins, partitions.first_reported_at) AND at < steps.ends
                ORDER BY at DESC
                LIMIT 1
            ) AS last
            UNION ALL
            SELECT partitions.reported_at, partitions.log_end_offset
            WHERE partitions.reported_at < to_timestamp(%(until_ms)s / 1000.0)
        ) AS known
    ) AS timed
    ORDER BY is_late, at_ms / CASE WHEN is_late THEN %(step_ms)s ELSE %(early_step_ms)s END, at_ms DESC
) AS known
ORDER BY partitions.topic, partitions.partition, at_ms
LIMIT %(limit)s
"""  # noqa: S608 - likewise


def read_past_log_ends(transaction: Transaction, stretch: Stretch, limit: int) -> list[PastLogEnd]:
    """Return the ends of the logs that a group has committed, at most so many, by topic, partition and time."""
    return [PastLogEnd(*row) for row in transaction.execute(_PAST, stretch_parameters(stretch, limit))]
