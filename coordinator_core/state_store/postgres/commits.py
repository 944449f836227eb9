"""Writes of committed offsets to the table `offsets`, with the replaced offsets of earlier minutes for history.

They come from a checkpoint of the offset log, or from a decision of an operator or a maintenance run, which is stored
without the log: its group is locked, and has no dirty offsets.
"""

from typing import Any

from sqlalchemy import Column, DateTime

from coordinator_core.state_store import tables
from coordinator_core.state_store.dirty_offsets import DirtyOffset, DirtyOffsets
from coordinator_core.state_store.postgres.arrays import Arrays, quoted
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.upserts import insert, or_replace, run


def store_commits(transaction: Transaction, dirty: DirtyOffsets) -> None:
    """Store offsets that are newer than those in the table."""
    insert(transaction, "offset_history", _OFFSET_HISTORY, map(_past_row, dirty.superseded))
    run(transaction, _STORE, _COMMITS, (_row(dirty.commits[key]) for key in sorted(dirty.commits)))


_OFFSET_HISTORY = Arrays(*(column for column in tables.offset_history.columns))
_COMMITS = Arrays(
    Column("first_minute", DateTime(timezone=True)),
    tables.offsets.c.group_id,
    tables.offsets.c.shard_id,
    tables.offsets.c.commit_version,
    tables.offsets.c.committed_at,
    tables.offsets.c.member_id,
    tables.offsets.c.expires_at,
    tables.offsets.c.log_end_at,
    # From here on in the order of OffsetToCommit's fields, which saves time per row.
    tables.offsets.c.topic,
    tables.offsets.c.partition,
    tables.offsets.c.committed_offset,
    tables.offsets.c.leader_epoch,
    tables.offsets.c.metadata,
    tables.offsets.c.log_end_offset,
)


def _row(dirty: DirtyOffset) -> tuple[Any, ...]:
    """Return the values of `_COMMITS`."""
    (group_id, shard_id, version, first_minute_ms, record), offset = dirty
    at_ms, member_id, expires_at_ms, _, log_end_at_ms = record
    return (first_minute_ms, group_id, shard_id, version, at_ms, member_id, expires_at_ms, log_end_at_ms, *offset)


def _past_row(dirty: DirtyOffset) -> tuple[Any, ...]:
    """Return the values of `_OFFSET_HISTORY`."""
    (group_id, shard_id, _, _, record), offset = dirty
    partition = (offset.topic, offset.partition)
    log_end_offset = offset.log_end_offset if record.log_end_at_ms is None else None
    return (group_id, shard_id, *partition, record.at_ms, offset.offset, log_end_offset, record.member_id)


_NAMES = ", ".join(quoted(column.name) for column in _COMMITS.columns[1:])

_STORE = f"""
WITH given AS MATERIALIZED ({_COMMITS.source}),
past AS (
    INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, log_end_offset, member_id)
    SELECT group_id, stored.shard_id, topic, partition,
        stored.committed_at, stored.committed_offset,
        CASE WHEN stored.log_end_at IS NULL THEN stored.log_end_offset END, stored.member_id
    FROM given JOIN offsets AS stored USING (group_id, topic, partition)
    WHERE stored.committed_at < given.first_minute AND stored.commit_version < given.commit_version
)
INSERT INTO offsets ({_NAMES}) SELECT {_NAMES} FROM given
{or_replace(tables.offsets)} WHERE offsets.commit_version < excluded.commit_version
"""  # noqa: S608
"""An offset that is stored under the same or a greater version stays, so that a repeated checkpoint changes nothing."""
