"""Lists of groups, including dead ones from history; whether a group exists or existed."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    Text,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import distinct_on

from coordinator_core.protocol.errors import GroupIdNotFound
from coordinator_core.protocol.states import DEAD
from coordinator_core.queries.group_patterns import GroupPatterns, covers
from coordinator_core.queries.overview import RECENT_MS
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.tables import group_transitions, groups, rebalances, shard_leases

T = TypeVar("T")

OF_PRESENT_GROUP: Final = """
group_created_at = coalesce((SELECT created_at FROM groups WHERE groups.group_id = %(group_id)s), group_created_at)
"""
"""The condition that rows of history are of no former group of that name; all rows of a deleted group meet it."""


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Selects groups that match all fields."""

    states: frozenset[str] = frozenset()
    """Empty: every state but Dead."""
    prefix: str = ""
    patterns: GroupPatterns | None = None
    """None: every group."""
    protocol_type: str | None = None
    after: str | None = None
    """The last group id of the previous page."""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """An entry of a list of groups."""

    group_id: str
    state: str
    protocol_type: str | None
    generation: int
    member_count: int
    rebalances_last_hour: int
    """The number that ended within the last hour."""
    node_id: str | None


def read_groups(transaction: Transaction, which: GroupFilter) -> list[ListedGroup]:
    """Return a page of groups by id."""
    living = sorted(which.states - {DEAD})
    parts = [_living(which, living)] if living or not which.states else []
    # The protocol type of a dead group is not stored.
    if DEAD in which.states and which.protocol_type is None:
        parts.append(_dead(which))
    if not parts:
        return []
    page = union_all(*parts).subquery() if len(parts) > 1 else parts[0].subquery()
    is_recent = rebalances.c.completed_at > func.now() - dt.timedelta(milliseconds=RECENT_MS)
    is_its_own = (rebalances.c.group_id == page.c.group_id) & (rebalances.c.group_created_at == page.c.created_at)
    recent = select(func.count()).where(is_its_own, is_recent).scalar_subquery()
    listed = (
        select(*(page.c[name] for name in _LISTED), recent, shard_leases.c.node_id)
        .join_from(page, shard_leases, page.c.shard_id == shard_leases.c.shard_id, isouter=True)
        .order_by(page.c.group_id)
        .limit(which.limit)
    )
    return [ListedGroup(*row) for row in transaction.execute(listed)]


_LISTED = ("group_id", "state", "protocol_type", "generation", "member_count")


def _living(which: GroupFilter, states: Sequence[str]) -> Select[Any]:
    columns = (groups.c[name] for name in ("shard_id", "created_at", *_LISTED))
    page = select(*columns).where(*_in_page(groups, which))
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
            ended.c.group_created_at.label("created_at"),
            ended.c.group_id,
            literal(str(DEAD)).label("state"),
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
    narrowing += covers(table.c.group_id, which.patterns)
    if which.after is not None:
        narrowing.append(table.c.group_id > which.after)
    return narrowing


def known(transaction: Transaction, group_id: str, found: list[T]) -> list[T]:
    """Return rows that were found of a group.

    Raises:
        GroupIdNotFound: there are none, and the group neither exists nor is in history.
    """
    if found:
        return found
    exists = select(literal(1)).where(groups.c.group_id == group_id).exists()
    has_history = select(literal(1)).where(group_transitions.c.group_id == group_id).exists()
    if not transaction.execute(select(or_(exists, has_history))).scalar_one():
        raise GroupIdNotFound("the group does not exist and has no history")
    return found
