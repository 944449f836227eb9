-- What state is each group in, what is its lag, and when and why did it last rebalance?
-- lag_records is NULL while no log end is known, and at most the largest bigint. A log end that was not reported for
-- log_end_max_age is stale: lag_records is then a lower bound (is_lag_lower_bound), and NULL where that is 0.
-- log_end_at is the oldest of the last reports. A rebalance in progress comes first: its outcome is NULL.
CREATE VIEW dashboards.group_overview AS
SELECT
    groups.group_id,
    groups.state,
    groups.state_since,
    groups.generation,
    groups.protocol_type,
    groups.protocol_name,
    groups.member_count,
    lag.partitions AS partitions_committed,
    CASE WHEN lag.lag_records > 0 OR NOT lag.is_lag_lower_bound THEN lag.lag_records END AS lag_records,
    lag.last_committed_at,
    coalesce(groups.rebalance_started_at, past.started_at) AS last_rebalance_at,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.trigger ELSE groups.rebalance_trigger END
        AS last_rebalance_trigger,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.trigger_member_id END AS last_rebalance_trigger_member_id,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.client_reason END AS last_rebalance_client_reason,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.outcome END AS last_rebalance_outcome,
    leases.node_id,
    groups.shard_id,
    lag.is_lag_lower_bound,
    lag.log_end_at
FROM groups
JOIN shard_leases AS leases USING (shard_id)
LEFT JOIN (
    SELECT
        group_id,
        count(*) AS partitions,
        CASE WHEN count(log_end_offset) > 0
            THEN least(sum(greatest(log_end_offset - committed_offset, 0)), 9223372036854775807)::bigint
        END AS lag_records,
        bool_or(log_end_at < now() - (SELECT dashboards.log_end_max_age())) AS is_lag_lower_bound,
        min(log_end_at) AS log_end_at,
        max(committed_at) AS last_committed_at
    FROM dashboards.known_log_ends
    GROUP BY group_id
) AS lag USING (group_id)
LEFT JOIN LATERAL (
    SELECT started_at, trigger, trigger_member_id, client_reason, outcome
    FROM rebalances
    WHERE rebalances.group_id = groups.group_id
    ORDER BY completed_at DESC
    LIMIT 1
) AS past ON true;
