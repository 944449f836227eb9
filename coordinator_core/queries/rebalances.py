"""Rebalances of a group: pages of them, their members, and how long they waited for members."""

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    exists,
    func,
    literal,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import UUID

from coordinator_core.queries.groups import OF_PRESENT_GROUP, known
from coordinator_core.state_store.mirror_tables import mirrored_cluster
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.failures import DataRefused
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS, as_ms, columns_of, from_ms
from coordinator_core.state_store.rows import Rebalance, RebalanceMemberRow
from coordinator_core.state_store.tables import groups, rebalance_members, rebalances


class RebalanceCursor(NamedTuple):
    """The last rebalance of a page; END_OF_TIME_MS: it is in progress."""

    completed_at_ms: int
    rebalance_id: str


def rebalance_cursor(last: Rebalance) -> RebalanceCursor:
    """Return the cursor of a page that ends with a rebalance; the one in progress comes before all others."""
    return RebalanceCursor(END_OF_TIME_MS if last.completed_at_ms is None else last.completed_at_ms, last.rebalance_id)


_NAMES: Final = tuple(Rebalance.__dataclass_fields__)
_COLUMNS: Final = {
    name: column.label(name) for name, column in zip(_NAMES, columns_of(rebalances, _NAMES), strict=True)
}


def read_rebalances(
    transaction: Transaction, group_id: str, after: RebalanceCursor | None, limit: int
) -> list[Rebalance]:
    """Return at most `limit` rebalances after a cursor: the one in progress, then the newest first.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
    page = _over(group_id, after).limit(limit).subquery()
    past = select(page).order_by(page.c.completed_at_ms.desc(), page.c.rebalance_id.desc())
    if after is not None:
        return known(transaction, group_id, _listed(transaction, past))
    both = union_all(_in_progress(group_id), select(page)).subquery()
    newest_first = (both.c.completed_at_ms.desc().nulls_first(), both.c.rebalance_id.desc())
    try:
        return known(transaction, group_id, _listed(transaction, select(both).order_by(*newest_first).limit(limit)))
    except DataRefused:  # groups.rebalance cannot be decoded: the group is quarantined; its history is still readable.
        return _listed(transaction, past)


def _listed(transaction: Transaction, wanted: Select[Any]) -> list[Rebalance]:
    return [Rebalance(**row) for row in transaction.execute(wanted).mappings()]


def _over(group_id: str, after: RebalanceCursor | None) -> Select[Any]:
    """Select rebalances that ended, by the index on group and time."""
    over = select(*_COLUMNS.values()).where(rebalances.c.group_id == group_id)
    if after is not None and after.completed_at_ms != END_OF_TIME_MS:
        at = from_ms(after.completed_at_ms)
        place = tuple_(at, literal(after.rebalance_id, UUID(as_uuid=False)))
        over = over.where(
            rebalances.c.completed_at <= at, tuple_(rebalances.c.completed_at, rebalances.c.rebalance_id) < place
        )
    return over.order_by(rebalances.c.completed_at.desc(), rebalances.c.rebalance_id.desc())


def _in_progress(group_id: str) -> Select[Any]:
    """Select the rebalance that `groups.rebalance` describes; what that lacks has no value yet."""
    known = groups.c.rebalance["in_progress"]
    others: dict[str, ColumnElement[Any]] = {
        "group_id": groups.c.group_id,
        "shard_id": groups.c.shard_id,
        "group_created_at_ms": as_ms(groups.c.created_at),
        "generation": groups.c.generation,
        "is_trigger_inferred": exists(select(mirrored_cluster)),
        "is_start_inferred": func.coalesce(known["is_start_inferred"].astext.cast(Boolean), False),
    }
    columns = {name: known[name].astext.cast(column.type) for name, column in _COLUMNS.items()} | others
    return select(*(column.label(name) for name, column in columns.items())).where(
        groups.c.group_id == group_id, known["rebalance_id"].astext.is_not(None)
    )


# -- members ----------------------------------------------------------------------------------------------

_REBALANCE_MEMBER: Final = RebalanceMemberRow._fields


def read_rebalance_members(transaction: Transaction, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
    """Return the members of a rebalance that is over, the one that was waited for longest first, then by id.

    The group's index on `rebalances` finds the day to read.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
    key = literal(rebalance_id, UUID(as_uuid=False))
    over_at = select(rebalances.c.completed_at).where(
        rebalances.c.rebalance_id == key, rebalances.c.group_id == group_id
    )
    members = rebalance_members.c
    wanted = (
        select(*columns_of(rebalance_members, _REBALANCE_MEMBER))
        .where(members.rebalance_id == key, members.completed_at == over_at.scalar_subquery())
        .order_by(members.waited_for_ms.desc(), members.member_id)
    )
    return known(transaction, group_id, [RebalanceMemberRow(*row) for row in transaction.execute(wanted)])


# -- waits ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitQuery:
    """Selects waits of at least `at_least_ms`, in rebalances of a group that ended at `from_ms` or later.

    Those of former groups of that name are left out, unless the group is deleted.
    """

    group_id: str
    from_ms: int
    at_least_ms: int


class RebalanceWait(NamedTuple):
    """How long a rebalance waited for a member, which may have left since."""

    rebalance_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    waited_for_ms: int
    outcome: str


_WAITS: Final = f"""
SELECT part.rebalance_id::text, part.member_id, part.group_instance_id, part.client_id, part.client_host,
    part.waited_for_ms, part.outcome
FROM rebalances
JOIN rebalance_members AS part USING (rebalance_id, completed_at, group_created_at)
WHERE rebalances.group_id = %(group_id)s AND {OF_PRESENT_GROUP}
    AND rebalances.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
    AND part.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
    AND part.waited_for_ms >= %(at_least_ms)s
ORDER BY part.waited_for_ms DESC, part.rebalance_id, part.member_id
LIMIT %(limit)s
"""  # noqa: S608 - words of ours


def read_waits(transaction: Transaction, query: WaitQuery, limit: int) -> list[RebalanceWait]:
    """Return the waits of rebalances for members, the longest first."""
    return [RebalanceWait(*row) for row in transaction.execute(_WAITS, {**asdict(query), "limit": limit})]
