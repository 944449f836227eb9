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
