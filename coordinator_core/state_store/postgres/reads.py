"""Reads of committed offsets."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, Integer, Select, Text, func, literal, select, tuple_

from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import columns_of
from coordinator_core.state_store.rows import FetchedOffset
from coordinator_core.state_store.tables import offsets

# -- offsets ----------------------------------------------------------------------------------------------

_BY_PARTITION = (offsets.c.topic, offsets.c.partition)
_FETCHED = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "committed_at_ms", "log_end_offset")
_STORED = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "log_end_offset", "committed_at_ms")
_FETCH = select(*columns_of(offsets, (*_FETCHED, "expires_at_ms"))).order_by(*_BY_PARTITION)
_READ = select(*columns_of(offsets, (*_STORED, "expires_at_ms", "commit_version", "log_end_at_ms"))).order_by(
    *_BY_PARTITION
)


def fetch_offsets(
    transaction: Transaction,
    group_id: str,
    topics: Sequence[str] | None = None,
    after: tuple[str, int] | None = None,
    limit: int | None = None,
) -> list[FetchedOffset]:
    """Return committed offsets by topic and partition."""
    wanted = _FETCH.where(offsets.c.group_id == group_id).limit(limit)
    if topics is not None:
        wanted = wanted.where(offsets.c.topic.in_(topics))
    if after is not None:
        wanted = wanted.where(tuple_(*_BY_PARTITION) > after)
    return [FetchedOffset(*row) for row in transaction.execute(wanted)]


def stored_offsets(
    transaction: Transaction, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
) -> list[StoredOffset]:
    """Return offsets by topic and partition, each with its commit version."""
    wanted = _READ.where(offsets.c.group_id == group_id)
    if partitions is not None:
        wanted = wanted.where(tuple_(*_BY_PARTITION).in_(named_partitions(partitions)))
    return [StoredOffset(*row) for row in transaction.execute(wanted)]


def named_partitions(partitions: Sequence[tuple[str, int]]) -> Select[Any]:
    """Return partitions as a subquery over two arrays, so that the statement does not depend on their number."""
    topics = literal([topic for topic, _ in partitions], ARRAY(Text))
    numbers = literal([number for _, number in partitions], ARRAY(Integer))
    named = func.unnest(topics, numbers).table_valued("topic", "partition").render_derived()
    return select(named.c.topic, named.c.partition)


def has_offsets(transaction: Transaction, group_id: str) -> bool:
    """Return whether the group has an offset."""
    rows = select(literal(1)).where(offsets.c.group_id == group_id).limit(1)
    return transaction.execute(rows).first() is not None


def count_offsets(transaction: Transaction, group_ids: Sequence[str]) -> dict[str, int]:
    """Return the number of offsets of each group that has any."""
    of_groups = select(offsets.c.group_id, func.count()).where(offsets.c.group_id.in_(group_ids))
    return {row.group_id: row[1] for row in transaction.execute(of_groups.group_by(offsets.c.group_id))}
