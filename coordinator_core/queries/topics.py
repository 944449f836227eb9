"""Queries of topics: all with their lag, the highest first; one with its partitions, and the groups that read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_core.protocol.log_ends import LAG_MAX_RECORDS
from coordinator_core.queries.group_patterns import COVERED_GROUPS, GroupPatterns, pattern_parameters
from coordinator_core.queries.overview import LAG_COLUMNS, LAG_UNKNOWN_KEY, RECENT_MS
from coordinator_core.state_store.postgres.connections import Transaction

# -- the list ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOverviewFilter:
    """Selects topics with metadata, committed offsets or subscribers."""

    text: str = ""
    """A substring of the topic; ASCII letters match in either case."""
    patterns: GroupPatterns | None = None
    """The groups that count; None: all."""
    after: tuple[int, str] | None = None
    """Key and name of the last topic of the previous page."""
    limit: int = 100
    fresh_since_ms: int = 0
    """A log end that was last reported before this time is stale."""


class TopicSummary(NamedTuple):
    """A topic in the list."""

    key: int
    """The list is sorted by key and topic."""
    topic: str
    partition_count: int | None
    """By the topic metadata; None: there is none."""
    group_count: int
    """Groups that subscribe to the topic, or have committed offsets in it, or both."""
    lag: int | None
    """The sum over these groups; None: no log end is known, or it is a lower bound of 0."""
    is_lag_lower_bound: bool
    log_end_at_ms: int | None
    """The oldest of the times at which the log ends were last reported."""


@dataclass(frozen=True, slots=True)
class TopicOverview:
    """A page of topics, the highest lag first."""

    topic_count: int
    """The number of topics on all pages."""
    topics: list[TopicSummary]


_OVERVIEW: Final = f"""
WITH reads AS (
    SELECT topic, group_id, greatest(log_end_offset - committed_offset, 0) AS lag, log_end_at
    FROM dashboards.known_log_ends WHERE {COVERED_GROUPS}
    UNION ALL
    SELECT topic COLLATE "C", group_id, NULL, NULL
    FROM groups CROSS JOIN unnest(subscribed_topics) AS subscribed (topic)
    WHERE state <> 'Dead' AND {COVERED_GROUPS}
), by_group AS (
    SELECT topic, sum(lag) AS lag, min(log_end_at) AS log_end_at FROM reads GROUP BY topic, group_id
), by_topic AS (
    SELECT topic, count(*) AS group_count, sum(lag) AS lag, min(log_end_at) AS log_end_at FROM by_group GROUP BY topic
), matching AS (
    SELECT topic, topics.partitions, coalesce(group_count, 0) AS group_count,
        CASE WHEN lag > 0 OR log_end_at >= to_timestamp(%(fresh_since_ms)s / 1000.0)
            THEN least(lag, {LAG_MAX_RECORDS})::bigint END AS lag,
        coalesce(log_end_at < to_timestamp(%(fresh_since_ms)s / 1000.0), false) AS is_lag_lower_bound,
        floor(extract(epoch FROM log_end_at) * 1000)::bigint AS log_end_at_ms
    FROM by_topic FULL JOIN topics USING (topic)
    WHERE strpos(lower(topic), %(text)s) > 0
), page AS (
    SELECT coalesce(-lag, {LAG_UNKNOWN_KEY}) AS key, matching.* FROM matching
    WHERE %(after_key)s::bigint IS NULL
        OR (coalesce(-lag, {LAG_UNKNOWN_KEY}), topic) > (%(after_key)s::bigint, %(after_topic)s::text COLLATE "C")
    ORDER BY key, topic LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM matching), page.* FROM (SELECT) AS one LEFT JOIN page ON true ORDER BY key, topic
