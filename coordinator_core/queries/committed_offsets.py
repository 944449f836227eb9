"""Committed offsets and log ends of a group, now and over time: what lag is computed from.

The log reaches every committed offset, so a log end is never returned as lower than the offset it was reported with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from coordinator_core.protocol.log_ends import LAG_MAX_RECORDS, LogEnd, monotonic_log_ends
from coordinator_core.protocol.retention import NO_GROUP, GroupFacts
from coordinator_core.protocol.states import STABLE, GroupState
from coordinator_core.queries.group_patterns import COVERED_GROUPS, GroupPatterns, pattern_parameters
from coordinator_core.state_store.postgres.connections import Transaction

COARSE_FACTOR: Final = 4
"""How much longer steps are before `coarse_until_ms`, where offsets only serve to compute lag in seconds."""


class PartitionOffset(NamedTuple):
    """A partition that a group has committed, or that a member owns, or both."""

    topic: str
    partition: int
    member_id: str | None
    client_id: str | None
    offset: int | None
    """None: no offset is committed, and the fields below are empty."""
    committed_at_ms: int | None
    expires_at_ms: int | None
    """The offset's own expiry, if any."""
    ends: tuple[LogEnd, ...]
    """The known log ends that `lag_at` needs, by time and never decreasing; the last is the highest."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """All partitions of a group, by topic and partition, and the facts that the retention of offsets depends on."""

    facts: GroupFacts
    partitions: list[PartitionOffset]


class LaggingOffset(NamedTuple):
    """A committed offset that lags behind the known end of its log."""

    group_id: str
    topic: str
    partition: int
    offset: int
    ends: tuple[LogEnd, ...]
    """As in `PartitionOffset`."""


class LagTotal(NamedTuple):
    """Sums over the partitions of a group whose log ends are known; None: there are none."""

    records: int | None
    """The sum of their lag, at most `LAG_MAX_RECORDS`."""
    log_end_at_ms: int | None
    """The oldest of the times at which their log ends were last reported."""
    lagging_count: int
    most_lagging: list[LaggingOffset]
    """Those that lag by the most records, in any order."""


class PastOffset(NamedTuple):
    """A partition's committed offset from a time on; `offset` None: it was removed."""

    topic: str
    partition: int
    at_ms: int
    offset: int | None
    log_end_offset: int | None


class PastLogEnd(NamedTuple):
    """The log end offset of a partition at a time, from a trusted reporter."""

    topic: str
    partition: int
    at_ms: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Selects a time range of a group's committed offsets, and its resolution."""

    group_id: str
    from_ms: int
    until_ms: int
    """The end of the range, exclusive."""
    step_ms: int
    """Of a partition's offsets within one step, counted from the epoch, only the last is returned."""
    coarse_until_ms: int = 0
    """Before this time steps are longer, by COARSE_FACTOR."""


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

_GROUP_OFFSETS: Final = f"""
WITH present AS (
    SELECT group_id, topic, partition, committed_offset, committed_at, expires_at
    FROM offsets
    WHERE group_id = %(group_id)s AND (topic, partition) > (%(topic)s, %(partition)s)
    ORDER BY topic, partition
    LIMIT %(limit)s
), held AS (
    SELECT DISTINCT ON (1, 2) span ->> 'topic' AS topic, number::integer AS partition, member_id, client_id
    FROM members
    CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(ownership) WHEN 'array' THEN ownership END) AS span
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE jsonb_typeof(span -> 'partitions') WHEN 'array' THEN span -> 'partitions' END
    ) AS number
    WHERE group_id = %(group_id)s
        AND (span ->> 'topic' COLLATE "C", number::integer) > (%(topic)s, %(partition)s)
    ORDER BY 1, 2, member_id
), page AS (
    SELECT topic COLLATE "C" AS topic, partition, held.member_id, held.client_id,
        present.group_id, present.committed_offset, present.committed_at, present.expires_at
    FROM present
    FULL JOIN held USING (topic, partition)
    ORDER BY 1, 2
    LIMIT %(limit)s
)
SELECT topic, partition, member_id, client_id, committed_offset,
    floor(extract(epoch FROM committed_at) * 1000)::bigint,
    floor(extract(epoch FROM expires_at) * 1000)::bigint,
    ends.at_ms, ends.offsets
FROM page AS present
{_ENDS}
ORDER BY topic, partition
"""  # noqa: S608 - all of it is written here


