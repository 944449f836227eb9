-- Which members own no partition while others of their group do, and since when?
-- Stable groups only: their assignment was accepted when they became Stable. A group with more members than partitions
-- must have some.
CREATE OR REPLACE VIEW dashboards.idle_members AS
SELECT
    members.group_id,
    members.shard_id,
    members.member_id,
    members.group_instance_id,
    members.client_id,
    members.client_host,
    groups.state_since AS assigned_since,
    spread.members_with_partitions,
    spread.partitions,
    groups.member_count
FROM groups
JOIN members USING (group_id)
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT other.member_id) AS members_with_partitions,
        sum(jsonb_array_length(span -> 'partitions')) AS partitions
    FROM members AS other
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE jsonb_typeof(other.ownership) WHEN 'array' THEN other.ownership END
    ) AS span
    WHERE other.group_id = members.group_id AND jsonb_array_length(span -> 'partitions') > 0
) AS spread
WHERE groups.state = 'Stable' AND members.ownership = '[]' AND spread.members_with_partitions > 0;

-- Which member owns, or owned, which partitions of a group, from when to when?
-- valid_to is NULL while the ownership lasts.
CREATE OR REPLACE VIEW dashboards.ownership AS
SELECT
    group_id, shard_id, group_created_at, rebalance_id, generation, member_id, topic, partitions, valid_from, valid_to
FROM partition_ownership
UNION ALL
SELECT
    members.group_id,
    members.shard_id,
    groups.created_at,
    (span ->> 'rebalance_id')::uuid,
    (span ->> 'generation')::integer,
    members.member_id,
    span ->> 'topic',
    ARRAY(SELECT value::integer FROM jsonb_array_elements_text(span -> 'partitions')),
    to_timestamp((span ->> 'since_ms')::double precision / 1000),
    NULL::timestamptz
FROM members
JOIN groups USING (group_id)
CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(members.ownership) WHEN 'array' THEN members.ownership END
) AS span;

-- Which groups are rebalancing, since when, why, until when at the latest, and which members are awaited?
-- Awaited members have not joined (awaited_phase join) or not synced (sync). The awaited_ arrays have an entry for each
-- member, in one order; in a sync phase the leader comes first. They are NULL while a rebalance is young
-- (MUSTER_AWAITED_MEMBERS_AFTER_MS) and where no member is awaited. The last_waited_for_ columns are about the previous
-- rebalance, of this group and none of a former one of its name. phase_deadline_at follows from the rebalance timeout of
-- the group's or the cluster's settings, with the bounds of nodes, else from the longest that a member requested.
CREATE OR REPLACE VIEW dashboards.rebalancing_groups AS
SELECT
    groups.group_id,
    groups.shard_id,
    groups.state,
    groups.state_since,
    groups.rebalance_started_at,
    groups.rebalance_trigger,
    groups.rebalance -> 'in_progress' ->> 'trigger_member_id' AS trigger_member_id,
    groups.rebalance -> 'in_progress' ->> 'client_reason' AS client_reason,
    (groups.rebalance -> 'in_progress' ->> 'restarts')::integer AS restarts,
    groups.member_count,
    limits.rebalance_timeout_ms,
    groups.state_since + limits.rebalance_timeout_ms * interval '1 ms' AS phase_deadline_at,
    last.client_id AS last_waited_for_client_id,
    last.group_instance_id AS last_waited_for_instance_id,
    last.waited_for_ms AS last_waited_for_ms,
    leases.node_id,
    nodes.listeners ->> 'http' AS node_url,
    groups.awaited_members ->> 'phase' AS awaited_phase,
    to_timestamp((groups.awaited_members ->> 'since_ms')::bigint / 1000.0) AS awaited_since,
    (groups.awaited_members ->> 'count')::integer AS awaited_count,
    awaited.member_ids AS awaited_member_ids,
    awaited.instance_ids AS awaited_instance_ids,
    awaited.client_ids AS awaited_client_ids,
    awaited.client_hosts AS awaited_client_hosts
FROM groups
JOIN shard_leases AS leases USING (shard_id)
LEFT JOIN nodes USING (node_id)
CROSS JOIN LATERAL (
    SELECT coalesce(
        (SELECT least(greatest(value::bigint, 1000), 2147483647)
        FROM group_configs
        WHERE group_id = groups.group_id AND key = 'rebalance_timeout_ms' AND value ~ '^-?[0-9]{1,18}$'),
        (SELECT least(greatest(value::bigint, 1000), 2147483647)
        FROM cluster_configs
        WHERE key = 'rebalance_timeout_ms' AND value ~ '^-?[0-9]{1,18}$'),
        (SELECT max(rebalance_timeout_ms) FROM members WHERE group_id = groups.group_id)
    ) AS rebalance_timeout_ms
) AS limits
LEFT JOIN LATERAL (
    SELECT part.client_id, part.group_instance_id, part.waited_for_ms
    FROM (
        SELECT rebalance_id, completed_at
        FROM rebalances
        WHERE group_id = groups.group_id AND group_created_at = groups.created_at
        ORDER BY completed_at DESC
        LIMIT 1
    ) AS past
    JOIN rebalance_members AS part USING (rebalance_id, completed_at)
    WHERE part.waited_for_ms > 0
    ORDER BY part.waited_for_ms DESC, part.member_id
    LIMIT 1
) AS last ON true
CROSS JOIN LATERAL (
    SELECT
        array_agg(member ->> 'member_id' ORDER BY place) AS member_ids,
        array_agg(member ->> 'group_instance_id' ORDER BY place) AS instance_ids,
        array_agg(member ->> 'client_id' ORDER BY place) AS client_ids,
        array_agg(member ->> 'client_host' ORDER BY place) AS client_hosts
    FROM jsonb_array_elements(groups.awaited_members -> 'members') WITH ORDINALITY AS each (member, place)
) AS awaited
WHERE groups.state IN ('PreparingRebalance', 'CompletingRebalance');
