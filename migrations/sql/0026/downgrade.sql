-- A mirror's database cannot be used by the release before; its rows are read from Kafka again.
DO $$
BEGIN
    IF EXISTS (SELECT FROM mirrored_cluster) THEN
        RAISE EXCEPTION 'the database mirrors a Kafka cluster, which the release before cannot';
    END IF;
END
$$;

ALTER TABLE groups DROP CONSTRAINT groups_rebalance_trigger;
ALTER TABLE groups ADD CONSTRAINT groups_rebalance_trigger CHECK (
    rebalance_trigger IN (
        'member_joined', 'member_left', 'session_expired', 'rebalance_timeout', 'sync_timeout',
        'subscription_changed', 'leader_rejoined', 'static_member_replaced', 'partitions_changed',
        'over_capacity', 'database_restored', 'admin'
    )
);
ALTER TABLE member_sessions
    ALTER COLUMN heartbeat_gap_histogram SET NOT NULL,
    ALTER COLUMN heartbeat_count SET NOT NULL;
ALTER TABLE rebalance_members ALTER COLUMN waited_for_ms SET NOT NULL;
ALTER TABLE rebalances DROP COLUMN is_start_inferred, DROP COLUMN is_trigger_inferred;
DROP TABLE mirror_positions;
DROP TABLE mirrored_cluster;
