-- Which member owns, or owned, which partitions of a group, from when to when?
-- valid_to is NULL while the ownership lasts.
CREATE VIEW dashboards.ownership AS
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
