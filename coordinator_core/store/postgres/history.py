"""Queries of one group's history, each of one statement, so that its result is of one time.

Every query names the column by which its table is partitioned, so that Postgres skips other days. The columns of a
SELECT are in the order of the fields of its result.
"""

from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Text,
    case,
    cast,
    column,
    func,
    literal,
    null,
    or_,
    select,
    table,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import UUID

from coordinator_core.store.history import (
    END_OF_TIME_MS,
    RANK_IN_GENERATION,
    ListedRebalance,
    Moment,
    OffsetAtTime,
    OffsetTotal,
    PartitionOwnership,
    RebalanceCursor,
    RebalanceWait,
    TransitionCursor,
    WaitQuery,
    in_order,
)
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.failures import DataRefused
from coordinator_core.store.postgres.timestamps import as_ms, columns_of, from_ms
from coordinator_core.store.rows import RebalanceMemberRow, TransitionRow
from coordinator_core.store.tables import group_transitions, groups, rebalance_members, rebalances


def is_known_group(transaction: Transaction, group_id: str) -> bool:
    """Return whether the group exists, or history has rows of it."""
    exists = select(literal(1)).where(groups.c.group_id == group_id).exists()
    has_history = select(literal(1)).where(group_transitions.c.group_id == group_id).exists()
    return bool(transaction.execute(select(or_(exists, has_history))).scalar_one())


# -- rebalances -------------------------------------------------------------------------------------------

_OVER: Final = tuple(ListedRebalance.__dataclass_fields__)


def read_rebalances(
    transaction: Transaction, group_id: str, after: RebalanceCursor | None, limit: int
) -> list[ListedRebalance]:
    """Return a page of rebalances, the one in progress first."""
    page = _over(group_id, after).limit(limit).subquery()
    past = select(page).order_by(page.c.completed_at_ms.desc(), page.c.rebalance_id.desc())
    if after is not None:
        return _listed(transaction, past)
    both = union_all(_under_way(group_id), select(page)).subquery()
    newest_first = (both.c.completed_at_ms.desc().nulls_first(), both.c.rebalance_id.desc())
    try:
        return _listed(transaction, select(both).order_by(*newest_first).limit(limit))
    except DataRefused:  # groups.rebalance cannot be decoded: the group is quarantined; its history is still readable.
        return _listed(transaction, past)


def _listed(transaction: Transaction, wanted: Select[Any]) -> list[ListedRebalance]:
    return [ListedRebalance(**row) for row in transaction.execute(wanted).mappings()]


def _over(group_id: str, after: RebalanceCursor | None) -> Select[Any]:
    """Select rebalances that ended, by the index on group and time."""
    columns = zip(_OVER, columns_of(rebalances, _OVER), strict=True)
    over = select(*(each.label(name) for name, each in columns)).where(rebalances.c.group_id == group_id)
    if after is not None and after.completed_at_ms != END_OF_TIME_MS:
        at = from_ms(after.completed_at_ms)
        place = tuple_(at, literal(after.rebalance_id, UUID(as_uuid=False)))
        over = over.where(
            rebalances.c.completed_at <= at, tuple_(rebalances.c.completed_at, rebalances.c.rebalance_id) < place
        )
    return over.order_by(rebalances.c.completed_at.desc(), rebalances.c.rebalance_id.desc())


def _under_way(group_id: str) -> Select[Any]:
    known = groups.c.rebalance["under_way"]
    return select(
        cast(known["rebalance_id"].astext, UUID(as_uuid=False)).label("rebalance_id"),
        groups.c.group_id,
        groups.c.shard_id,
        as_ms(groups.c.created_at).label("group_created_at_ms"),
        groups.c.generation,
        known["trigger"].astext.label("trigger"),
        known["trigger_member_id"].astext.label("trigger_member_id"),
        known["client_reason"].astext.label("client_reason"),
        known["started_at_ms"].astext.cast(BigInteger).label("started_at_ms"),
        known["joined_at_ms"].astext.cast(BigInteger).label("joined_at_ms"),
        null().cast(BigInteger).label("completed_at_ms"),
        null().cast(Text).label("outcome"),
        known["restarts"].astext.cast(Integer).label("restarts"),
        known["member_count_before"].astext.cast(Integer).label("member_count_before"),
        null().cast(Integer).label("member_count_after"),
        null().cast(Integer).label("partitions_moved"),
    ).where(groups.c.group_id == group_id, known["rebalance_id"].astext.is_not(None))


