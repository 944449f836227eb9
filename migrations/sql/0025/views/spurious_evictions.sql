-- Which members were evicted and reconnected within a minute, so were alive all the time?
-- The same consumer is the same instance id; of members without one, the same client id from the same host. A member
-- whose successor joined between its last heartbeat and its eviction was dead, and has no row. A consumer that
-- reconnected has a session that ends within the hour, or is a member now, so no later rows are read.
CREATE VIEW dashboards.spurious_evictions AS
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
    came.joined_at AS reconnected_at,
    came.member_id AS reconnected_as
FROM member_sessions AS gone
CROSS JOIN LATERAL (
    SELECT stay.member_id, stay.joined_at
    FROM (
        SELECT group_id, member_id, group_instance_id, client_id, client_host, joined_at
        FROM members
        UNION ALL
        SELECT group_id, member_id, group_instance_id, client_id, client_host, joined_at
        FROM member_sessions
        WHERE ended_at >= coalesce(gone.last_heartbeat_at, gone.started_at)
            AND ended_at <= gone.ended_at + interval '2 hours 1 minute'
    ) AS stay
    WHERE stay.group_id = gone.group_id
        AND stay.member_id <> gone.member_id
        AND stay.joined_at > coalesce(gone.last_heartbeat_at, gone.started_at)
        AND stay.joined_at <= gone.ended_at + interval '1 minute'
        AND stay.group_instance_id IS NOT DISTINCT FROM gone.group_instance_id
        AND (gone.group_instance_id IS NOT NULL
            OR (stay.client_id, stay.client_host) = (gone.client_id, gone.client_host))
    ORDER BY stay.joined_at
    LIMIT 1
) AS came
WHERE gone.end_reason IN ('session_expired', 'rebalance_timeout', 'sync_timeout') AND came.joined_at >= gone.ended_at;
