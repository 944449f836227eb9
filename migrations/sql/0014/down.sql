DROP VIEW dashboards.unsettled_groups;

ALTER TABLE groups DROP COLUMN awaited_members;

-- Which groups are in the middle of a rebalance, since when, why, until when at the latest, and who can say more?
-- Whom a group waits for now is in the memory of its node: ask node_url, GET /v1/groups/{group_id}, waiting_for. Stored
-- is whom its last rebalance waited for longest, which is often the same. settles_by goes by the rebalance timeout of
-- the group's or the cluster's configuration, else by the longest that a member asked for.
CREATE OR REPLACE VIEW dashboards.unsettled_groups AS
SELECT
    groups.group_id,
    groups.shard_id,
    groups.state,
    groups.state_since,
    groups.rebalance_started_at,
    groups.rebalance_trigger,
    groups.rebalance -> 'under_way' ->> 'trigger_member_id' AS trigger_member_id,
    groups.rebalance -> 'under_way' ->> 'client_reason' AS client_reason,
    (groups.rebalance -> 'under_way' ->> 'restarts')::integer AS restarts,
    groups.member_count,
    limits.rebalance_timeout_ms,
    groups.state_since + limits.rebalance_timeout_ms * interval '1 ms' AS settles_by,
    last.client_id AS last_waited_for_client_id,
    last.group_instance_id AS last_waited_for_instance_id,
    last.waited_for_ms AS last_waited_for_ms,
    leases.node_id,
    nodes.url AS node_url
FROM groups
JOIN shard_leases AS leases USING (shard_id)
LEFT JOIN nodes USING (node_id)
CROSS JOIN LATERAL (
    SELECT coalesce(
        (SELECT value::bigint FROM group_configs WHERE group_id = groups.group_id AND key = 'rebalance_timeout_ms'),
        (SELECT value::bigint FROM cluster_config WHERE key = 'rebalance_timeout_ms'),
        (SELECT max(rebalance_timeout_ms) FROM members WHERE group_id = groups.group_id)
    ) AS rebalance_timeout_ms
) AS limits
LEFT JOIN LATERAL (
    SELECT part.client_id, part.group_instance_id, part.waited_for_ms
    FROM (
        SELECT rebalance_id, completed_at
        FROM rebalances
        WHERE group_id = groups.group_id
        ORDER BY completed_at DESC
        LIMIT 1
    ) AS past
    JOIN rebalance_members AS part USING (rebalance_id, completed_at)
    WHERE part.waited_for_ms > 0
    ORDER BY part.waited_for_ms DESC, part.member_id
    LIMIT 1
) AS last ON true
WHERE groups.state IN ('PreparingRebalance', 'CompletingRebalance');
