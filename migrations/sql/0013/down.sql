-- Whom did the last rebalances of each group wait for, and for how long?
-- The last twenty of a group that exists, and of each the three members that were waited for longest.
DROP VIEW dashboards.slowest_members;
CREATE VIEW dashboards.slowest_members AS
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
    part.outcome
FROM groups
CROSS JOIN LATERAL (
    SELECT rebalance_id, started_at, completed_at, trigger
    FROM rebalances
    WHERE rebalances.group_id = groups.group_id
    ORDER BY rebalances.completed_at DESC
    LIMIT 20
) AS past
CROSS JOIN LATERAL (
    SELECT member_id, group_instance_id, client_id, waited_for_ms, joined_after_ms, synced_after_ms, outcome
    FROM rebalance_members AS each
    WHERE each.rebalance_id = past.rebalance_id AND each.completed_at = past.completed_at AND each.waited_for_ms > 0
    ORDER BY each.waited_for_ms DESC, each.member_id
    LIMIT 3
) AS part;
ALTER TABLE timeout_advice DROP COLUMN recommendations;
ALTER TABLE timeout_advice_staging DROP COLUMN recommendations;
ALTER TABLE rebalance_frequency_reports
    DROP COLUMN lived_ms,
    DROP COLUMN waited_for_client_host,
    DROP COLUMN waited_for_members;
ALTER TABLE rebalance_frequency_reports_staging
    DROP COLUMN lived_ms,
    DROP COLUMN waited_for_client_host,
    DROP COLUMN waited_for_members;
ALTER TABLE rebalance_members DROP COLUMN client_host;
