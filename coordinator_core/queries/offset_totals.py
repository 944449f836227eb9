"""Sums of committed offsets and lag, for metrics."""

from decimal import Decimal
from typing import Final, NamedTuple

from coordinator_core.state_store.postgres.connections import Transaction


class OffsetTotal(NamedTuple):
    """The sums over a group's offsets of one topic, or of one partition if `partition` is set."""

    group_id: str
    topic: str
    partition: int | None
    partition_count: int
    offset: int
    """The sum of the committed offsets."""
    lag_records: int | None
    """The sum of the lag, where the log end is known; None: no log end is known, or a stale log end makes it a lower
    bound of 0."""
    last_committed_at_ms: int
    log_end_at_ms: int | None
    """When the log end was last reported; of several partitions the oldest of these times."""


_OFFSET_TOTALS: Final = """
SELECT group_id, topic, {partition}, count(*), sum(committed_offset),
    CASE WHEN sum(greatest(log_end_offset - committed_offset, 0)) > 0
            OR min(log_end_at) >= to_timestamp(%(fresh_since_ms)s / 1000.0)
        THEN sum(greatest(log_end_offset - committed_offset, 0)) END,
    floor(extract(epoch FROM max(committed_at)) * 1000)::bigint,
    floor(extract(epoch FROM min(log_end_at)) * 1000)::bigint
FROM dashboards.known_log_ends
WHERE shard_id = ANY(%(shard_ids)s)
GROUP BY {key}
ORDER BY {key}
"""
_BY_TOPIC: Final = _OFFSET_TOTALS.format(partition="NULL", key="group_id, topic")
_BY_PARTITION: Final = _OFFSET_TOTALS.format(partition="partition", key="group_id, topic, partition")


def read_offset_totals(
    transaction: Transaction, shard_ids: list[int], fresh_since_ms: int, *, by_partition: bool
) -> list[OffsetTotal]:
    """Return the sums of the committed offsets of these shards' groups."""
    wanted = _BY_PARTITION if by_partition else _BY_TOPIC
    parameters = {"shard_ids": shard_ids, "fresh_since_ms": fresh_since_ms}
    return [_offset_total(*row) for row in transaction.execute(wanted, parameters)]


def _offset_total(
    group_id: str,
    topic: str,
    partition: int | None,
    count: int,
    offset: Decimal,
    lag: Decimal | None,
    *at_ms: int,
) -> OffsetTotal:
    """Convert sums, which may exceed bigint, to int."""
    return OffsetTotal(group_id, topic, partition, count, int(offset), None if lag is None else int(lag), *at_ms)
