"""Writes of committed offsets to the table `offsets`, with the replaced offsets of earlier minutes for history.

They come from a checkpoint of the offset log, or from a decision of an operator or a maintenance run, which is stored
without the log: its group is locked, and has no dirty offsets.
"""

from typing import Any

from msgspec.structs import astuple
from sqlalchemy import Column, DateTime

from coordinator_core.state_store import tables
from coordinator_core.state_store.dirty_offsets import UNKNOWN_ORIGIN, DirtyOffset, DirtyOffsets
from coordinator_core.state_store.postgres.arrays import Arrays, quoted
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.upserts import or_replace, run


def store_commits(transaction: Transaction, dirty: DirtyOffsets) -> None:
    """Store offsets that are newer than those in the table."""
    run(transaction, _STORE_SUPERSEDED, _OFFSET_HISTORY, map(_past_row, dirty.superseded))
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
    tables.offsets.c.token_id,
    tables.offsets.c.client_address,
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
    (group_id, shard_id, version, first_minute_ms, record, origin), offset = dirty
    times = (record.at_ms, record.member_id, record.expires_at_ms, record.log_end_at_ms)
    return (first_minute_ms, group_id, shard_id, version, *times, *astuple(origin), *astuple(offset))


def _past_row(dirty: DirtyOffset) -> tuple[Any, ...]:
    """Return the values of `_OFFSET_HISTORY`."""
    (group_id, shard_id, _, _, record, origin), offset = dirty
    partition = (offset.topic, offset.partition)
    log_end_offset = offset.log_end_offset if record.log_end_at_ms is None else None
    named = UNKNOWN_ORIGIN if record.member_id else origin  # what it replaced is not known here
    committed = (record.at_ms, offset.offset, log_end_offset, record.member_id)
    return (group_id, shard_id, *partition, *committed, *astuple(named))


_NAMES = ", ".join(quoted(column.name) for column in _COMMITS.columns[1:])

_IS_NAMED = "excluded.member_id = '' OR excluded.committed_offset < offsets.committed_offset"
_ORIGINS = {name: f"CASE WHEN {_IS_NAMED} THEN excluded.{name} END" for name in ("token_id", "client_address")}
"""Only commits without a member, and those that rewind, keep their origin; so does the first one of a partition."""

_STORE_SUPERSEDED = f"""
INSERT INTO offset_history ({_OFFSET_HISTORY.column_list})
SELECT * FROM ({_OFFSET_HISTORY.source}) AS given WHERE NOT EXISTS (
    SELECT FROM offset_history AS stored WHERE stored.group_id = given.group_id AND stored.topic = given.topic
        AND stored.partition = given.partition AND stored.at = given.at
    OFFSET 0
)
"""  # noqa: S608 - names of tables.py
"""After a kill between the transactions of a checkpoint the next owner repeats it, also if newer offsets are stored.
OFFSET keeps the planner from a join that scans the history; each row is one look-up in the index of its day."""

_STORE = f"""
WITH given AS MATERIALIZED ({_COMMITS.source}),
past AS (
    INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, log_end_offset, member_id,
        token_id, client_address)
    SELECT group_id, stored.shard_id, topic, partition,
        stored.committed_at, stored.committed_offset,
        CASE WHEN stored.log_end_at IS NULL THEN stored.log_end_offset END, stored.member_id,
        stored.token_id, stored.client_address
    FROM given JOIN offsets AS stored USING (group_id, topic, partition)
    WHERE stored.committed_at < given.first_minute AND stored.commit_version < given.commit_version
)
INSERT INTO offsets ({_NAMES}) SELECT {_NAMES} FROM given
{or_replace(tables.offsets, _ORIGINS)} WHERE offsets.commit_version < excluded.commit_version
"""  # noqa: S608
"""An offset that is stored under the same or a greater version stays, so that a repeated checkpoint changes nothing."""
