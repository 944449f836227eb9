ALTER TABLE groups
    DROP CONSTRAINT groups_shard_id,
    DROP CONSTRAINT groups_state,
    DROP CONSTRAINT groups_settled_state,
    DROP CONSTRAINT groups_counts,
    DROP CONSTRAINT groups_times,
    DROP CONSTRAINT groups_subscribed_topics,
    DROP CONSTRAINT groups_rebalance_trigger,
    DROP CONSTRAINT groups_rebalance;
ALTER TABLE members
    DROP CONSTRAINT members_shard_id,
    DROP CONSTRAINT members_timeouts,
    DROP CONSTRAINT members_position,
    DROP CONSTRAINT members_joined_at,
    DROP CONSTRAINT members_protocols,
    DROP CONSTRAINT members_held;
ALTER TABLE offsets
    DROP CONSTRAINT offsets_numbers,
    DROP CONSTRAINT offsets_committed_at;
ALTER TABLE topics DROP CONSTRAINT topics_numbers;
ALTER TABLE versions DROP CONSTRAINT versions_shard_count;
ALTER TABLE maintenance_runs DROP CONSTRAINT maintenance_runs_status, DROP CONSTRAINT maintenance_runs_counts;
-- Who owns, or owned, which partitions of a group, from when to when?
-- valid_to is null while it lasts.
CREATE OR REPLACE VIEW dashboards.ownership AS
SELECT
    group_id, shard_id, group_created_at, rebalance_id, generation, member_id, topic, partitions, valid_from, valid_to
FROM assignments
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
CROSS JOIN LATERAL jsonb_array_elements(members.held) AS span;
-- Which members hold nothing while others of their group do, and since when?
-- Of groups that are Stable. A group with more members than partitions must have some.
CREATE OR REPLACE VIEW dashboards.idle_members AS
SELECT
    members.group_id,
    members.shard_id,
    members.member_id,
    members.group_instance_id,
    members.client_id,
    members.client_host,
    members.assigned_since,
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
    CROSS JOIN LATERAL jsonb_array_elements(other.held) AS span
    WHERE other.group_id = members.group_id AND jsonb_array_length(span -> 'partitions') > 0
) AS spread
WHERE groups.state = 'Stable' AND members.held = '[]' AND spread.members_with_partitions > 0;
