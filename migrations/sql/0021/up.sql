CREATE TABLE writers (
    writer_id  bigint PRIMARY KEY,
    fence      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Not a foreign key: the row of a writer without leases may be deleted while it acquires one.
ALTER TABLE shard_leases ADD COLUMN writer_id bigint;