def read_group_offsets(
    transaction: Transaction,
    group_id: str,
    since_ms: int,
    after: tuple[str, int] | None = None,
    limit: int | None = None,
) -> GroupOffsets:
    """Return a group's committed offsets and log ends.

    Args:
        transaction: the transaction.
        group_id: the group.
        since_ms: log ends from before are ignored.
        after: the topic and the number of a partition; it and those before it are left out.
        limit: how many partitions are returned at most; None: all.
    """
    topic, partition = after or ("", -1)
    parameters = {"group_id": group_id, "since_ms": since_ms, "topic": topic, "partition": partition, "limit": limit}
    rows = transaction.execute(_GROUP_OFFSETS, parameters)
    return GroupOffsets(_facts(transaction, group_id), [_partition_offset(*row) for row in rows])


def count_offsets(transaction: Transaction, group_id: str) -> int:
    """Return how many committed offsets a group has."""
    count = "SELECT count(*) FROM offsets WHERE group_id = %(group_id)s"
    return int(transaction.execute(count, {"group_id": group_id}).scalar_one())


def _facts(transaction: Transaction, group_id: str) -> GroupFacts:
    row = transaction.execute(_FACTS, {"group_id": group_id}).first()
    if row is None:
        return NO_GROUP
    state, protocol_type, since_ms, topics = row
    # A group with an invalid state is quarantined. It counts as Stable, so its offsets do not expire.
    known_state = GroupState(state) if state in set(GroupState) else STABLE
    return GroupFacts(known_state, protocol_type, since_ms, None if topics is None else frozenset(topics))


def _partition_offset(
    topic: str,
    partition: int,
    member_id: str | None,
    client_id: str | None,
    offset: int | None,
    committed_at_ms: int | None,
    expires_at_ms: int | None,
    *ends: Sequence[int] | None,
) -> PartitionOffset:
    owner = (member_id, client_id)
    return PartitionOffset(topic, partition, *owner, offset, committed_at_ms, expires_at_ms, _ends(*ends))


def _ends(at_ms: Sequence[int] | None, offsets: Sequence[int] | None) -> tuple[LogEnd, ...]:
    """Return log ends by time, from arrays of their times and offsets; None: there are none."""
    return tuple(monotonic_log_ends(map(LogEnd, at_ms or (), offsets or ())))


# -- lag ---------------------------------------------------------------------------------------------------

_LAGGING: Final = f"""
SELECT group_id, topic, partition, committed_offset, ends.at_ms, ends.offsets
FROM dashboards.known_log_ends AS present
{_ENDS}
WHERE shard_id = ANY(%(shard_ids)s) AND log_end_offset > committed_offset
ORDER BY group_id, topic, partition
"""  # noqa: S608 - likewise


def read_lagging(transaction: Transaction, shard_ids: list[int], since_ms: int) -> list[LaggingOffset]:
    """Return the offsets that lag; the log ends of other offsets are not read."""
    rows = transaction.execute(_LAGGING, {"shard_ids": shard_ids, "since_ms": since_ms})
    return [_lagging_offset(*row) for row in rows]


