DROP TABLE quarantined_offsets, shard_checkpoints, offset_log;
ALTER SEQUENCE commit_version CACHE 1000;
