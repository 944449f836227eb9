"""One topic: its partitions with their log ends, and the groups that read it, with their lag."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_core.queries.activity import OWN_GROUPS
from coordinator_core.queries.overview import LAG_COLUMNS
from coordinator_core.state_store.postgres.connections import Transaction

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


_METADATA: Final = "SELECT partitions, log_start_offset FROM topics WHERE topic = %(topic)s"

_PARTITIONS: Final = f"""
SELECT partition, max(log_end_offset),
    (array_agg(floor(extract(epoch FROM at) * 1000)::bigint ORDER BY log_end_offset DESC NULLS LAST, at DESC))[1],
    count(group_id)
FROM (
    SELECT partition, log_end_offset, log_end_at AS at, group_id
    FROM dashboards.known_log_ends WHERE topic = %(topic)s AND {OWN_GROUPS}
    UNION ALL
    SELECT partition, log_end_offset, reported_at, NULL FROM log_end_offsets WHERE topic = %(topic)s
) AS known
GROUP BY partition ORDER BY partition LIMIT {TOPIC_PARTITIONS_MAX}
"""  # noqa: S608 - all of it is written here

_GROUPS: Final = f"""
WITH committed AS (
    SELECT group_id, count(*) AS partitions,
        floor(extract(epoch FROM max(committed_at)) * 1000)::bigint AS committed_at_ms, {LAG_COLUMNS}
    FROM dashboards.known_log_ends WHERE topic = %(topic)s AND {OWN_GROUPS}
    GROUP BY group_id
), living AS (
    SELECT group_id, state, member_count, coalesce(%(topic)s = ANY(subscribed_topics), false) AS is_subscribed
    FROM groups WHERE state <> 'Dead' AND {OWN_GROUPS}
)
SELECT group_id, living.state, coalesce(living.member_count, 0), coalesce(living.is_subscribed, false),
    coalesce(committed.partitions, 0), committed.committed_at_ms,
    committed.lag, coalesce(committed.is_lag_lower_bound, false), committed.log_end_at_ms
FROM committed FULL JOIN living USING (group_id)
WHERE living.is_subscribed OR committed.partitions > 0
ORDER BY committed.lag DESC NULLS LAST, group_id LIMIT {TOPIC_GROUPS_MAX}
"""  # noqa: S608 - likewise


def read_topic_use(
    transaction: Transaction, topic: str, *, prefixes: Sequence[str] | None, fresh_since_ms: int
) -> TopicUse:
    """Return the partitions and the groups of a topic, both empty if it is not known.

    Args:
        transaction: the transaction.
        topic: the topic.
        prefixes: prefixes of group ids, one of which must match; None: all groups.
        fresh_since_ms: a log end that was last reported before this time is stale.
    """
    wanted = {
        "topic": topic,
        "prefixes": None if prefixes is None else list(prefixes),
        "fresh_since_ms": fresh_since_ms,
    }
    partition_count, log_start_offset = transaction.execute(_METADATA, wanted).first() or (None, None)
    partitions = [TopicPartition(*row) for row in transaction.execute(_PARTITIONS, wanted)]
    groups = [TopicGroup(*row) for row in transaction.execute(_GROUPS, wanted)]
    return TopicUse(partition_count, log_start_offset, partitions, groups)
