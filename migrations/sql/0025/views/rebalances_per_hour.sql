-- How often did each group rebalance in each hour of the last seven days, and why?
-- A rebalance counts in the hour (UTC) in which it was completed. Older ones are in the table rebalances.
CREATE VIEW dashboards.rebalances_per_hour AS
SELECT
    group_id,
    shard_id,
    date_trunc('hour', completed_at, 'UTC') AS hour,
    trigger,
    count(*) AS rebalances,
    count(*) FILTER (WHERE outcome = 'completed') AS completed,
    count(*) FILTER (WHERE outcome = 'emptied') AS emptied,
    count(*) FILTER (WHERE outcome = 'abandoned') AS abandoned,
    sum(restarts) AS restarts,
    sum(partitions_moved) AS partitions_moved,
    floor(extract(epoch FROM sum(completed_at - started_at)) * 1000)::bigint AS took_total_ms,
    floor(extract(epoch FROM max(completed_at - started_at)) * 1000)::bigint AS took_max_ms
FROM rebalances
WHERE completed_at >= date_trunc('hour', now(), 'UTC') - interval '7 days'
GROUP BY group_id, shard_id, date_trunc('hour', completed_at, 'UTC'), trigger;
