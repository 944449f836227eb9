ALTER TABLE offsets
    DROP CONSTRAINT IF EXISTS offsets_numbers,
    DROP CONSTRAINT IF EXISTS offsets_committed_at,
    ADD CONSTRAINT offsets_numbers CHECK (
        shard_id BETWEEN 0 AND 9999 AND partition >= 0 AND committed_offset >= 0 AND leader_epoch >= -1
        AND log_end_offset >= 0
    ) NOT VALID,
    ADD CONSTRAINT offsets_committed_at
        CHECK (committed_at >= '1970-01-01 00:00:00+00' AND committed_at < '10000-01-01 00:00:00+00') NOT VALID;
