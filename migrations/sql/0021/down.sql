ALTER TABLE shard_leases DROP COLUMN writer_id;
DROP TABLE writers;