# -- rebalance members ------------------------------------------------------------------------------------

_REBALANCE_MEMBER: Final = tuple(RebalanceMemberRow.__dataclass_fields__)


def read_rebalance_members(transaction: Transaction, group_id: str, rebalance_id: str) -> list[RebalanceMemberRow]:
    """Return the members of a rebalance; the group's index on `rebalances` finds the day to read."""
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
    return [RebalanceMemberRow(*row) for row in transaction.execute(wanted)]


_WAITS: Final = """
SELECT part.rebalance_id::text, part.member_id, part.group_instance_id, part.client_id,
    coalesce(present.client_host, past.client_host), part.waited_for_ms, part.outcome
FROM rebalances
JOIN rebalance_members AS part USING (rebalance_id, completed_at)
LEFT JOIN members AS present ON (present.group_id, present.member_id) = (rebalances.group_id, part.member_id)
LEFT JOIN LATERAL (
    SELECT client_host
    FROM member_sessions
    WHERE group_id = %(group_id)s AND member_id = part.member_id AND ended_at >= to_timestamp(%(from_ms)s / 1000.0)
    ORDER BY ended_at DESC
    LIMIT 1
) AS past ON present.member_id IS NULL
WHERE rebalances.group_id = %(group_id)s
    AND rebalances.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
    AND part.completed_at >= to_timestamp(%(from_ms)s / 1000.0)
    AND part.waited_for_ms >= %(at_least_ms)s
ORDER BY part.waited_for_ms DESC, part.rebalance_id, part.member_id
LIMIT %(limit)s
"""


def read_waits(transaction: Transaction, query: WaitQuery, limit: int) -> list[RebalanceWait]:
    """Return the waits of rebalances for members, the longest first."""
    parameters = {
        "group_id": query.group_id,
        "from_ms": query.from_ms,
        "at_least_ms": query.at_least_ms,
        "limit": limit,
    }
    return [RebalanceWait(*row) for row in transaction.execute(_WAITS, parameters)]


# -- transitions ------------------------------------------------------------------------------------------

_TRANSITION: Final = tuple(TransitionRow.__dataclass_fields__)
_RANK: Final = case(
    {str(state): rank for state, rank in RANK_IN_GENERATION.items()}, value=group_transitions.c.to_state
)
_PLACE: Final = (
    group_transitions.c.at,
    group_transitions.c.group_created_at,
    group_transitions.c.generation,
    _RANK,
)


def read_transitions(
    transaction: Transaction, group_id: str, after: TransitionCursor | None, limit: int
) -> list[TransitionRow]:
    """Return a page of transitions, the newest first."""
    wanted = select(*columns_of(group_transitions, _TRANSITION)).where(group_transitions.c.group_id == group_id)
    if after is not None:
        at, created_at = from_ms(after.at_ms), from_ms(after.group_created_at_ms)
        place = tuple_(at, created_at, literal(after.generation), literal(after.rank))
        wanted = wanted.where(group_transitions.c.at <= at, tuple_(*_PLACE) < place)
    newest_first = wanted.order_by(*(each.desc() for each in _PLACE)).limit(limit)
    return [TransitionRow(*row) for row in transaction.execute(newest_first)]


# -- ownership --------------------------------------------------------------------------------------------