"""  # noqa: S608 - all of it is written here


def read_topic_overview(transaction: Transaction, which: TopicOverviewFilter) -> TopicOverview:
    """Return a page of topics, the highest lag first and an unknown lag last."""
    wanted = {
        "text": which.text.encode().lower().decode(),
        **pattern_parameters(which.patterns),
        "after_key": which.after and which.after[0],
        "after_topic": which.after and which.after[1],
        "limit": which.limit,
        "fresh_since_ms": which.fresh_since_ms,
    }
    rows = list(transaction.execute(_OVERVIEW, wanted))
    return TopicOverview(rows[0][0], [TopicSummary(*row[1:]) for row in rows if row[1] is not None])


# -- one topic -----------------------------------------------------------------------------------------------

TOPIC_PARTITIONS_MAX: Final = 10_000
TOPIC_GROUPS_MAX: Final = 1_000


class TopicPartition(NamedTuple):
    """A partition that a group has committed, or whose log end a trusted reporter reported."""

    partition: int
    log_end_offset: int | None
    """The highest known; None: no log end is known."""
    log_end_at_ms: int | None
    """When it was last reported."""
    group_count: int
    """The number of groups with a committed offset."""


class TopicGroup(NamedTuple):
    """A group that subscribes to the topic, or has committed offsets in it, or both."""

    group_id: str
    state: str | None
    """None: the group is deleted, or its consumers use no group membership."""
    member_count: int
    is_subscribed: bool
    partition_count: int
    """The number of partitions with a committed offset."""
    committed_at_ms: int | None
    """When the last of them was committed."""
    lag: int | None
    """The sum over these partitions; None: no log end is known, or it is a lower bound of 0."""
    is_lag_lower_bound: bool
    log_end_at_ms: int | None
    """The oldest of the times at which the log ends were last reported."""
    rebalances_last_hour: int


class TopicTotal(NamedTuple):
    """All groups of a topic, also those that are not listed."""

    group_count: int = 0
    lag: int | None = None
    """The sum of their lag; None: no log end is known, or it is a lower bound of 0."""
    is_lag_lower_bound: bool = False
    log_end_at_ms: int | None = None
    """The oldest of the times at which the log ends were last reported."""


@dataclass(frozen=True, slots=True)
class TopicUse:
    """The partitions and groups of a topic."""

    partition_count: int | None
    """By the topic metadata; None: there is none."""
    log_start_offset: int | None
    """By the topic metadata."""
    partitions: list[TopicPartition]
    """At most TOPIC_PARTITIONS_MAX, by number."""
    groups: list[TopicGroup]
    """At most TOPIC_GROUPS_MAX, the highest lag first."""
    total: TopicTotal


def read_log_starts(transaction: Transaction, topics: Sequence[str]) -> dict[str, int]:
    """Return where the logs of topics with metadata begin."""
    return {row.topic: row.log_start_offset for row in transaction.execute(_LOG_STARTS, {"topics": list(topics)})}


_LOG_STARTS: Final = "SELECT topic, log_start_offset FROM topics WHERE topic = ANY(%(topics)s)"

_METADATA: Final = "SELECT partitions, log_start_offset FROM topics WHERE topic = %(topic)s"

_PARTITIONS: Final = f"""
SELECT partition, max(log_end_offset),
    (array_agg(floor(extract(epoch FROM at) * 1000)::bigint ORDER BY log_end_offset DESC NULLS LAST, at DESC))[1],
    count(group_id)
FROM (
    SELECT partition, log_end_offset, log_end_at AS at, group_id
    FROM dashboards.known_log_ends WHERE topic = %(topic)s AND {COVERED_GROUPS}
    UNION ALL
    SELECT partition, log_end_offset, reported_at, NULL FROM log_end_offsets WHERE topic = %(topic)s
) AS known
GROUP BY partition ORDER BY partition LIMIT {TOPIC_PARTITIONS_MAX}
"""  # noqa: S608 - all of it is written here

_GROUPS: Final = f"""
WITH committed AS (
    SELECT group_id, count(*) AS partitions,
        floor(extract(epoch FROM max(committed_at)) * 1000)::bigint AS committed_at_ms, {LAG_COLUMNS}
    FROM dashboards.known_log_ends WHERE topic = %(topic)s AND {COVERED_GROUPS}
    GROUP BY group_id
), living AS (
    SELECT group_id, state, member_count, coalesce(%(topic)s = ANY(subscribed_topics), false) AS is_subscribed
    FROM groups WHERE state <> 'Dead' AND {COVERED_GROUPS}
), reading AS (
    SELECT group_id, living.state, coalesce(living.member_count, 0) AS member_count,
        coalesce(living.is_subscribed, false) AS is_subscribed, coalesce(committed.partitions, 0) AS partitions,
        committed.committed_at_ms, committed.lag,
        coalesce(committed.is_lag_lower_bound, false) AS is_lag_lower_bound, committed.log_end_at_ms
    FROM committed FULL JOIN living USING (group_id)
    WHERE living.is_subscribed OR committed.partitions > 0
), total AS (
    SELECT count(*) AS group_count, sum(lag) AS lag, coalesce(bool_or(is_lag_lower_bound), false) AS is_lag_lower_bound,
        min(log_end_at_ms) AS log_end_at_ms
    FROM reading
)
SELECT total.group_count,
    CASE WHEN total.lag > 0 OR total.lag = 0 AND NOT total.is_lag_lower_bound
        THEN least(total.lag, {LAG_MAX_RECORDS})::bigint END,
    total.is_lag_lower_bound, total.log_end_at_ms,
    reading.*,
    (SELECT count(*) FROM groups JOIN rebalances USING (group_id)
        WHERE group_id = reading.group_id AND group_created_at = created_at
            AND completed_at > now() - %(recent_ms)s * interval '1 ms')
FROM reading CROSS JOIN total
ORDER BY reading.lag DESC NULLS LAST, group_id LIMIT {TOPIC_GROUPS_MAX}
"""  # noqa: S608 - likewise


def read_topic_use(
    transaction: Transaction, topic: str, *, patterns: GroupPatterns | None, fresh_since_ms: int
) -> TopicUse:
    """Return the partitions and the groups of a topic, both empty if it is not known.

    Args:
        transaction: the transaction.
        topic: the topic.
        patterns: the groups that count; None: all.
        fresh_since_ms: a log end that was last reported before this time is stale.
    """
    wanted = {
        "topic": topic,
        **pattern_parameters(patterns),
        "fresh_since_ms": fresh_since_ms,
        "recent_ms": RECENT_MS,
    }
    partition_count, log_start_offset = transaction.execute(_METADATA, wanted).first() or (None, None)
    partitions = [TopicPartition(*row) for row in transaction.execute(_PARTITIONS, wanted)]
    rows = list(transaction.execute(_GROUPS, wanted))
    columns = len(TopicTotal._fields)
    total = TopicTotal(*rows[0][:columns]) if rows else TopicTotal()
    groups = [TopicGroup(*row[columns:]) for row in rows]
    return TopicUse(partition_count, log_start_offset, partitions, groups, total)