_TOTAL: Final = f"""
WITH known AS MATERIALIZED (
    SELECT group_id, topic, partition, committed_offset, log_end_offset, log_end_at
    FROM dashboards.known_log_ends
    WHERE group_id = %(group_id)s AND log_end_offset IS NOT NULL
), present AS (
    SELECT * FROM known
    WHERE log_end_offset > committed_offset
    ORDER BY log_end_offset - committed_offset DESC
    LIMIT %(limit)s
), most AS (
    SELECT group_id, topic, partition, committed_offset, ends.at_ms, ends.offsets FROM present {_ENDS}
), sums AS (
    SELECT least(sum(greatest(log_end_offset - committed_offset, 0)), {LAG_MAX_RECORDS})::bigint AS records,
        floor(extract(epoch FROM min(log_end_at)) * 1000)::bigint AS log_end_at_ms,
        count(*) FILTER (WHERE log_end_offset > committed_offset) AS lagging
    FROM known
)
SELECT sums.*, most.* FROM sums LEFT JOIN most ON true
"""  # noqa: S608 - likewise


def read_lag_total(transaction: Transaction, group_id: str, since_ms: int, limit: int) -> LagTotal:
    """Return sums over all partitions of a group, and the `limit` offsets of it that lag by the most records."""
    parameters = {"group_id": group_id, "since_ms": since_ms, "limit": limit}
    rows = transaction.execute(_TOTAL, parameters).all()
    most = [_lagging_offset(*row[3:]) for row in rows if row[3] is not None]
    records, log_end_at_ms, lagging_count = rows[0][:3]
    return LagTotal(records, log_end_at_ms, lagging_count, most)


def _lagging_offset(
    group_id: str, topic: str, partition: int, offset: int, at_ms: Sequence[int] | None, ends: Sequence[int] | None
) -> LaggingOffset:
    return LaggingOffset(group_id, topic, partition, offset, _ends(at_ms, ends))


# -- over time ---------------------------------------------------------------------------------------------

STEPS: Final = """steps AS MATERIALIZED (
    SELECT to_timestamp(greatest(number * %(coarse_step_ms)s, %(from_ms)s) / 1000.0) AS begins,
        to_timestamp(least((number + 1) * %(coarse_step_ms)s, %(coarse_end_ms)s) / 1000.0) AS ends
    FROM generate_series(%(from_ms)s / %(coarse_step_ms)s, (%(coarse_end_ms)s - 1) / %(coarse_step_ms)s) AS number
    WHERE %(from_ms)s < %(coarse_end_ms)s
    UNION ALL
    SELECT to_timestamp(greatest(number * %(step_ms)s, %(coarse_end_ms)s) / 1000.0),
        to_timestamp(least((number + 1) * %(step_ms)s, %(until_ms)s) / 1000.0)
    FROM generate_series(%(coarse_end_ms)s / %(step_ms)s, (%(until_ms)s - 1) / %(step_ms)s) AS number
    WHERE %(coarse_end_ms)s < %(until_ms)s
)"""
"""The steps of a time range, as part of a WITH clause; its parameters are `time_range_parameters`."""

