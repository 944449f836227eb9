-- Who was put out and came back within a minute, so was alive all the time?
-- The same consumer is the same instance id; of members without one, the same client id from the same host.
CREATE OR REPLACE VIEW dashboards.spurious_evictions AS
SELECT
    gone.group_id,
    gone.shard_id,
    gone.group_instance_id,
    gone.client_id,
    gone.client_host,
    gone.member_id,
    gone.end_reason,
    gone.session_timeout_ms,
    gone.heartbeat_gap_ms_max,
    gone.last_heartbeat_at,
    gone.ended_at AS evicted_at,
    back.joined_at AS back_at,
    back.member_id AS back_as
FROM member_sessions AS gone
CROSS JOIN LATERAL (
    SELECT stay.member_id, stay.joined_at
    FROM (
        SELECT group_id, member_id, group_instance_id, client_id, client_host, joined_at
        FROM members
        UNION ALL
        SELECT group_id, member_id, group_instance_id, client_id, client_host, joined_at
        FROM member_sessions
        WHERE ended_at >= gone.ended_at
    ) AS stay
    WHERE stay.group_id = gone.group_id
        AND stay.member_id <> gone.member_id
        AND stay.joined_at >= gone.ended_at
        AND stay.joined_at <= gone.ended_at + interval '1 minute'
        AND stay.group_instance_id IS NOT DISTINCT FROM gone.group_instance_id
        AND (gone.group_instance_id IS NOT NULL
            OR (stay.client_id, stay.client_host) = (gone.client_id, gone.client_host))
    ORDER BY stay.joined_at
    LIMIT 1
) AS back
WHERE gone.end_reason IN ('session_expired', 'rebalance_timeout', 'sync_timeout');
-- Which groups lose offsets within a week if nobody commits and they stay as they are, how many, and when first?
-- This is what the newest run of offset_retention found; has_changed: the group is in another state since, or gone.
-- A run as of an instant to come counts from that instant on.
CREATE OR REPLACE VIEW dashboards.offsets_expiring AS
SELECT
    forecast.group_id,
    forecast.shard_id,
    groups.state,
    groups.state_since,
    forecast.within_a_day,
    forecast.within_a_week,
    forecast.next_at,
    newest.as_of,
    coalesce(groups.state_since > newest.as_of, true) AS has_changed
FROM (
    SELECT run_id, as_of
    FROM maintenance_runs
    WHERE kind = 'offset_retention' AND as_of <= now()
    ORDER BY as_of DESC
    LIMIT 1
) AS newest
JOIN offset_expiry_forecasts AS forecast USING (run_id)
LEFT JOIN groups USING (group_id);
