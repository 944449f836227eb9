"""Positions of one group, now and over time, each answer by one statement over what an index finds.

A commit shows that the log reaches it, so an end that was reported is never before the position it came with.
"""

from collections.abc import Sequence
from typing import Final

from coordinator_core.protocol.log_ends import LogEnd, rising
from coordinator_core.protocol.retention import NO_GROUP, GroupFacts
from coordinator_core.store.positions import (
    EARLY_FACTOR,
    GroupPositions,
    HeldPosition,
    LaggingPosition,
    PastPosition,
    Stretch,
    facts_of,
)
from coordinator_core.store.postgres.connections import Transaction

# -- now ---------------------------------------------------------------------------------------------------

_FACTS: Final = """
SELECT state, protocol_type,
    CASE WHEN isfinite(state_since) THEN floor(extract(epoch FROM state_since) * 1000)::bigint END, subscribed_topics
FROM groups
WHERE group_id = %(group_id)s
"""

_ENDS: Final = """
LEFT JOIN LATERAL (
    SELECT array_agg(floor(extract(epoch FROM at) * 1000)::bigint) AS at_ms, array_agg(log_end_offset) AS offsets
    FROM dashboards.log_ends_around(
        present.group_id, present.topic, present.partition, to_timestamp(%(since_ms)s / 1000.0))
) AS ends ON true
"""

_HELD_POSITIONS: Final = f"""
WITH present AS (
    SELECT group_id, topic, partition, committed_offset, committed_at, expires_at
    FROM offsets
    WHERE group_id = %(group_id)s
), held AS (
    SELECT DISTINCT ON (1, 2) span ->> 'topic' AS topic, number::integer AS partition, member_id, client_id
    FROM members
    CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(held) WHEN 'array' THEN held END) AS span
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE jsonb_typeof(span -> 'partitions') WHEN 'array' THEN span -> 'partitions' END
    ) AS number
    WHERE group_id = %(group_id)s
    ORDER BY 1, 2, member_id
)
SELECT topic, partition, held.member_id, held.client_id, present.committed_offset,
    floor(extract(epoch FROM present.committed_at) * 1000)::bigint,
    floor(extract(epoch FROM present.expires_at) * 1000)::bigint,
    ends.at_ms, ends.offsets
FROM present
FULL JOIN held USING (topic, partition)
{_ENDS}
ORDER BY topic COLLATE "C", partition
"""  # noqa: S608 - all of it is written here


def read_group_positions(transaction: Transaction, group_id: str, since_ms: int) -> GroupPositions:
    """Return where a group stands; ends that were reported before an instant are not looked at."""
    rows = transaction.execute(_HELD_POSITIONS, {"group_id": group_id, "since_ms": since_ms})
    return GroupPositions(_facts(transaction, group_id), [_held_position(*row) for row in rows])


def _facts(transaction: Transaction, group_id: str) -> GroupFacts:
    row = transaction.execute(_FACTS, {"group_id": group_id}).first()
    if row is None:
        return NO_GROUP
    state, protocol_type, since_ms, topics = row
    return facts_of(state, protocol_type, since_ms, topics)


def _held_position(
    topic: str,
    partition: int,
    member_id: str | None,
    client_id: str | None,
    offset: int | None,
    committed_at_ms: int | None,
    expires_at_ms: int | None,
    *ends: Sequence[int] | None,
) -> HeldPosition:
    owner = (member_id, client_id)
    return HeldPosition(topic, partition, *owner, offset, committed_at_ms, expires_at_ms, _ends(*ends))


def _ends(at_ms: Sequence[int] | None, offsets: Sequence[int] | None) -> tuple[LogEnd, ...]:
    """Return ends by time, from their instants and offsets; None where there are none."""
    return tuple(rising(map(LogEnd, at_ms or (), offsets or ())))


# -- who is behind -----------------------------------------------------------------------------------------

_LAGGING: Final = f"""
SELECT group_id, topic, partition, committed_offset, ends.at_ms, ends.offsets
FROM dashboards.known_log_ends AS present
{_ENDS}
WHERE shard_id = ANY(%(shard_ids)s) AND log_end_offset > committed_offset
ORDER BY group_id, topic, partition
"""  # noqa: S608 - likewise


def read_lagging(transaction: Transaction, shard_ids: list[int], since_ms: int) -> list[LaggingPosition]:
    """Return which offsets of groups are behind; an offset at the end of its log costs nothing."""
    rows = transaction.execute(_LAGGING, {"shard_ids": shard_ids, "since_ms": since_ms})
    return [
        LaggingPosition(group_id, topic, partition, offset, _ends(at_ms, ends))
        for group_id, topic, partition, offset, at_ms, ends in rows
    ]


# -- over time ---------------------------------------------------------------------------------------------

