"""Reads of committed offsets, and lists of groups, including dead ones from history."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Integer,
    Select,
    Table,
    Text,
    func,
    literal,
    null,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import distinct_on

from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.timestamps import columns_of
from coordinator_core.store.rows import FetchedOffset, GroupFilter, ListedGroup
from coordinator_core.store.tables import group_transitions, groups, offsets, shard_leases

DEAD = "Dead"


# -- offsets ----------------------------------------------------------------------------------------------

_BY_PARTITION = (offsets.c.topic, offsets.c.partition)
_FETCHED = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "committed_at_ms", "log_end_offset")
_STORED = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "log_end_offset", "committed_at_ms")
_FETCH = select(*columns_of(offsets, (*_FETCHED, "expires_at_ms"))).order_by(*_BY_PARTITION)
_READ = select(*columns_of(offsets, (*_STORED, "expires_at_ms", "commit_version", "log_end_at_ms"))).order_by(
    *_BY_PARTITION
)


def fetch_offsets(transaction: Transaction, group_id: str, topics: Sequence[str] | None) -> list[FetchedOffset]:
    """Return committed offsets by topic and partition."""
    wanted = _FETCH.where(offsets.c.group_id == group_id)
    if topics is not None:
        wanted = wanted.where(offsets.c.topic.in_(topics))
    return [FetchedOffset(*row) for row in transaction.execute(wanted)]


def stored_offsets(
    transaction: Transaction, group_id: str, partitions: Sequence[tuple[str, int]] | None
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
    return _exists(transaction, select(literal(1)).where(offsets.c.group_id == group_id))


# -- groups -----------------------------------------------------------------------------------------------


def list_groups(transaction: Transaction, which: GroupFilter) -> list[ListedGroup]:
    """Return a page of groups by id."""
    living = sorted(which.states - {DEAD})
    parts = [_living(which, living)] if living or not which.states else []
    # The protocol type of a dead group is not stored.
    if DEAD in which.states and which.protocol_type is None:
        parts.append(_dead(which))
    if not parts:
        return []
    page = union_all(*parts).subquery() if len(parts) > 1 else parts[0].subquery()
    listed = (
        select(*(page.c[name] for name in _LISTED), shard_leases.c.node_id)
        .join_from(page, shard_leases, page.c.shard_id == shard_leases.c.shard_id, isouter=True)
        .order_by(page.c.group_id)
        .limit(which.limit)
    )
    return [ListedGroup(*row) for row in transaction.execute(listed)]


_LISTED = ("group_id", "state", "protocol_type", "generation", "member_count")


def _living(which: GroupFilter, states: Sequence[str]) -> Select[Any]:
    page = select(groups.c.shard_id, *(groups.c[name] for name in _LISTED)).where(*_in_page(groups, which))
    if states:
        page = page.where(groups.c.state.in_(states))
    if which.protocol_type is not None:
        page = page.where(groups.c.protocol_type == which.protocol_type)
    return page.order_by(groups.c.group_id).limit(which.limit)


def _dead(which: GroupFilter) -> Select[Any]:
    """Select groups whose last transition in history was to Dead and that do not exist again."""
    ended = group_transitions
    exists_again = select(literal(1)).where(groups.c.group_id == ended.c.group_id).exists()
    return (
        select(
            ended.c.shard_id,
            ended.c.group_id,
            literal(DEAD).label("state"),
            null().cast(Text).label("protocol_type"),
            ended.c.generation,
            literal(0).label("member_count"),
        )
        .ext(distinct_on(ended.c.group_id))
        .where(ended.c.to_state == DEAD, ~exists_again, *_in_page(ended, which))
        .order_by(ended.c.group_id, ended.c.at.desc())
        .limit(which.limit)
    )


def _in_page(table: Table, which: GroupFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of a page, which the index on group_id serves."""
    narrowing: list[ColumnElement[bool]] = []
    if which.prefix:
        narrowing += [table.c.group_id >= which.prefix, func.starts_with(table.c.group_id, which.prefix)]
    if which.after is not None:
        narrowing.append(table.c.group_id > which.after)
    return narrowing


def has_history(transaction: Transaction, group_id: str) -> bool:
    """Return whether history has rows of the group."""
    return _exists(transaction, select(literal(1)).where(group_transitions.c.group_id == group_id))


def _exists(transaction: Transaction, rows: Select[Any]) -> bool:
    return transaction.execute(rows.limit(1)).first() is not None