_OWNED: Final = ("member_id", "topic", "partitions", "generation", "rebalance_id", "valid_from", "valid_to")
_ownership: Final = table("ownership", column("group_id"), *(column(name) for name in _OWNED), schema="dashboards")


def read_ownership(transaction: Transaction, moment: Moment) -> list[PartitionOwnership]:
    """Return ownerships from the view `dashboards.ownership`."""
    owned, at = _ownership.c, from_ms(moment.at_ms)
    conditions: list[ColumnElement[bool]] = [
        owned.group_id == moment.group_id,
        owned.valid_from <= at,
        or_(owned.valid_to > at, owned.valid_to.is_(None)),
    ]
    if moment.topic is not None:
        conditions.append(owned.topic == moment.topic)
    if moment.partition is not None:
        conditions.append(literal(moment.partition) == func.any(owned.partitions))
    wanted = select(
        owned.member_id,
        owned.topic,
        owned.partitions,
        owned.generation,
        cast(owned.rebalance_id, Text),
        as_ms(owned.valid_from),
        as_ms(owned.valid_to),
    ).where(*conditions)
    rows = transaction.execute(wanted)
    ownerships = [
        PartitionOwnership(member_id, topic, tuple(numbers), *rest) for member_id, topic, numbers, *rest in rows
    ]
    return in_order(ownerships, moment.partition)


# -- committed offsets ------------------------------------------------------------------------------------

_OFFSETS_AT: Final = """
WITH archive AS (
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, archived_at
    FROM archived_offsets
    WHERE group_id = %(group_id)s AND (%(topic)s::text IS NULL OR topic = %(topic)s)
        AND (%(partition)s::integer IS NULL OR partition = %(partition)s)
), present AS (
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, member_id
    FROM offsets
    WHERE group_id = %(group_id)s AND (%(topic)s::text IS NULL OR topic = %(topic)s)
        AND (%(partition)s::integer IS NULL OR partition = %(partition)s)
), committed_later AS (
    SELECT topic, partition FROM present WHERE committed_at > to_timestamp(%(at_ms)s / 1000.0)
    UNION
    SELECT topic, partition FROM archive WHERE committed_at > to_timestamp(%(at_ms)s / 1000.0)
), known AS (
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, member_id,
        NULL::timestamptz AS removed_at, 0 AS place
    FROM present
    UNION ALL
    SELECT committed_later.topic, committed_later.partition, past.*, NULL, 1
    FROM committed_later
    CROSS JOIN LATERAL (
        SELECT committed_offset, log_end_offset, at, member_id
        FROM offset_history
        WHERE group_id = %(group_id)s
            AND topic = committed_later.topic
            AND partition = committed_later.partition
            AND at <= to_timestamp(%(at_ms)s / 1000.0)
        ORDER BY at DESC
        LIMIT 1
    ) AS past
    UNION ALL
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, NULL, archived_at, 2
    FROM archive
), newest AS (
    SELECT DISTINCT ON (topic, partition) *
    FROM known
    WHERE committed_at <= to_timestamp(%(at_ms)s / 1000.0)
    ORDER BY topic, partition, committed_at DESC, place, removed_at DESC
)
SELECT topic, partition, committed_offset, log_end_offset, floor(extract(epoch FROM committed_at) * 1000)::bigint,
    member_id
FROM newest
WHERE removed_at IS NULL OR removed_at > to_timestamp(%(at_ms)s / 1000.0)
ORDER BY topic, partition
"""
"""Reads history only for partitions with a later commit. An offset that was archived before the time does not count."""


def read_offsets_at(transaction: Transaction, moment: Moment) -> list[OffsetAtTime]:
    """Return committed offsets, by topic and partition."""
    parameters = {
        "group_id": moment.group_id,
        "at_ms": moment.at_ms,
        "topic": moment.topic,
        "partition": moment.partition,
    }
    return [OffsetAtTime(*row) for row in transaction.execute(_OFFSETS_AT, parameters)]


# -- lag ----------------------------------------------------------------------------------------------------

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
