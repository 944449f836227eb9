"""Partition ownership and committed offsets as of a time."""

from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Text, cast, column, func, literal, or_, select, table

from coordinator_core.queries.groups import known
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import END_OF_TIME_MS, as_ms, from_ms


@dataclass(frozen=True, slots=True)
class Moment:
    """Selects a group, and optionally a topic and a partition, as of a time."""

    group_id: str
    at_ms: int = END_OF_TIME_MS
    """Wall time; END_OF_TIME_MS: now."""
    topic: str | None = None
    partition: int | None = None


class PartitionOwnership(NamedTuple):
    """Partitions of one topic that a member owned without interruption; `valid_to_ms` None: it still owns them."""

    member_id: str
    topic: str
    partitions: tuple[int, ...]
    generation: int
    rebalance_id: str
    valid_from_ms: int
    valid_to_ms: int | None


class OffsetAtTime(NamedTuple):
    """The committed offset of a partition as of a time, and when it was committed."""

    topic: str
    partition: int
    offset: int
    log_end_offset: int | None
    committed_at_ms: int
    member_id: str | None
    """The member that committed it; "": a consumer outside of a group; None: unknown, the offset is in the archive."""
    token_id: str | None = None
    """The token that committed it, if that was a rewind, the partition's first commit, or one without a member."""
    client_address: str | None = None
    """The client's address, in the same cases."""


_OWNED: Final = ("member_id", "topic", "partitions", "generation", "rebalance_id", "valid_from", "valid_to")
_ownership: Final = table("ownership", column("group_id"), *(column(name) for name in _OWNED), schema="dashboards")


def read_ownership(transaction: Transaction, moment: Moment) -> list[PartitionOwnership]:
    """Return ownerships from the view `dashboards.ownership`, by topic, first partition and member.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
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
    only = None if moment.partition is None else (moment.partition,)
    ownerships = [
        PartitionOwnership(member_id, topic, only or tuple(numbers), *rest) for member_id, topic, numbers, *rest in rows
    ]
    ownerships.sort(key=lambda owned: (owned.topic, owned.partitions[:1], owned.member_id))
    return known(transaction, moment.group_id, ownerships)


# -- committed offsets ------------------------------------------------------------------------------------

_OFFSETS_AT: Final = """
WITH archive AS (
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, archived_at
    FROM archived_offsets
    WHERE group_id = %(group_id)s AND (%(topic)s::text IS NULL OR topic = %(topic)s)
        AND (%(partition)s::integer IS NULL OR partition = %(partition)s)
), present AS (
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, member_id, token_id, client_address
    FROM offsets
    WHERE group_id = %(group_id)s AND (%(topic)s::text IS NULL OR topic = %(topic)s)
        AND (%(partition)s::integer IS NULL OR partition = %(partition)s)
), committed_later AS (
    SELECT topic, partition FROM present WHERE committed_at > to_timestamp(%(at_ms)s / 1000.0)
    UNION
    SELECT topic, partition FROM archive WHERE committed_at > to_timestamp(%(at_ms)s / 1000.0)
), known AS (
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, member_id, token_id, client_address,
        NULL::timestamptz AS removed_at, 0 AS place
    FROM present
    UNION ALL
    SELECT committed_later.topic, committed_later.partition, past.*, NULL, 1
    FROM committed_later
    CROSS JOIN LATERAL (
        SELECT committed_offset, log_end_offset, at, member_id, token_id, client_address
        FROM offset_history
        WHERE group_id = %(group_id)s
            AND topic = committed_later.topic
            AND partition = committed_later.partition
            AND at <= to_timestamp(%(at_ms)s / 1000.0)
        ORDER BY at DESC
        LIMIT 1
    ) AS past
    UNION ALL
    SELECT topic, partition, committed_offset, log_end_offset, committed_at, NULL, NULL, NULL, archived_at, 2
    FROM archive
), newest AS (
    SELECT DISTINCT ON (topic, partition) *
    FROM known
    WHERE committed_at <= to_timestamp(%(at_ms)s / 1000.0)
    ORDER BY topic, partition, committed_at DESC, place, removed_at DESC
)
SELECT topic, partition, committed_offset, log_end_offset, floor(extract(epoch FROM committed_at) * 1000)::bigint,
    member_id, token_id, client_address
FROM newest
WHERE removed_at IS NULL OR removed_at > to_timestamp(%(at_ms)s / 1000.0)
ORDER BY topic, partition
"""
"""Reads history only for partitions with a later commit. An offset that was archived before the time does not count."""


def read_offsets_at(transaction: Transaction, moment: Moment) -> list[OffsetAtTime]:
    """Return committed offsets, by topic and partition."""
    return [OffsetAtTime(*row) for row in transaction.execute(_OFFSETS_AT, asdict(moment))]
