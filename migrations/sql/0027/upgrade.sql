-- Share and streams groups of a mirrored cluster: their members and generations are not mirrored.
CREATE TABLE other_groups (
    group_id       text COLLATE "C" PRIMARY KEY,
    shard_id       smallint NOT NULL,
    protocol_type  text NOT NULL,
    state          text NOT NULL,
    state_since    timestamptz NOT NULL,
    epoch          integer,
    member_count   integer
);
CREATE INDEX other_groups_shard_id ON other_groups (shard_id);

ALTER TABLE mirrored_cluster ADD COLUMN source text NOT NULL DEFAULT 'topic';

-- A rebalance that a poll has seen has no trigger until its generation is known.
ALTER TABLE groups DROP CONSTRAINT groups_rebalance_trigger;
ALTER TABLE groups ADD CONSTRAINT groups_rebalance_trigger CHECK (
    rebalance_trigger IN (
        'member_joined', 'member_left', 'session_expired', 'member_left_or_expired', 'rebalance_timeout',
        'sync_timeout', 'subscription_changed', 'leader_rejoined', 'static_member_replaced', 'partitions_changed',
        'over_capacity', 'unknown', 'database_restored', 'admin'
    )
) NOT VALID;
ALTER TABLE groups VALIDATE CONSTRAINT groups_rebalance_trigger;