_PAST: Final = f"""
WITH last AS (
    SELECT topic, partition, committed_at, committed_offset, log_end_offset, log_end_at, NULL::timestamptz AS removed_at
    FROM offsets
    WHERE group_id = %(group_id)s
    UNION ALL
    SELECT topic, partition, committed_at, committed_offset, log_end_offset, log_end_at, archived_at
    FROM archived_offsets
    WHERE group_id = %(group_id)s AND archived_at >= to_timestamp(%(from_ms)s / 1000.0)
), partitions AS MATERIALIZED (
    SELECT topic, partition, min(committed_at) AS first_at, array_agg(committed_at) AS committed_at,
        array_agg(committed_offset) AS offsets,
        array_agg(CASE WHEN log_end_at IS NULL THEN log_end_offset END) AS ends,
        array_agg(removed_at) AS removed_at
    FROM last
    GROUP BY topic, partition
    ORDER BY topic, partition
), {STEPS}
SELECT partitions.topic, partitions.partition, sampled.*
FROM partitions
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (is_fine, at_ms / CASE WHEN is_fine THEN %(step_ms)s ELSE %(coarse_step_ms)s END)
        at_ms, committed_offset,
        CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END
    FROM (
        SELECT *, at_ms >= %(coarse_until_ms)s AS is_fine
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
                SELECT *
                FROM unnest(partitions.committed_at, partitions.offsets, partitions.ends) AS last (at)
                WHERE at < to_timestamp(%(until_ms)s / 1000.0)
                UNION ALL
                SELECT at, NULL, NULL
                FROM unnest(partitions.removed_at) AS removed (at)
                WHERE at < to_timestamp(%(until_ms)s / 1000.0)
                UNION ALL
                SELECT before.*
                FROM (
                    SELECT at, committed_offset, log_end_offset
                    FROM offset_history
                    WHERE group_id = %(group_id)s
                        AND topic = partitions.topic AND partition = partitions.partition
                        AND at < to_timestamp(%(from_ms)s / 1000.0)
                    ORDER BY at DESC
                    LIMIT 1
                ) AS before
                WHERE partitions.first_at >= to_timestamp(%(from_ms)s / 1000.0) AND NOT EXISTS (
                    SELECT FROM archived_offsets AS removed
                    WHERE group_id = %(group_id)s
                        AND topic = partitions.topic AND partition = partitions.partition
                        AND archived_at > before.at AND archived_at < to_timestamp(%(from_ms)s / 1000.0)
                )
            ) AS known
        ) AS timed
    ) AS by_resolution
    ORDER BY is_fine, at_ms / CASE WHEN is_fine THEN %(step_ms)s ELSE %(coarse_step_ms)s END,
        at_ms DESC, committed_offset DESC NULLS LAST, log_end_offset DESC NULLS LAST
) AS sampled
ORDER BY partitions.topic, partitions.partition, at_ms
LIMIT %(limit)s
"""  # noqa: S608 - likewise
"""Each step is one index lookup, however many offsets it has, and reading stops at the limit.

An offset that was removed or reset is in the archive only: it counts until then, and no earlier one does afterwards."""


def read_past_offsets(transaction: Transaction, time_range: TimeRange, limit: int) -> list[PastOffset]:
    """Return at most `limit` of a group's committed offsets over time, by topic, partition and time."""
    return [PastOffset(*row) for row in transaction.execute(_PAST, time_range_parameters(time_range, limit))]


def time_range_parameters(time_range: TimeRange, limit: int) -> dict[str, str | int]:
    """Return the parameters of a statement over a time range."""
    return {
        **asdict(time_range),
        "coarse_end_ms": max(time_range.from_ms, min(time_range.coarse_until_ms, time_range.until_ms)),
        "coarse_step_ms": time_range.step_ms * COARSE_FACTOR,
        "limit": limit,
    }


_PAST_LOG_ENDS: Final = f"""
WITH partitions AS MATERIALIZED (
    SELECT topic, partition, log_end_offset, reported_at, first_reported_at
    FROM (
        SELECT topic, partition FROM offsets WHERE group_id = %(group_id)s
        UNION
        SELECT topic, partition FROM archived_offsets
        WHERE group_id = %(group_id)s AND archived_at >= to_timestamp(%(from_ms)s / 1000.0)
    ) AS committed
    JOIN log_end_offsets USING (topic, partition)
), {STEPS}
SELECT partitions.topic, partitions.partition, known.*
FROM partitions
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (is_fine, at_ms / CASE WHEN is_fine THEN %(step_ms)s ELSE %(coarse_step_ms)s END)
        at_ms, log_end_offset
    FROM (
        SELECT floor(extract(epoch FROM at) * 1000)::bigint AS at_ms, log_end_offset,
            floor(extract(epoch FROM at) * 1000)::bigint >= %(coarse_until_ms)s AS is_fine
        FROM (
            SELECT last.*
            FROM steps
            CROSS JOIN LATERAL (
                SELECT at, log_end_offset
                FROM log_end_history
                WHERE topic = partitions.topic AND partition = partitions.partition
                    AND at >= greatest(steps.begins, partitions.first_reported_at) AND at < steps.ends
                ORDER BY at DESC
                LIMIT 1
            ) AS last
            UNION ALL
            SELECT partitions.reported_at, partitions.log_end_offset
            WHERE partitions.reported_at < to_timestamp(%(until_ms)s / 1000.0)
        ) AS known
    ) AS timed
    ORDER BY is_fine, at_ms / CASE WHEN is_fine THEN %(step_ms)s ELSE %(coarse_step_ms)s END, at_ms DESC
) AS known
ORDER BY partitions.topic, partitions.partition, at_ms
LIMIT %(limit)s
"""  # noqa: S608 - likewise