STEPS: Final = """steps AS MATERIALIZED (
    SELECT to_timestamp(greatest(number * %(early_step_ms)s, %(from_ms)s) / 1000.0) AS begins,
        to_timestamp(least((number + 1) * %(early_step_ms)s, %(turn_ms)s) / 1000.0) AS ends
    FROM generate_series(%(from_ms)s / %(early_step_ms)s, (%(turn_ms)s - 1) / %(early_step_ms)s) AS number
    WHERE %(from_ms)s < %(turn_ms)s
    UNION ALL
    SELECT to_timestamp(greatest(number * %(step_ms)s, %(turn_ms)s) / 1000.0),
        to_timestamp(least((number + 1) * %(step_ms)s, %(until_ms)s) / 1000.0)
    FROM generate_series(%(turn_ms)s / %(step_ms)s, (%(until_ms)s - 1) / %(step_ms)s) AS number
    WHERE %(turn_ms)s < %(until_ms)s
)"""
"""The steps of a stretch, as a part of a statement; `stretch_parameters` fills it."""

_PAST: Final = f"""
WITH present AS (
    SELECT topic, partition, committed_at, committed_offset,
        CASE WHEN log_end_at IS NULL THEN log_end_offset END AS log_end_offset
    FROM offsets
    WHERE group_id = %(group_id)s
), gone AS (
    SELECT topic, partition, archived_at
    FROM archived_offsets
    WHERE group_id = %(group_id)s AND archived_at >= to_timestamp(%(from_ms)s / 1000.0)
), partitions AS MATERIALIZED (
    SELECT topic, partition FROM present UNION SELECT topic, partition FROM gone ORDER BY topic, partition
), {STEPS}
SELECT partitions.topic, partitions.partition, told.*
FROM partitions
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (is_late, at_ms / CASE WHEN is_late THEN %(step_ms)s ELSE %(early_step_ms)s END)
        at_ms, committed_offset,
        CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END
    FROM (
        SELECT *, at_ms >= %(early_until_ms)s AS is_late
        FROM (
            SELECT floor(extract(epoch FROM at) * 1000)::bigint AS at_ms, committed_offset, log_end_offset
            FROM (
                SELECT last.*
                FROM steps
                CROSS JOIN LATERAL (
                    SELECT at, committed_offset, log_end_offset
                    FROM offset_history
                    WHERE group_id = %(group_id)s
                        AND topic = partitions.topic AND partition = partitions.partition
                        AND at >= steps.begins AND at < steps.ends
                    ORDER BY at DESC
                    LIMIT 1
                ) AS last
                UNION ALL
                SELECT committed_at, committed_offset, log_end_offset
                FROM present
                WHERE (present.topic, present.partition) = (partitions.topic, partitions.partition)
                    AND committed_at < to_timestamp(%(until_ms)s / 1000.0)
                UNION ALL
                SELECT archived_at, NULL, NULL
                FROM gone
                WHERE (gone.topic, gone.partition) = (partitions.topic, partitions.partition)
                    AND archived_at < to_timestamp(%(until_ms)s / 1000.0)
                UNION ALL
                SELECT before.*
                FROM present
                CROSS JOIN LATERAL (
                    SELECT at, committed_offset, log_end_offset
                    FROM offset_history
                    WHERE group_id = %(group_id)s
                        AND topic = partitions.topic AND partition = partitions.partition
                        AND at < to_timestamp(%(from_ms)s / 1000.0)
                    ORDER BY at DESC
                    LIMIT 1
                ) AS before
                WHERE (present.topic, present.partition) = (partitions.topic, partitions.partition)
                    AND present.committed_at >= to_timestamp(%(from_ms)s / 1000.0)
            ) AS known
        ) AS timed
    ) AS early_or_late
    ORDER BY is_late, at_ms / CASE WHEN is_late THEN %(step_ms)s ELSE %(early_step_ms)s END,
        at_ms DESC, committed_offset DESC NULLS LAST, log_end_offset DESC NULLS LAST
) AS told
ORDER BY partitions.topic, partitions.partition, at_ms
LIMIT %(limit)s
"""  # noqa: S608 - likewise
"""Each step is one look into the index, however many positions lie in it, and reading stops where the limit is reached.

A partition that has no position any more stands in the archive since it lost it."""


def read_past_positions(transaction: Transaction, stretch: Stretch, limit: int) -> list[PastPosition]:
    """Return a group's positions over time, at most so many, by topic, partition and time."""
    return [PastPosition(*row) for row in transaction.execute(_PAST, stretch_parameters(stretch, limit))]


def stretch_parameters(stretch: Stretch, limit: int) -> dict[str, str | int]:
    """Return what a statement over a stretch takes."""
    return {
        "group_id": stretch.group_id,
        "from_ms": stretch.from_ms,
        "until_ms": stretch.until_ms,
        "step_ms": stretch.step_ms,
        "early_until_ms": stretch.early_until_ms,
        "turn_ms": max(stretch.from_ms, min(stretch.early_until_ms, stretch.until_ms)),
        "early_step_ms": stretch.step_ms * EARLY_FACTOR,
        "limit": limit,
    }
