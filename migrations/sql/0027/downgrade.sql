-- A mirror that has polled a rebalance cannot be used by the release before.
ALTER TABLE groups DROP CONSTRAINT groups_rebalance_trigger;
ALTER TABLE groups ADD CONSTRAINT groups_rebalance_trigger CHECK (
    rebalance_trigger IN (
        'member_joined', 'member_left', 'session_expired', 'member_left_or_expired', 'rebalance_timeout',
        'sync_timeout', 'subscription_changed', 'leader_rejoined', 'static_member_replaced', 'partitions_changed',
        'over_capacity', 'database_restored', 'admin'
    )
) NOT VALID;
ALTER TABLE groups VALIDATE CONSTRAINT groups_rebalance_trigger;
ALTER TABLE mirrored_cluster DROP COLUMN source;
DROP TABLE other_groups;