def read_past_log_ends(transaction: Transaction, time_range: TimeRange, limit: int) -> list[PastLogEnd]:
    """Return at most `limit` log ends of the partitions that a group has committed, by topic, partition and time."""
    return [PastLogEnd(*row) for row in transaction.execute(_PAST_LOG_ENDS, time_range_parameters(time_range, limit))]


_HIGHEST: Final = f"""
SELECT topic, partition, max(committed_offset)
FROM (
    SELECT group_id, topic, partition, committed_offset
    FROM offsets
    WHERE topic = ANY(%(topics)s)
    UNION ALL
    SELECT group_id, topic, partition, before.committed_offset
    FROM offsets JOIN archived_offsets AS before USING (group_id, topic, partition)
    WHERE topic = ANY(%(topics)s) AND before.cause = 'reset' AND NOT EXISTS (
        SELECT FROM archived_offsets AS deleted
        WHERE deleted.group_id = before.group_id AND deleted.topic = before.topic AND deleted.cause = 'topic_deleted'
            AND deleted.archived_at > before.archived_at
    )
) AS committed
WHERE {COVERED_GROUPS}
GROUP BY topic, partition
"""  # noqa: S608 - all of it is written here
"""An offset before a reset counts: the log reached it, unless it was the log of a topic that was deleted since."""


def read_highest_commits(
    transaction: Transaction, topics: Sequence[str], patterns: GroupPatterns | None
) -> dict[tuple[str, int], int]:
    """Return the highest offset that a group has committed, now or before a reset, by topic and partition.

    Commits count from their checkpoint on.

    Args:
        transaction: the transaction.
        topics: the topics.
        patterns: the groups that count; None: all.
    """
    rows = transaction.execute(_HIGHEST, {"topics": list(topics), **pattern_parameters(patterns)})
    return {(topic, partition): offset for topic, partition, offset in rows}


_ENDS_AT: Final = """
SELECT topic, partition, floor(extract(epoch FROM known.at) * 1000)::bigint, known.log_end_offset
FROM unnest(%(topics)s::text[], %(partitions)s::integer[], %(at_ms)s::bigint[]) AS wanted (topic, partition, at_ms)
JOIN log_end_offsets AS present USING (topic, partition)
CROSS JOIN LATERAL (
    SELECT at, log_end_offset
    FROM log_end_history
    WHERE topic = present.topic AND partition = present.partition
        AND at >= present.first_reported_at AND at <= to_timestamp(wanted.at_ms / 1000.0)
    UNION ALL
    SELECT present.reported_at, present.log_end_offset
    WHERE present.reported_at <= to_timestamp(wanted.at_ms / 1000.0)
    ORDER BY at DESC
    LIMIT 1
) AS known
"""


def read_log_ends_at(
    transaction: Transaction, instants_ms: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], LogEnd]:
    """Return the last log end that was reported at an instant or before, of partitions of which one is known.

    Args:
        transaction: the transaction.
        instants_ms: topic and partition → the instant.
    """
    parameters = {
        "topics": [topic for topic, _ in instants_ms],
        "partitions": [partition for _, partition in instants_ms],
        "at_ms": list(instants_ms.values()),
    }
    rows = transaction.execute(_ENDS_AT, parameters)
    return {(topic, partition): LogEnd(at_ms, offset) for topic, partition, at_ms, offset in rows}
