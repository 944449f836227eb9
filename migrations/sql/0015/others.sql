ALTER TABLE topics
    DROP CONSTRAINT IF EXISTS topics_numbers,
    ADD CONSTRAINT topics_numbers CHECK (partitions > 0 AND log_start_offset >= 0) NOT VALID;
ALTER TABLE versions
    DROP CONSTRAINT IF EXISTS versions_shard_count,
    ADD CONSTRAINT versions_shard_count CHECK (shard_count BETWEEN 1 AND 10000) NOT VALID;
ALTER TABLE maintenance_runs
    DROP CONSTRAINT IF EXISTS maintenance_runs_status,
    DROP CONSTRAINT IF EXISTS maintenance_runs_counts,
    ADD CONSTRAINT maintenance_runs_status
        CHECK (status IN ('proposed', 'applying', 'applied', 'rejected', 'failed')) NOT VALID,
    ADD CONSTRAINT maintenance_runs_counts CHECK (jsonb_typeof(counts) = 'object') NOT VALID;
