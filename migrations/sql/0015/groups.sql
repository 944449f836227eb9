ALTER TABLE groups
    DROP CONSTRAINT IF EXISTS groups_shard_id,
    DROP CONSTRAINT IF EXISTS groups_state,
    DROP CONSTRAINT IF EXISTS groups_settled_state,
    DROP CONSTRAINT IF EXISTS groups_counts,
    DROP CONSTRAINT IF EXISTS groups_times,
    DROP CONSTRAINT IF EXISTS groups_subscribed_topics,
    DROP CONSTRAINT IF EXISTS groups_rebalance_trigger,
    DROP CONSTRAINT IF EXISTS groups_rebalance,
    ADD CONSTRAINT groups_shard_id CHECK (shard_id BETWEEN 0 AND 9999) NOT VALID,
    ADD CONSTRAINT groups_state
        CHECK (state IN ('Empty', 'PreparingRebalance', 'CompletingRebalance', 'Stable')) NOT VALID,
    ADD CONSTRAINT groups_settled_state CHECK (settled_state IN ('Empty', 'CompletingRebalance', 'Stable')) NOT VALID,
    ADD CONSTRAINT groups_counts CHECK (generation >= 0 AND member_count >= 0 AND topics_version >= 0) NOT VALID,
    ADD CONSTRAINT groups_times CHECK (
        state_since >= '1970-01-01 00:00:00+00' AND state_since < '10000-01-01 00:00:00+00'
        AND created_at >= '1970-01-01 00:00:00+00' AND created_at < '10000-01-01 00:00:00+00'
        AND rebalance_started_at >= '1970-01-01 00:00:00+00' AND rebalance_started_at < '10000-01-01 00:00:00+00'
    ) NOT VALID,
    ADD CONSTRAINT groups_subscribed_topics CHECK (array_position(subscribed_topics, NULL) IS NULL) NOT VALID,
    ADD CONSTRAINT groups_rebalance_trigger CHECK (rebalance_trigger IN (
        'member_joined', 'member_left', 'session_expired', 'rebalance_timeout', 'sync_timeout', 'subscription_changed',
        'leader_rejoined', 'static_member_replaced', 'partitions_changed', 'over_capacity', 'store_failed',
        'database_restored', 'admin'
    )) NOT VALID,
    ADD CONSTRAINT groups_rebalance CHECK (jsonb_typeof(rebalance) = 'object') NOT VALID;
