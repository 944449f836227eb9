"""Queries of the proposing jobs, which preselect rows in Postgres.

Rules:

* A query may return more rows than the rule selects, and never fewer: Spark applies the rule to every row.
* Joins run in Postgres, so an offset, its group and their settings are read in one snapshot.
* Of a group's subscribed topics, an offset has its own at most: there may be thousands, in each of millions of rows.
* Every query returns `shard_id`, by which Spark reads it in parallel.
"""

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.states import EMPTY, STABLE

RETENTION_KEY = "offsets_retention_minutes"

_OFFSETS_WITH_GROUPS = f"""(
SELECT stored.group_id, stored.shard_id, topic, partition, commit_version, committed_at, expires_at,
    generation, state, state_since, protocol_type,
    CASE WHEN topic = ANY (subscribed_topics) THEN ARRAY[topic]
        WHEN subscribed_topics IS NOT NULL THEN ARRAY[]::text[] END AS subscribed_topics,
    own.value AS group_retention, common.value AS cluster_retention
FROM offsets AS stored LEFT JOIN groups AS owner ON owner.group_id = stored.group_id
LEFT JOIN group_configs AS own ON own.group_id = stored.group_id AND own.key = '{RETENTION_KEY}'
LEFT JOIN cluster_configs AS common ON common.key = '{RETENTION_KEY}'
WHERE (owner.group_id IS NULL OR state = '{EMPTY.value}'
        OR (state = '{STABLE.value}' AND protocol_type = '{CONSUMER}' AND NOT topic = ANY (subscribed_topics)))
    AND ({{can_be_due}})
) AS offsets_that_can_be_due"""  # noqa: S608 - words of the protocol

EMPTY_GROUPS = f"""(
SELECT group_id, shard_id, generation, state, state_since,
    EXISTS (SELECT FROM offsets WHERE offsets.group_id = groups.group_id) AS has_offsets
FROM groups WHERE state = '{EMPTY.value}'
) AS empty_groups"""  # noqa: S608 - likewise
"""One row per Empty group; whether it has offsets is looked up in the index."""

OFFSET_COUNT = "SELECT count(*) FROM offsets"
GROUP_COUNT = "SELECT count(*) FROM groups"

LARGEST_EXPIRY = """
SELECT coalesce(max(candidates), 0)::bigint, coalesce(max(permille), 0)::bigint
FROM (
    SELECT candidates,
        CASE WHEN candidates >= %(share_from)s THEN ceil(candidates * 1000.0 / nullif(
            (SELECT count(*) FROM offsets WHERE offsets.group_id = by_group.group_id), 0
        )) END AS permille
    FROM (
        SELECT group_id, count(*) AS candidates FROM expiry_candidates WHERE run_id = %(run_id)s GROUP BY group_id
    ) AS by_group
) AS shares
"""
"""The most candidates of one group, and the greatest share of a group's offsets, in thousandths, rounded up.

A share is only computed for groups with at least so many candidates: of a handful, every share is large.
"""


def offsets_that_can_be_due(until_ms: int, least_retention_ms: int | None) -> str:
    """Return the query for offsets, with their groups, that may be due at an instant.

    Args:
        until_ms: The instant, as Unix time in milliseconds.
        least_retention_ms: The shortest retention of any level; None if all keep offsets forever.
    """
    own_expiry = f"expires_at < to_timestamp({(until_ms + 1) / 1000})"
    if least_retention_ms is None:
        return _OFFSETS_WITH_GROUPS.format(can_be_due=own_expiry)
    begun_by = f"to_timestamp({max(0, until_ms + 1 - least_retention_ms) / 1000})"
    # The rule counts from one of the two, so at least from the earlier one.
    by_retention = f"expires_at IS NULL AND least(committed_at, state_since) < {begun_by}"
    return _OFFSETS_WITH_GROUPS.format(can_be_due=f"{own_expiry} OR ({by_retention})")
