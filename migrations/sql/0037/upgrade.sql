-- Which consumers did the last rebalances of each group wait for, and for how long?
-- The last twenty rebalances of a group that exists, none of a former one of its name, and of each the three consumers
-- that it waited for longest. A consumer is an instance id, or else a client id and a host: a process in a crash loop has
-- a new member id each time. member_id and the columns of rebalance_members are those of its member that was waited for
-- longest.
CREATE OR REPLACE VIEW dashboards.slowest_members AS
SELECT
    groups.group_id,
    groups.shard_id,
    past.rebalance_id,
    past.started_at,
    past.completed_at,
    past.trigger,
    floor(extract(epoch FROM past.completed_at - past.started_at) * 1000)::bigint AS took_ms,
    part.member_id,
    part.group_instance_id,
    part.client_id,
    part.waited_for_ms,
    part.joined_after_ms,
    part.synced_after_ms,
    part.outcome,
    part.client_host,
    part.member_count
FROM groups
CROSS JOIN LATERAL (
    SELECT rebalance_id, started_at, completed_at, trigger
    FROM rebalances
    WHERE rebalances.group_id = groups.group_id AND rebalances.group_created_at = groups.created_at
    ORDER BY rebalances.completed_at DESC
    LIMIT 20
) AS past
CROSS JOIN LATERAL (
    SELECT *
    FROM (
        SELECT
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.joined_after_ms,
            each.synced_after_ms,
            each.outcome,
            (sum(each.waited_for_ms) OVER consumer)::bigint AS waited_for_ms,
            (count(*) OVER consumer)::integer AS member_count,
            row_number() OVER (consumer ORDER BY each.waited_for_ms DESC, each.member_id) AS place
        FROM rebalance_members AS each
        WHERE each.rebalance_id = past.rebalance_id AND each.completed_at = past.completed_at
            AND each.waited_for_ms > 0
        WINDOW consumer AS (
            PARTITION BY
                each.group_instance_id,
                CASE WHEN each.group_instance_id IS NULL THEN each.client_id END,
                CASE WHEN each.group_instance_id IS NULL THEN each.client_host END
        )
    ) AS members
    WHERE members.place = 1
    ORDER BY members.waited_for_ms DESC, members.member_id
    LIMIT 3
) AS part;
