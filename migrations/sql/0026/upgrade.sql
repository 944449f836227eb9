-- A database may mirror the groups of a Kafka cluster. What its log does not say is null, or marked as inferred.

CREATE TABLE mirrored_cluster (
    only_row    boolean PRIMARY KEY DEFAULT true,
    cluster_id  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    CONSTRAINT mirrored_cluster_only_row CHECK (only_row)
);

CREATE TABLE mirror_positions (
    shard_id     smallint PRIMARY KEY,
    base         bigint NOT NULL,
    groups_seq   bigint NOT NULL,
    offsets_seq  bigint NOT NULL,
    read_at      timestamptz NOT NULL
) WITH (fillfactor = 50);

ALTER TABLE rebalances
    ADD COLUMN is_trigger_inferred boolean NOT NULL DEFAULT false,
    ADD COLUMN is_start_inferred boolean NOT NULL DEFAULT false;
ALTER TABLE rebalance_members ALTER COLUMN waited_for_ms DROP NOT NULL;
ALTER TABLE member_sessions
    ALTER COLUMN heartbeat_count DROP NOT NULL,
    ALTER COLUMN heartbeat_gap_histogram DROP NOT NULL;

ALTER TABLE groups DROP CONSTRAINT groups_rebalance_trigger;
ALTER TABLE groups ADD CONSTRAINT groups_rebalance_trigger CHECK (
    rebalance_trigger IN (
        'member_joined', 'member_left', 'session_expired', 'member_left_or_expired', 'rebalance_timeout',
        'sync_timeout', 'subscription_changed', 'leader_rejoined', 'static_member_replaced', 'partitions_changed',
        'over_capacity', 'database_restored', 'admin'
    )
) NOT VALID;
ALTER TABLE groups VALIDATE CONSTRAINT groups_rebalance_trigger;
