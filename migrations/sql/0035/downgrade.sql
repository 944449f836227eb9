-- Which known log ends of a partition tell when it passed the group's committed offset?
-- Of what the group and trusted reporters of any group reported: the last log end that is not beyond the committed
-- offset, the first one after that, and the newest. Except for the newest, none that was reported before `since`.
CREATE OR REPLACE FUNCTION dashboards.log_ends_around(of_group text, of_topic text, of_partition integer, since timestamptz)
RETURNS TABLE (at timestamptz, log_end_offset bigint)
LANGUAGE sql STABLE
AS $$
SELECT ends.at, ends.log_end_offset
FROM (
    SELECT
        offsets.committed_offset,
        CASE WHEN offsets.log_end_offset IS NOT NULL
            THEN greatest(offsets.log_end_offset, offsets.committed_offset) END AS own_end,
        coalesce(offsets.log_end_at, offsets.committed_at) AS own_at,
        trusted.log_end_offset AS trusted_end,
        trusted.reported_at AS trusted_at,
        greatest(since, trusted.first_reported_at) AS trusted_since
    FROM public.offsets
    LEFT JOIN public.log_end_offsets AS trusted USING (topic, partition)
    WHERE offsets.group_id = of_group AND offsets.topic = of_topic AND offsets.partition = of_partition
) AS present
LEFT JOIN LATERAL (
    SELECT past.at, greatest(past.log_end_offset, past.committed_offset) AS log_end
    FROM public.offset_history AS past
    WHERE past.group_id = of_group AND past.topic = of_topic AND past.partition = of_partition AND past.at >= since
        AND past.log_end_offset IS NOT NULL
        AND greatest(past.log_end_offset, past.committed_offset) <= present.committed_offset
        AND present.own_end > present.committed_offset
    ORDER BY past.at DESC
    LIMIT 1
) AS own_before ON true
LEFT JOIN LATERAL (
    SELECT past.at, greatest(past.log_end_offset, past.committed_offset) AS log_end
    FROM public.offset_history AS past
    WHERE past.group_id = of_group AND past.topic = of_topic AND past.partition = of_partition AND past.at >= since
        AND past.log_end_offset IS NOT NULL
        AND greatest(past.log_end_offset, past.committed_offset) > present.committed_offset
        AND past.at > coalesce(own_before.at, '-infinity')
        AND present.own_end > present.committed_offset
    ORDER BY past.at
    LIMIT 1
) AS own_after ON true
LEFT JOIN LATERAL (
    SELECT past.at, past.log_end_offset AS log_end
    FROM public.log_end_history AS past
    WHERE past.topic = of_topic AND past.partition = of_partition
        AND past.at >= present.trusted_since
        AND past.log_end_offset <= present.committed_offset AND present.trusted_end > present.committed_offset
    ORDER BY past.log_end_offset DESC, past.at DESC
    LIMIT 1
) AS trusted_before ON true
LEFT JOIN LATERAL (
    SELECT past.at, past.log_end_offset AS log_end
    FROM public.log_end_history AS past
    WHERE past.topic = of_topic AND past.partition = of_partition
        AND past.at >= present.trusted_since
        AND past.log_end_offset > present.committed_offset AND present.trusted_end > present.committed_offset
    ORDER BY past.log_end_offset, past.at
    LIMIT 1
) AS trusted_after ON true
CROSS JOIN LATERAL (VALUES
    (own_before.at, own_before.log_end),
    (own_after.at, own_after.log_end),
    (present.own_at, present.own_end),
    (trusted_before.at, trusted_before.log_end),
    (trusted_after.at, trusted_after.log_end),
    (present.trusted_at, present.trusted_end)
) AS ends (at, log_end_offset)
WHERE ends.log_end_offset IS NOT NULL
$$;

-- What state is each group in, what is its lag, and when and why did it last rebalance?
-- lag_records is NULL while no log end is known, and at most the largest bigint. A log end that was not reported for
-- log_end_max_age is stale: lag_records is then a lower bound (is_lag_lower_bound), and NULL where that is 0.
-- log_end_at is the oldest of the last reports. A rebalance in progress comes first: its outcome is NULL.
CREATE OR REPLACE VIEW dashboards.group_overview AS
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
