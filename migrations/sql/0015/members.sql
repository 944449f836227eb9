ALTER TABLE members
    DROP CONSTRAINT IF EXISTS members_shard_id,
    DROP CONSTRAINT IF EXISTS members_timeouts,
    DROP CONSTRAINT IF EXISTS members_position,
    DROP CONSTRAINT IF EXISTS members_joined_at,
    DROP CONSTRAINT IF EXISTS members_protocols,
    DROP CONSTRAINT IF EXISTS members_held,
    ADD CONSTRAINT members_shard_id CHECK (shard_id BETWEEN 0 AND 9999) NOT VALID,
    ADD CONSTRAINT members_timeouts CHECK (session_timeout_ms > 0 AND rebalance_timeout_ms >= 0) NOT VALID,
    ADD CONSTRAINT members_position CHECK (position >= 0) NOT VALID,
    ADD CONSTRAINT members_joined_at
        CHECK (joined_at >= '1970-01-01 00:00:00+00' AND joined_at < '10000-01-01 00:00:00+00') NOT VALID,
    ADD CONSTRAINT members_protocols CHECK (
        cardinality(protocol_names) = cardinality(protocol_metadata)
        AND array_position(protocol_names, NULL) IS NULL AND array_position(protocol_metadata, NULL) IS NULL
    ) NOT VALID,
    ADD CONSTRAINT members_held CHECK (jsonb_typeof(held) = 'array') NOT VALID;
